"""What this process takes of the machine, under the names that Prometheus' own libraries use."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from ottla.env.metrics import Family, Gathered, Kind

CPU: Final = Family("process_cpu_seconds_total", Kind.COUNTER, "CPU time, of all threads, in seconds.")
RESIDENT: Final = Family("process_resident_memory_bytes", Kind.GAUGE, "Memory in RAM.")
VIRTUAL: Final = Family("process_virtual_memory_bytes", Kind.GAUGE, "Address space.")
OPEN_FILES: Final = Family("process_open_fds", Kind.GAUGE, "File descriptors in use.")
MAX_FILES: Final = Family("process_max_fds", Kind.GAUGE, "File descriptors allowed.")
STARTED: Final = Family("process_start_time_seconds", Kind.GAUGE, "When the node began, in seconds since 1970.")


class ProcessFigures:
    def __init__(self) -> None:
        self._started = time.time()
        self._resident = self._virtual = self._open_files = 0

    def refresh(self) -> None:
        """Blocks: with many partitions there are many descriptors to count."""
        with suppress(OSError):  # only Linux has these files
            with open("/proc/self/statm") as file:
                pages = file.read().split()
            page = resource.getpagesize()
            self._virtual, self._resident = int(pages[0]) * page, int(pages[1]) * page
            self._open_files = len(os.listdir("/proc/self/fd"))

    def collect(self) -> Iterator[Gathered]:
        times = os.times()
        yield Gathered(CPU, [("", round(times.user + times.system, 2))])
        yield Gathered(RESIDENT, [("", self._resident)])
        yield Gathered(VIRTUAL, [("", self._virtual)])
        yield Gathered(OPEN_FILES, [("", self._open_files)])
        yield Gathered(MAX_FILES, [("", resource.getrlimit(resource.RLIMIT_NOFILE)[0])])
        yield Gathered(STARTED, [("", round(self._started, 3))])
