"""Going into the background once the node answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ottla.model.errors import OttlaError

LOG_NAME: Final = "ottla.log"


def start_detached(folder: Path, node: Callable[[Callable[[str], None]], object]) -> tuple[int, str]:
    """Runs `node` in a process of its own session and waits until it calls what it is given, with its address.

    Gives pid and address. OttlaError with the end of its log if it ends before that. Must be called before anything
    has started a thread or an event loop: the process is a fork.
    """
    log = folder / LOG_NAME
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ready_read)
        be_a_daemon(log)
        run_child(node, ready_write)
    os.close(ready_write)
    with os.fdopen(ready_read) as pipe:
        address = pipe.readline().strip()
    if address:
        return pid, address
    _, status = os.waitpid(pid, 0)
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-10:]) if log.exists() else ""
    code = os.waitstatus_to_exitcode(status)
    raise OttlaError(f"the node did not start (exit code {code}). The end of {log}:\n{tail}")


def be_a_daemon(log: Path) -> None:
    """In a session of its own, so that Ctrl-C at a terminal is not for it."""
    os.setsid()
    sys.stdout.flush()
    sys.stderr.flush()
    null = os.open(os.devnull, os.O_RDONLY)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(null, 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    os.close(null)
    os.close(out)


def run_child(node: Callable[[Callable[[str], None]], object], ready: int, name: str = "ottla") -> None:
    """Never returns: what the caller's stack would do afterwards is the parent's business."""

    def started(address: str) -> None:
        os.write(ready, f"{address}\n".encode())
        os.close(ready)

    code = 1
    try:
        node(started)
        code = 0
    except OttlaError as error:
        print(f"{name}: {error}", file=sys.stderr)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
