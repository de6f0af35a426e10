"""Running a node in the foreground, so that Ctrl-C is an orderly end at any moment."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

BEFORE_START: Final = "Stopped before it had started."


class CtrlC:
    """From its making on Ctrl-C is noted, and looked at where stopping is easy, until the node takes over.

    An exception out of nowhere, as Python has it, may end an import in the middle; and one in code that is made at run
    time, as dataclasses and named tuples are, ends the process by the signal, even if it is caught.
    """

    def __init__(self) -> None:
        self.pressed = False
        signal.signal(signal.SIGINT, self._press)

    def _press(self, number: int, frame: Any) -> None:
        self.pressed = True


def run_node(
    config: BrokerConfig,
    on_started: Callable[[str], None],
    ctrl_c: CtrlC,
    *,
    first: Callable[[], None] = lambda: None,
) -> bool:
    """Returns when the node has been told to stop; False if that was before it had started."""
    from ottla.broker.run import run  # only now: what is wrong with a config is told faster without it

    started = False

    def tell(address: str) -> None:
        nonlocal started
        if ctrl_c.pressed:  # just before the node took over
            os.kill(os.getpid(), signal.SIGINT)
            return
        started = True
        on_started(address)

    if not ctrl_c.pressed:
        first()
    if not ctrl_c.pressed:
        run(config, on_started=tell)
    return started
