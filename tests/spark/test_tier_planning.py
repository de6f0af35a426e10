"""Which segments of the tier a read takes: those of the leader's history, and no further than they go."""

from __future__ import annotations

import asyncio
from typing import Any, cast
from uuid import UUID

import pytest
from tests.tier.given import OF, segment, update

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.spark import tier_planning
from ottla.spark.cluster import EARLIEST_LOCAL, LATEST, Cluster, Fetched
from ottla.spark.planning import Range
from ottla.spark.source_options import source_options
from ottla.spark.tier_planning import AbortedInTier, InTier
from ottla.spark.tier_store import TierPlace
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemoteSegment, SegmentState

PLACE = TopicPartition(OF.topic, OF.partition)
NOWHERE = TierPlace("memory:///")
GIVEN = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}


class Leader:
    """Of a partition with a history of epochs, on whose disk it begins at an offset."""

    def __init__(self, local: int, ends: dict[int, int], *, read_committed: bool = False) -> None:
        self.settings = type("Settings", (), {"read_committed": read_committed, "api_timeout_s": 60.0})
        self.answers: list[Fetched] = []
        self._local = local
        self._ends = ends

    async def list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        known = {EARLIEST_LOCAL: self._local, LATEST: max(self._ends.values())}
        return {place: known[timestamp] for place, timestamp in wanted.items()}

    async def fetch(self, place: TopicPartition, topic_id: UUID | None, offset: int, most_bytes: int) -> Fetched:
        return self.answers.pop(0)

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        known = max((each for each in self._ends if each <= epoch), default=-1)
        return known, self._ends.get(known, -1)


def planned(
    monkeypatch: pytest.MonkeyPatch, leader: Leader, start: int, end: int, *segments: RemoteSegment
) -> list[tuple[int, int, int | None]]:
    """Start, end, and the number of the segment; none for what is read from the brokers."""
    found = ranges(monkeypatch, leader, start, end, *segments)
    return [(one.start, one.end, None if one.tier is None else one.tier.segment.id.int) for one in found]


def ranges(
    monkeypatch: pytest.MonkeyPatch, leader: Leader, start: int, end: int, *segments: RemoteSegment
) -> list[Range]:  # fmt: skip
    log = RemoteLog()
    for each in segments:
        log.begin(each)
        log.update(update(each, SegmentState.COPY_FINISHED))

    async def told(*_: Any) -> Any:
        return {(OF.topic_id, OF.partition): log}

    monkeypatch.setattr(tier_planning, "_told", told)
    asked = [Range(PLACE, start, end, OF.topic_id)]
    found = asyncio.run(tier_planning.through_the_tier(cast(Cluster, leader), NOWHERE, asked))
    return [one for one in found if one.size > 0]


def test_the_tier_to_where_the_disk_begins_and_then_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(25, {0: 100})
    segments = segment(1, 0, 9), segment(2, 10, 19), segment(3, 20, 29)
    assert planned(monkeypatch, leader, 3, 50, *segments) == [(3, 10, 1), (10, 20, 2), (20, 25, 3), (25, 50, None)]
    assert planned(monkeypatch, leader, 3, 12, *segments) == [(3, 10, 1), (10, 12, 2)]
    assert planned(monkeypatch, leader, 25, 50, *segments) == [(25, 50, None)]


def test_a_broker_for_which_the_tier_is_slow_is_asked_again_what_was_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without records names no transactions: what they have written would be taken for committed."""
    leader = Leader(25, {0: 100}, read_committed=True)
    leader.answers = [
        Fetched(b"", [], 0, 100),
        Fetched(b"", [], 0, 100),
        Fetched(b"a batch", [(7, 5), (8, 12)], 0, 100),
    ]
    segments = [each._replace(has_no_aborted=True) for each in (segment(1, 0, 9), segment(2, 10, 19))]
    found = ranges(monkeypatch, leader, 3, 12, *segments)
    assert [one.tier.aborted_from(one.start) for one in found if one.tier is not None] == [[(7, 5)], [(7, 5)]]
    assert leader.answers == []


def test_a_transaction_that_is_over_does_not_count_for_what_follows() -> None:
    """Its producer may have committed that."""
    tier = InTier(segment(1, 0, 99), (AbortedInTier(7, 5, 20), AbortedInTier(8, 12, 60)))
    assert tier.aborted_from(0) == tier.aborted_from(20) == [(7, 5), (8, 12)]
    assert tier.aborted_from(21) == [(8, 12)]
    assert tier.aborted_from(61) == []


def test_a_segment_of_another_history_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epoch 1 was given up, and epoch 0 ended earlier than its leader had it."""
    leader = Leader(30, {0: 8, 2: 100})
    segments = segment(1, 0, 9, (0, 0)), segment(2, 10, 19, (1, 10)), segment(3, 8, 29, (2, 8))
    assert planned(monkeypatch, leader, 0, 40, *segments) == [(0, 8, 1), (8, 30, 3), (30, 40, None)]


def test_what_no_segment_has_is_asked_of_the_brokers(monkeypatch: pytest.MonkeyPatch) -> None:
    leader = Leader(30, {0: 100})
    assert planned(monkeypatch, leader, 0, 30, segment(1, 0, 9), segment(2, 20, 29)) == [(0, 10, 1), (10, 30, None)]
    assert planned(monkeypatch, leader, 0, 30) == [(0, 30, None)]


def test_without_a_store_nothing_is_asked() -> None:
    asked = [Range(PLACE, 0, 30, OF.topic_id)]
    assert asyncio.run(tier_planning.through_the_tier(cast(Cluster, None), None, asked)) == asked


class TestOptions:
    def test_are_those_of_the_brokers_under_another_prefix(self) -> None:
        more = {"tier.url": "s3://bucket/cluster", "Tier.Aws.Region": "eu-central-1", "tier.aws_endpoint": "http://x"}
        assert source_options(GIVEN | more, batch=True).tier == TierPlace(
            "s3://bucket/cluster", (("aws_region", "eu-central-1"), ("aws_endpoint", "http://x"))
        )
        assert source_options(GIVEN, batch=False).tier is None

    def test_need_an_address(self) -> None:
        with pytest.raises(OttlaError, match=r"tier\.aws\.region needs tier\.url"):
            source_options(GIVEN | {"tier.aws.region": "eu-central-1"}, batch=True)
