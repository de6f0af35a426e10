"""What a node tells about its remote tier: what goes there and comes back, what fails, and what waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ottla.broker.tier.backlog import still_to_copy
from ottla.env.metrics import Family, Gathered, Kind, Row, labels
from ottla.replica.partition import Partition
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import SegmentState

if TYPE_CHECKING:
    from ottla.broker.tier.manager import TierManager


@dataclass(slots=True)
class Counts:
    """Of a topic, since the start."""

    fetches: int = 0
    fetched_bytes: int = 0
    failed_fetches: int = 0
    copies: int = 0
    copied_bytes: int = 0
    failed_copies: int = 0
    deletions: int = 0
    failed_deletions: int = 0
    beginnings: int = 0
    failed_beginnings: int = 0


CountsByTopic = defaultdict[str, Counts]


def _counter(name: str, told: str) -> Family:
    return Family(f"kafka_server_brokertopicmetrics_{name}_total", Kind.COUNTER, told, ("topic",))


def _gauge(name: str, told: str) -> Family:
    return Family(f"kafka_server_brokertopicmetrics_{name}", Kind.GAUGE, told, ("topic",))


COUNTED: Final[tuple[tuple[Family, Callable[[Counts], int]], ...]] = (
    (_counter("remotefetchrequests", "Reads from the remote tier."), lambda counts: counts.fetches),
    (_counter("remotefetchbytes", "Bytes that they gave."), lambda counts: counts.fetched_bytes),
    (_counter("remotefetcherrors", "Of those, failed."), lambda counts: counts.failed_fetches),
    (_counter("remotecopyrequests", "Segments that were begun to be copied."), lambda counts: counts.copies),
    (_counter("remotecopybytes", "Bytes that were copied."), lambda counts: counts.copied_bytes),
    (_counter("remotecopyerrors", "Copies that failed."), lambda counts: counts.failed_copies),
    (_counter("remotedeleterequests", "Segments that were begun to be deleted."), lambda counts: counts.deletions),
    (_counter("remotedeleteerrors", "Deletions that failed."), lambda counts: counts.failed_deletions),
    (
        _counter("buildremotelogauxstaterequests", "New followers that began where the tier ends."),
        lambda counts: counts.beginnings,
    ),
    (_counter("buildremotelogauxstateerrors", "Of those, failed."), lambda counts: counts.failed_beginnings),
)

LED: Final = (
    (_gauge("remotelogmetadatacount", "Segments in the remote tier, of partitions led here."), 0),
    (_gauge("remotelogsizebytes", "Their bytes."), 1),
    (_gauge("remotecopylagsegments", "Closed segments that are not in the remote tier yet."), 2),
    (_gauge("remotecopylagbytes", "Their bytes."), 3),
    (_gauge("remotedeletelagsegments", "Segments in the remote tier that are being deleted."), 4),
    (_gauge("remotedeletelagbytes", "Their bytes."), 5),
)
WAITING: Final = Family(
    "org_apache_kafka_storage_internals_log_remotestoragethreadpool_remotelogreadertaskqueuesize",
    Kind.GAUGE,
    "Reads from the remote tier that are under way.",
)
FROM_STORE: Final = Family("ottla_tier_store_read_bytes_total", Kind.COUNTER, "Bytes that came from the object store.")
KEPT: Final = Family("ottla_tier_cache_bytes", Kind.GAUGE, "Bytes of the remote tier that are kept in memory.")


class TierMetrics:
    def __init__(self, tier: TierManager) -> None:
        self._tier = tier

    def collect(self) -> Iterator[Gathered]:
        by_topic = self._tier.counts
        for family, count in COUNTED:
            yield Gathered(family, [(labels(topic=topic), count(counts)) for topic, counts in by_topic.items()])
        led = self._led()
        for family, number in LED:
            yield Gathered(family, _rows(led, number))
        reads = self._tier.reads
        yield Gathered(WAITING, [("", reads.pending)])
        yield Gathered(FROM_STORE, [("", reads.bytes_read)])
        yield Gathered(KEPT, [("", reads.bytes_kept)])

    def _led(self) -> dict[str, list[int]]:
        sums: dict[str, list[int]] = {}
        for partition, remote in self._tier.led():
            row = sums.setdefault(partition.key.topic, [0] * len(LED))
            for number, value in enumerate(_lags(partition, remote)):
                row[number] += value
        return sums


def _rows(led: dict[str, list[int]], number: int) -> Iterator[Row]:
    for topic, row in led.items():
        yield labels(topic=topic), row[number]


def _lags(partition: Partition, remote: RemoteLog) -> tuple[int, int, int, int, int, int]:
    """In the order of `LED`."""
    there = list(remote.readable())
    left = [segment.size for segment, _ in still_to_copy(partition)] if partition.log.config.copies_to_tier else []
    going = [segment.size for segment in remote.listed((SegmentState.DELETE_STARTED,))]
    sizes = sum(segment.size for segment in there)
    return len(there), sizes, len(left), sum(left), len(going), sum(going)
