"""A node in a process of its own: a fork, so that what all nodes import is imported once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ottla.cli.detach import be_a_daemon, run_child
from ottla.cli.supervise.layout import Place

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

_TAIL: Final = 16 * 1024


class State(Enum):
    STARTING = "starting"
    UP = "up"
    STOPPING = "stopping"
    STOPPED = "stopped"
    ENDED = "ended"
    """By itself, or killed."""


LIVING: Final = frozenset((State.STARTING, State.UP, State.STOPPING))


class Child:
    """`config` says what the node shall be.

    In the fork, `forget` closes what is the supervisor's alone, and `prepare` makes the node's folders ready.
    """

    def __init__(
        self,
        place: Place,
        config: BrokerConfig,
        log: Path | None,
        forget: Callable[[], None],
        prepare: Callable[[], object],
    ) -> None:
        self.place = place
        self.state = State.STOPPED
        self.since = time.monotonic()
        self.pid = 0
        self.why = ""
        """How it ended, of one that was not told to."""
        self.address = f"127.0.0.1:{place.port or place.controller_port}"
        self.ready = -1
        """What becomes readable when it serves."""
        self.log = log
        """Where its output goes; None for where the supervisor's goes."""
        self._config = config
        self._forget = forget
        self._prepare = prepare
        self._log_from = 0

    @property
    def lives(self) -> bool:
        return self.state in LIVING

    def start(self, life: int) -> None:
        """`life` is what the fork reads from until the supervisor is gone."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self.ready, ready = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(life, ready)
        os.close(ready)
        self.why = ""
        self._enter(State.STARTING)

    def _be(self, life: int, ready: int) -> None:
        """In the fork. Never returns."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.close(self.ready)
        self._forget()
        if self.log is None:
            os.setsid()
        else:
            be_a_daemon(self.log)
        threading.Thread(target=_end_with, args=(life,), name="supervisor watch", daemon=True).start()

        def node(started: Callable[[str], None]) -> None:
            from ottla.broker.run import run

            self._prepare()
            run(self._config, on_started=started, among_others=self.log is None)

        run_child(node, ready, "ottla" if self.log is not None else f"Node {self.place.id}")

    def serves(self) -> None:
        """Its pipe can be read: it says that it serves, or has ended before it did."""
        told = os.read(self.ready, 256)
        os.close(self.ready)
        self.ready = -1
        if told and self.state is State.STARTING:
            self.address = told.decode().strip()
            self._enter(State.UP)

    def tell(self, number: int) -> None:
        if self.lives:
            os.kill(self.pid, number)
            if number == signal.SIGTERM:
                self._enter(State.STOPPING)

    def ended(self, code: int) -> None:
        if self.ready >= 0:
            os.close(self.ready)
            self.ready = -1
        if self.state is State.STOPPING and code == 0:
            self._enter(State.STOPPED)
            return
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        error = "" if self.log is None else last_error(self.log, self._log_from, or_last=code >= 0)
        self.why = f"{how}{f': {error}' if error else ''}"
        self._enter(State.ENDED)

    def _enter(self, state: State) -> None:
        self.state = state
        self.since = time.monotonic()

    def memory(self) -> int | None:
        """Resident bytes, where the system tells."""
        try:
            pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return None
        return pages * os.sysconf("SC_PAGE_SIZE")


def last_error(log: Path, begin: int, *, or_last: bool) -> str:
    """The last line of a log that tells of an error, or its last at all if wanted; of what came after `begin`."""
    try:
        with log.open("rb") as file:
            file.seek(max(begin, log.stat().st_size - _TAIL))
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    except OSError:
        return ""
    errors = [line for line in lines if line.startswith("ottla: ") or "ERROR" in line or "Error" in line]
    told = errors or (lines if or_last else [])
    return told[-1].removeprefix("ottla: ") if told else ""


def _end_with(life: int) -> None:
    os.read(life, 1)  # until the supervisor is gone, however it went
    os.kill(os.getpid(), signal.SIGTERM)
