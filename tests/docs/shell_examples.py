"""The commands that a page shows, and running them as a reader would."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import psutil
from tests.waiting import attempts

ROOT: Final = Path(__file__).resolve().parents[2]
RUN: Final = ("ottla", "printf")
"""What the commands begin with that are run; others need Java, make or a cluster elsewhere."""
_FENCE: Final = re.compile(r"^```(\w*)$")
_WITHIN_S: Final = 180.0


class Example(NamedTuple):
    line: int
    command: str
    expected: tuple[str, ...]
    """The lines that the page shows below it."""


def examples(page: str) -> list[Example]:
    """Those of indented blocks; lines in the same block below a command are what it prints."""
    found: list[Example] = []
    fenced = in_block = False
    pending = ""
    for number, raw in enumerate(page.splitlines(), start=1):
        if _FENCE.match(raw):
            fenced = not fenced
        if fenced or not raw.startswith("    "):
            in_block = False
            continue
        text = pending + raw.strip()
        if text.endswith("\\"):
            pending = text[:-1]
            continue
        pending = ""
        if text.split()[0] in RUN:
            found.append(Example(number, text, ()))
            in_block = True
        elif in_block:
            found[-1] = found[-1]._replace(expected=(*found[-1].expected, text))
    return found


def fenced_blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)


class Reader:
    """Runs what a page says in a folder of its own, against a node."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        programs = folder / "programs"
        programs.mkdir()
        ottla = programs / "ottla"
        ottla.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla.cli.main "$@"\n')
        ottla.chmod(0o755)
        self.environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "OTTLA_BOOTSTRAP": address,
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TMPDIR": str(folder),
        }

    def run(self, command: str) -> str:
        """All that it prints; it must end by itself, and well."""
        done = subprocess.run(
            ["sh", "-ec", command],
            cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=_WITHIN_S, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def run_until(self, command: str, sign: str | None) -> str:
        """Of one that goes on until Ctrl-C: pressed once it has printed a sign, or after a moment."""
        out = self.folder / "printed"
        with out.open("w") as file:
            process = subprocess.Popen(
                ["sh", "-c", f"exec {command}"],
                cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT, preexec_fn=_heeds_ctrl_c,
            )  # fmt: skip
        for _ in attempts(f"{command} has begun", within_s=_WITHIN_S):
            has_begun = sign in out.read_text(errors="replace") if sign else _is_connected(process.pid)
            if has_begun or process.poll() is not None:
                break
        if process.poll() is None:
            time.sleep(0 if sign else 0.3)
            process.send_signal(signal.SIGINT)
        code = process.wait(_WITHIN_S)
        printed = out.read_text(errors="replace")
        assert code == 0 and (sign is None or sign in printed), f"{command}\n{printed}"
        return printed

    def stop_what_is_left(self) -> None:
        for file in self.folder.rglob("ottla.pid"):
            self.run(f"ottla down --data '{file.parent}'")


def _is_connected(pid: int) -> bool:
    """Whether it, or one of those in its pipe, talks to a node by now."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return any(each.net_connections("tcp4") for each in (process, *process.children(recursive=True)))
    return False


def _heeds_ctrl_c() -> None:
    """In the child: tests that run in the background ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
