"""Looks at a node while others do their worst: does it live, does it answer, does it keep its size?"""

from __future__ import annotations

import threading
import time
from types import TracebackType

import psutil
from tests.corpus.player import Ending, Player
from tests.waiting import PATIENCE_S

from ottla.testing.process import NodeProcess

_API_VERSIONS = 18
_IMPORTED_AFTER_S = 3.0  # what a node imports in the background after its start is no growth


class Watch:
    """`with Watch(node) as watch`; afterwards `slowest_s`, the longest that a ping took, and `grown`, in bytes."""

    def __init__(self, node: NodeProcess, every_s: float = 0.05) -> None:
        self.slowest_s = 0.0
        self.pings = 0
        self.unanswered = 0
        self.grown = 0
        self._node = node
        self._every_s = every_s
        age_s = time.time() - psutil.Process(node.pid).create_time()
        time.sleep(max(_IMPORTED_AFTER_S - age_s, 0))
        self._before = self._memory()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._ping, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        self.grown = self._memory() - self._before

    def _memory(self) -> int:
        return int(psutil.Process(self._node.pid).memory_info().rss)

    def _ping(self) -> None:
        with Player(self._node.port, {}, patience_s=20) as player:
            while not self._stop.wait(self._every_s):
                began = time.monotonic()
                answer = player.play(_API_VERSIONS, 0, b"")
                self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                self.pings += 1
                self.unanswered += isinstance(answer, Ending)
