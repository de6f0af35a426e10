"""What is known of the cleaning of logs: what goes on, what was done, what cannot be done."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from ottla.env.metrics import Family, Gathered, Kind, labels
from ottla.env.ports import Clock
from ottla.log.cleaning.contract import Outcome
from ottla.log.cleaning.planning import Plan
from ottla.log.partition_log import PartitionLog

_log = logging.getLogger("ottla.log")
_MIB: Final = 1024 * 1024

MAX_DIRTY: Final = Family(
    "kafka_log_logcleanermanager_max_dirty_percent",
    Kind.GAUGE,
    "The largest dirty share of a log, in percent.",
)
SINCE_LAST_RUN: Final = Family(
    "kafka_log_logcleanermanager_time_since_last_run_ms",
    Kind.GAUGE,
    "How long ago the cleaner last looked.",
)
UNCLEANABLE: Final = Family(
    "kafka_log_logcleanermanager_uncleanable_partitions_count", Kind.GAUGE,
    "Partitions that are not cleaned any more since one of their segments is damaged.", ("logDirectory",),
)  # fmt: skip
UNCLEANABLE_BYTES: Final = Family(
    "kafka_log_logcleanermanager_uncleanable_bytes", Kind.GAUGE,
    "What would be cleaned in those partitions, in bytes.", ("logDirectory",),
)  # fmt: skip
RECOPY: Final = Family(
    "kafka_log_logcleaner_cleaner_recopy_percent",
    Kind.GAUGE,
    "What the last cleaning kept, in percent.",
)
BUFFER: Final = Family(
    "kafka_log_logcleaner_max_buffer_utilization_percent", Kind.GAUGE,
    "How full the map of keys was in the last cleaning, in percent.",
)  # fmt: skip
CLEAN_TIME: Final = Family(
    "kafka_log_logcleaner_max_clean_time_secs", Kind.GAUGE, "How long the last cleaning took, in seconds."
)
DELAY: Final = Family(
    "kafka_log_logcleaner_max_compaction_delay_secs", Kind.GAUGE,
    "By how much max.compaction.lag.ms is exceeded at most, in seconds.",
)  # fmt: skip
DEAD: Final = Family(
    "kafka_log_logcleaner_deadthreadcount",
    Kind.GAUGE,
    "Cleaners that ended by a defect: always none.",
)
CLEANINGS: Final = Family("ottla_log_cleanings_total", Kind.COUNTER, "Logs that were cleaned.")
SAVED: Final = Family("ottla_log_cleaner_saved_bytes_total", Kind.COUNTER, "Bytes that cleaning has made free.")


class Cleaning:
    """One that is under way."""

    task: asyncio.Task[None]

    def __init__(self, log: PartitionLog, plan: Plan) -> None:
        self.log = log
        self.plan = plan
        self.work: asyncio.Future[Any] | None = None
        self.given_up = False

    def give_up(self) -> None:
        """Ends the process, wherever it is; a swap that has begun goes on as far as the log allows."""
        self.given_up = True
        if self.work is not None:
            self.work.cancel()

    @property
    def is_over(self) -> bool:
        return self.given_up


class LastCleaning(NamedTuple):
    ended_ms: int
    outcome: Outcome


class CleanerState:
    def __init__(self, clock: Clock) -> None:
        self.plans: WeakKeyDictionary[PartitionLog, Plan] = WeakKeyDictionary()
        self.last: WeakKeyDictionary[PartitionLog, LastCleaning] = WeakKeyDictionary()
        self._uncleanable: WeakKeyDictionary[PartitionLog, str] = WeakKeyDictionary()
        self._clock = clock
        self._looked_ms = clock.now_ms()
        self._dirtiest = 0.0
        self._overdue_ms = 0
        self._last: Outcome | None = None
        self._cleanings = 0
        self._saved = 0

    def looked(self, dirtiest: float, overdue_ms: int) -> None:
        self._looked_ms, self._dirtiest, self._overdue_ms = self._clock.now_ms(), dirtiest, overdue_ms

    def note_plan(self, log: PartitionLog, found: Plan) -> None:
        self.plans[log] = found

    def mark_uncleanable(self, log: PartitionLog, log_dir: str) -> None:
        self._uncleanable[log] = log_dir

    def is_uncleanable(self, log: PartitionLog) -> bool:
        return log in self._uncleanable

    def cleaned(self, log: PartitionLog, found: Plan, outcome: Outcome) -> None:
        saved = outcome.bytes_read - outcome.bytes_written
        self.last[log] = LastCleaning(self._clock.now_ms(), outcome)
        self._last = outcome
        self._cleanings += 1
        self._saved += max(saved, 0)
        _log.info(
            "%s cleaned, offsets %d to %d: %.1f MiB became %.1f MiB in %.1f s (map of keys %.1f s, %.1f %% full)",
            *(log.partition, found.first_dirty, outcome.end_offset - 1, outcome.bytes_read / _MIB),
            *(outcome.bytes_written / _MIB, outcome.elapsed_s, outcome.map_s, outcome.map_utilization * 100),
        )
        if outcome.messages_without_key:
            _log.warning("%s: dropped %d records without a key", log.partition, outcome.messages_without_key)

    def collect(self) -> Iterator[Gathered]:
        last = self._last or Outcome()
        yield Gathered(MAX_DIRTY, [("", int(100 * self._dirtiest))])
        yield Gathered(SINCE_LAST_RUN, [("", self._clock.now_ms() - self._looked_ms)])
        yield Gathered(RECOPY, [("", int(100 * last.bytes_written / max(last.bytes_read, 1)))])
        yield Gathered(BUFFER, [("", int(100 * last.map_utilization))])
        yield Gathered(CLEAN_TIME, [("", int(last.elapsed_s))])
        yield Gathered(DELAY, [("", self._overdue_ms // 1000)])
        yield Gathered(DEAD, [("", 0)])
        yield Gathered(CLEANINGS, [("", self._cleanings)])
        yield Gathered(SAVED, [("", self._saved)])

    def collect_uncleanable(self, log_dirs: list[str]) -> Iterator[Gathered]:
        counts, sizes = dict.fromkeys(log_dirs, 0), dict.fromkeys(log_dirs, 0)
        for log, log_dir in self._uncleanable.items():
            if not log.closed:
                counts[log_dir] = counts.get(log_dir, 0) + 1
                found = self.plans.get(log)
                sizes[log_dir] = sizes.get(log_dir, 0) + (found.dirty_bytes if found is not None else 0)
        yield Gathered(UNCLEANABLE, [(labels(logDirectory=path), count) for path, count in counts.items()])
        yield Gathered(UNCLEANABLE_BYTES, [(labels(logDirectory=path), size) for path, size in sizes.items()])
