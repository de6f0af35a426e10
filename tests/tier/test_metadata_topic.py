"""When a broker may say that it knows what is in the remote tier, and when it has to read all of it again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine
from tests.tier.given import OF, segment

from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Origin
from ottla.log.truncation import truncate_to
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import REMOTE_METADATA_TOPIC
from ottla.record.batch import CRC_START, Codec, computed_crc
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.replica.partition import Appended, Isolation, Leadership, Partition
from ottla.tier.metadata_records import write_event
from ottla.tier.remote_segment import RemoteSegment

KEY = (UUID(int=5), 0)
_FETCH, _LIST_OFFSETS = 1, 2
AS_READ = SimpleNamespace(epoch=-1, end_offset=-1)


def metadata(machine: Machine, here: Partition | None = None) -> TierMetadata:
    """Of broker 1; the topic has one partition, which broker 2 leads."""
    topic = SimpleNamespace(id=UUID(int=9), partitions={0: SimpleNamespace(leader=2)})
    node = SimpleNamespace(
        env=machine.env,
        config=SimpleNamespace(node_id=1),
        image=SimpleNamespace(topic=lambda name: topic),
        replicas=SimpleNamespace(by_name={} if here is None else {(REMOTE_METADATA_TOPIC, 0): here}, by_id={}),
    )
    return TierMetadata(cast(Any, node))


class NewLeader:
    """Has an empty answer to every fetch, with a high watermark that is late at first."""

    def __init__(self, unknown_for: int) -> None:
        self.unknown_for = unknown_for
        self.asked = 0

    async def call(self, broker_id: int, key: int, values: Any) -> Any:
        assert broker_id == 2
        if key == _LIST_OFFSETS:
            self.asked += 1
            known = self.asked > self.unknown_for
            code = ErrorCode.none if known else ErrorCode.offset_not_available
            row = SimpleNamespace(partition_index=0, error_code=code, offset=0 if known else -1)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[row])])
        assert key == _FETCH
        row = SimpleNamespace(
            partition_index=0, error_code=ErrorCode.none, high_watermark=0, records=None, diverging_epoch=AS_READ
        )
        return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(partitions=[row])])


@pytest.mark.parametrize("unknown_for", [0, 3])
def test_not_before_the_leader_of_the_topic_knows_what_is_committed(unknown_for: int) -> None:
    with Machine() as machine:
        tier, leader, seen = metadata(machine), NewLeader(unknown_for), list[bool]()

        async def story() -> None:
            call = leader.call

            async def noted(broker_id: int, key: int, values: Any) -> Any:
                if key == _FETCH:
                    seen.append(tier.knows(KEY))
                if tier.knows(KEY):
                    tier._followed.clear()
                    raise OttlaError("enough")
                return await call(broker_id, key, values)

            tier._readers = cast(Any, SimpleNamespace(call=noted, stop=None))
            tier.follow_number(0)
            await tier._leaders[2]

        machine.wait_for(story)
        assert seen == [False] * (unknown_for + 1) + [True]


@pytest.mark.parametrize(("isr", "knows"), [((2, 1), True), ((2,), False)])
def test_not_from_a_replica_of_the_topic_that_is_behind(isr: tuple[int, ...], knows: bool) -> None:
    with Machine() as machine:
        here = Partition(machine.env, 1, PARTITION, TOPIC_ID, machine.open(), 0)
        here.lead_or_follow(Leadership(2, 5, isr, (2, 1)))
        tier = metadata(machine, here)

        async def story() -> None:
            tier.follow_number(0)

        machine.wait_for(story)
        machine.pass_time(0.1)
        assert tier.knows(KEY) is knows


# -- what an unclean election takes back


class Elected:
    """Leaders of the topic in a row: the second one lacks what the first has written last."""

    def __init__(self, machine: Machine, broker_id: int) -> None:
        self.machine = machine
        self.broker_id = broker_id
        self.log: PartitionLog = machine.open()
        self.leads = self._elect(5, 0)

    def _elect(self, epoch: int, end_offset: int) -> Partition:
        leads = Partition(self.machine.env, self.broker_id, PARTITION, TOPIC_ID, self.log, end_offset)
        leads.lead_or_follow(Leadership(self.broker_id, epoch, (self.broker_id,), (self.broker_id,)))
        return leads

    def lose_from(self, offset: int) -> None:
        self.machine.call(truncate_to, self.machine.env, self.log, offset)
        self.leads = self._elect(6, offset)

    def tell(self, *segments: RemoteSegment) -> None:
        for each in segments:
            batch = build_batch([Record(None, write_event(each), 0)])
            appended = self.machine.call(self.leads.append, batch, -1, Origin.COORDINATOR)
            assert isinstance(appended, Appended) and appended.code is ErrorCode.none

    async def call(self, broker_id: int, key: int, values: Any) -> Any:
        """As another broker asks it."""
        (row,) = values["topics"][0]["partitions"]
        leads = self.leads
        if key == _LIST_OFFSETS:
            offset = leads.log.start_offset if row["timestamp"] == -2 else leads.high_watermark
            found = SimpleNamespace(partition_index=0, error_code=ErrorCode.none, offset=offset)
            return SimpleNamespace(topics=[SimpleNamespace(partitions=[found])])
        await asyncio.sleep(0.1)
        fetched = leads.fetch(
            row["fetch_offset"], 1 << 20, Isolation.READ_UNCOMMITTED, -1, row["last_fetched_epoch"], at_least_one=True
        )
        data = fetched.data
        records = None if data is None else data.data or data.file.pread(data.size, data.position)
        given = SimpleNamespace(
            partition_index=0,
            error_code=fetched.code,
            high_watermark=fetched.high_watermark,
            records=records,
            diverging_epoch=fetched.diverging or AS_READ,
        )
        return SimpleNamespace(error_code=ErrorCode.none, responses=[SimpleNamespace(partitions=[given])])


@pytest.mark.parametrize("is_here", [True, False], ids=["its own replica", "another broker's"])
@pytest.mark.parametrize("new", [0, 1, 2, 5], ids=lambda new: f"{new} new")
def test_what_an_unclean_election_took_back_is_believed_no_more(is_here: bool, new: int) -> None:
    """Whether or not what came instead is as long as what was read."""
    with Machine() as machine:
        elected = Elected(machine, 1 if is_here else 2)
        tier = metadata(machine, elected.leads if is_here else None)
        tier._readers = cast(Any, elected)
        log = SimpleNamespace(tiered_to=29)
        replicas = cast(Any, tier._node.replicas)
        replicas.by_id[OF.topic_id, OF.partition] = SimpleNamespace(log=log)
        kept, *lost = (segment(number, number * 10, number * 10 + 9) for number in range(3))
        came = [segment(100 + number, number * 10, number * 10 + 9) for number in range(1, new + 1)]

        def known() -> set[UUID]:
            remote = tier.logs.get((OF.topic_id, OF.partition))
            return set(remote.segments) if remote is not None else set()

        async def follow() -> None:
            tier.follow_number(0)

        elected.tell(kept, *lost)
        machine.wait_for(follow)
        machine.pass_time(5)
        assert known() == {kept.id, *(each.id for each in lost)} and tier.knows(KEY)

        elected.lose_from(1)
        if is_here:
            replicas.by_name[REMOTE_METADATA_TOPIC, 0] = elected.leads
        elected.tell(*came)
        machine.pass_time(5)
        assert known() == {kept.id, *(each.id for each in came)} and tier.knows(KEY)
        assert log.tiered_to == -1  # what it was known by may be gone: it is found out anew


def test_what_has_expired_before_it_was_read_is_not_waited_for() -> None:
    with Machine() as machine:
        elected = Elected(machine, 2)
        tier = metadata(machine)
        tier._readers = cast(Any, elected)
        elected.tell(*(segment(number, number * 10, number * 10 + 9) for number in range(3)))
        machine.call(elected.leads.advance_start, 2)

        async def follow() -> None:
            tier.follow_number(0)

        machine.wait_for(follow)
        machine.pass_time(5)
        assert set(tier.logs[OF.topic_id, OF.partition].segments) == {UUID(int=2)} and tier.knows(KEY)


# -- what cannot be read


def nonsense(*, is_damaged: bool) -> bytes:
    """A batch that says it is compressed, and is not."""
    batch = bytearray(build_batch([Record(None, b"?", 0)]))
    batch[CRC_START + 1] = Codec.GZIP
    if not is_damaged:
        batch[CRC_START - 4 : CRC_START] = computed_crc(batch).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("is_damaged", [False, True], ids=["written so", "damaged"])
@pytest.mark.parametrize("is_here", [True, False], ids=["its own replica", "another broker's"])
def test_a_batch_that_cannot_be_read_does_not_hold_up_the_broker(is_here: bool, is_damaged: bool) -> None:
    """What was damaged may have been an event: what follows it is not believed, but all else goes on."""
    with Machine() as machine:
        elected = Elected(machine, 1 if is_here else 2)
        tier = metadata(machine, elected.leads if is_here else None)
        tier._readers = cast(Any, elected)
        elected.tell(segment(0, 0, 9))
        machine.call(elected.leads.append, nonsense(is_damaged=is_damaged), -1, Origin.COORDINATOR)
        elected.tell(segment(1, 10, 19))

        async def follow() -> None:
            tier.follow_number(0)

        machine.wait_for(follow)
        machine.pass_time(5)
        assert len(tier.logs[OF.topic_id, OF.partition].segments) == (1 if is_damaged else 2)
        assert tier.knows(KEY) is not is_damaged
