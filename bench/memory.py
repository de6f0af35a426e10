"""Memory while something goes on: the most of a node, and the most of one of its children."""

from __future__ import annotations

import threading
import time

import psutil


class Memory(threading.Thread):
    """Looks until it is ended, or the node is gone. In MB."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process = psutil.Process(pid)
        self._is_over = False
        self.node = self.child = 0.0

    def run(self) -> None:
        while not self._is_over and self._process.is_running():
            try:
                self.node = max(self.node, self._process.memory_info().rss / 1e6)
                for child in self._process.children(recursive=True):
                    self.child = max(self.child, child.memory_info().rss / 1e6)
            except psutil.NoSuchProcess:
                pass
            time.sleep(0.05)

    def end(self) -> float:
        """The most of the node."""
        self._is_over = True
        self.join()
        return round(self.node, 1)
