"""Committed offsets of one coordinator: who may commit, what is seen when, what expires."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Iterator
from unittest.mock import patch
from uuid import UUID

import pytest
from tests.coordinator.group.keeping import Keeper, config, tell
from tests.log.given import TOPIC_ID, Machine, everything, marker
from tests.replica.given import ALONE, leader

from ottla.broker.group_coordinator import group_hash
from ottla.coordinator.group.offset_records import CommittedOffset, OffsetKey, write_key, write_value
from ottla.coordinator.group.offset_sweep import _RECORDS_A_TURN
from ottla.coordinator.group.offsets import Commit, Fetched, Member, Wanted
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.log.producers import Verification
from ottla.model.errors import ErrorCode, KafkaError
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch, build_plain_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.replica.partition import Appended
from ottla.sim.executor import SimExecutor

OK = ErrorCode.none
NO_MEMBER = Member("g")
MINUTE_S = 60
DAY_S = 86_400
OFTEN = config(offsets_retention_minutes=1, offsets_retention_check_interval_ms=10_000)


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        # What Apache Kafka 4.3 chose of 50 partitions, but for the last, whose hash is the smallest of all integers.
        ("g9", 0), ("", 0), ("ret", 1), ("fresh2", 20), ("g", 3), ("g2", 43), ("fresh", 46),
        ("polygenelubricants", 0),
    ],
)  # fmt: skip
def test_a_group_lives_where_kafka_would_look_for_it(group: str, partition: int) -> None:
    assert group_hash(group) % 50 == partition


def test_hashes_are_of_utf_16_units() -> None:
    assert group_hash("😀") == (0xD83D * 31 + 0xDE00)


class TestWhatIsSeen:
    def test_a_commit_is_seen_once_it_is_committed(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            machine.env.executor.longest_s = 0.5  # type: ignore[attr-defined]
            done = keeper.commit("g", 7)
            await asyncio.sleep(0.001)
            assert keeper.offsets("g") == {} and not done.done()
            assert keeper.offsets("g", stable=True) == {("orders", 0): 7}
            assert await done is OK
            assert keeper.offsets("g") == {("orders", 0): 7}

        assert isinstance(machine.env.executor, SimExecutor)
        tell(machine, story, flush_messages=1)

    def test_one_that_could_not_be_stored_has_not_happened(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 7)
            groups = keeper.groups
            machine.disk.fail("*.log", errno.EIO, ("write",))
            with pytest.raises(KafkaError) as refused:
                await keeper.commit("new", 8)
            assert refused.value.code is ErrorCode.not_coordinator
            assert groups.offsets.fetch_all("new", stable=True) == {}
            assert groups.classic.get("new") is None and groups.classic.get("g") is not None

        tell(machine, story)

    def test_the_next_leader_knows_them(self, machine: Machine) -> None:
        async def first(keeper: Keeper) -> None:
            await asyncio.gather(*[keeper.commit(f"g{n % 10}", n, partition=n % 3) for n in range(100)])

        async def second(keeper: Keeper) -> None:
            for n in range(10):
                at = {number % 3: number for number in range(100) if number % 10 == n}
                assert keeper.offsets(f"g{n}") == {("orders", partition): offset for partition, offset in at.items()}

        tell(machine, second, tell(machine, first))

    def test_of_a_topic_by_id_only_those_of_that_topic(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 7, topic_id=UUID(int=1))
            offsets = keeper.groups.offsets
            for topic_id, offset in ((None, 7), (UUID(int=1), 7), (UUID(int=2), -1)):
                (found,) = offsets.fetch("g", [Wanted("orders", [0], topic_id)], stable=False)
                assert found == [Fetched(0, offset)]

        tell(machine, story)


class TestWhoMayCommit:
    @pytest.mark.parametrize(
        ("member", "version", "code"),
        [
            (Member("new"), 2, OK),
            (Member("new", "me", "instance", -1), 9, OK),
            (Member("new", "me", None, 0), 8, ErrorCode.illegal_generation),
            (Member("new", "me", None, 0), 9, ErrorCode.group_id_not_found),
            (Member("there"), 9, OK),
            (Member("there", "me", None, 1), 9, ErrorCode.unknown_member_id),
            (Member("there", "me", "instance", 1), 9, ErrorCode.unknown_member_id),
        ],
    )
    def test_those_that_the_group_knows_or_nobody(
        self, machine: Machine, member: Member, version: int, code: ErrorCode
    ) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("there", 1)
            result = await keeper.write(
                lambda groups: groups.offsets.commit(member, [Commit("orders", 0, 7)], version)
            )  # fmt: skip
            assert result is code

        tell(machine, story)


@pytest.mark.parametrize("retention_ms", [None, 60_000])
@pytest.mark.parametrize("topic_id", [None, UUID(int=1)])
@pytest.mark.parametrize("metadata", [None, "so far", "ö" * 100, "𝄞" * 3000])
def test_the_size_of_a_commit_is_known_beforehand(
    machine: Machine, metadata: str | None, topic_id: UUID | None, retention_ms: int | None
) -> None:
    async def story(keeper: Keeper) -> None:
        offsets = keeper.groups.offsets
        rows = [
            Commit(f"töpic-{n % 3}", n, n, 5, metadata if n % 2 else "", topic_id) for n in range(9000)
        ]  # fmt: skip
        records = offsets.commit(Member("grüppe"), rows, 9, retention_ms).records
        assert offsets.size_of("grüppe", rows, retention_ms) == len(build_plain_batch(records, 0))

    tell(machine, story)


class TestTransactions:
    """Written by Apache Kafka: producers that commit offsets with their transactions."""

    def load(self, machine: Machine, *batches: bytes) -> object:
        partition = leader(machine)
        for data in batches:
            machine.call(lambda data=data: partition.log.append(data, parse_header(data), 5, 0, 0))
        partition.lead_or_follow(ALONE._replace(leader_epoch=6))
        return partition

    def batch(self, offset: int, producer_id: int = -1) -> bytes:
        record = StoredRecord(write_key(OffsetKey("g", "orders", 0)), write_value(CommittedOffset(offset, commit_ms=1)))
        rows = [Record(record.key, record.value, 0)]
        if producer_id < 0:
            return build_batch(rows)
        return build_batch(rows, producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)

    @pytest.mark.parametrize(
        ("log", "offset", "is_stable"),
        [
            (["3", "9:5"], 3, False),
            (["3", "9:5", "9 commit"], 5, True),
            (["3", "9:5", "9 abort"], 3, True),
            (["9:5", "3", "9 commit"], 3, True),  # what was written later counts
            (["9:5", "8:6", "8 commit", "9 commit"], 6, True),
        ],
    )
    def test_they_count_when_it_ends(self, machine: Machine, log: list[str], offset: int, is_stable: bool) -> None:
        def data(entry: str) -> bytes:
            producer, _, value = entry.partition(":")
            if value:
                return self.batch(int(value), int(producer))
            producer, _, end = entry.partition(" ")
            return marker(int(producer), commit=end == "commit") if end else self.batch(int(entry))

        async def story(keeper: Keeper) -> None:
            assert keeper.offsets("g") == {("orders", 0): offset}
            (rows,) = keeper.groups.offsets.fetch("g", [Wanted("orders", [0])], stable=True)
            assert rows[0].code is (OK if is_stable else ErrorCode.unstable_offset_commit)

        tell(machine, story, self.load(machine, *map(data, log)))  # type: ignore[arg-type]

    def test_deleting_forgets_the_pending_ones_too(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            assert await keeper.write(lambda groups: groups.offsets.delete("g", [Wanted("orders", [0])])) == [OK]
            keeper.groups.end_transaction(9, 0, is_commit=True)
            assert keeper.offsets("g", stable=True) == {}

        tell(machine, story, self.load(machine, self.batch(5, 9)))  # type: ignore[arg-type]


class TestCommitsInTransactions:
    """By producers of this node: written to the log, pending until the marker, whatever happens in between."""

    @staticmethod
    def commit(
        keeper: Keeper, offset: int, member: Member = NO_MEMBER, epoch: int = 0
    ) -> asyncio.Future[ErrorCode | list[ErrorCode]]:
        producers = keeper.partition.log.producers
        begun = producers.begin_verification(9, epoch, -1, True, 0)
        if isinstance(begun, Verification):
            producers.verified(9, epoch, begun)
        rows = [Commit("orders", 0, offset, topic_id=TOPIC_ID)]
        return keeper.runtime.shard(0).write_in_transaction(
            lambda groups: groups.offsets.commit_in_transaction(member, rows), 9, epoch
        )

    @pytest.mark.parametrize("is_commit", [True, False])
    def test_they_are_pending_until_the_marker(self, machine: Machine, is_commit: bool) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 3)
            assert await self.commit(keeper, 5) is OK
            (rows,) = keeper.groups.offsets.fetch("g", [Wanted("orders", [0])], stable=True)
            assert rows[0].code is ErrorCode.unstable_offset_commit
            assert keeper.offsets("g") == {("orders", 0): 3}
            await keeper.runtime.shard(0).end_transaction(9, 1, is_commit, 0, 2)
            assert keeper.offsets("g", stable=True) == {("orders", 0): 5 if is_commit else 3}

        async def again(keeper: Keeper) -> None:
            assert keeper.offsets("g", stable=True) == {("orders", 0): 5 if is_commit else 3}

        tell(machine, again, tell(machine, story))

    def test_a_restart_in_between_changes_nothing(self, machine: Machine) -> None:
        async def before(keeper: Keeper) -> None:
            assert await self.commit(keeper, 5) is OK

        async def after(keeper: Keeper) -> None:
            assert keeper.offsets("g") == {}
            await keeper.runtime.shard(0).end_transaction(9, 1, True, 0, 2)
            assert keeper.offsets("g") == {("orders", 0): 5}

        tell(machine, after, tell(machine, before))

    @pytest.mark.parametrize("generation", [0, 7])
    def test_a_generation_that_is_not_there(self, machine: Machine, generation: int) -> None:
        async def story(keeper: Keeper) -> None:
            member = Member("g", "someone", None, generation)
            assert await self.commit(keeper, 5, member) is ErrorCode.illegal_generation
            assert keeper.offsets("g", stable=True) == {}

        tell(machine, story)

    def test_a_fenced_producer_writes_nothing(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.runtime.shard(0).end_transaction(9, 3, True, 0, 2)
            with pytest.raises(KafkaError) as refused:
                await self.commit(keeper, 5, epoch=2)
            assert refused.value.code is ErrorCode.invalid_producer_epoch
            assert keeper.offsets("g", stable=True) == {}

        tell(machine, story)


class TestExpiry:
    def test_nobodys_offsets_expire_a_week_after_their_last_commit(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 1, "old")
            await asyncio.sleep(3 * DAY_S)
            await keeper.commit("g", 2, "new")
            await asyncio.sleep(4 * DAY_S - MINUTE_S)
            assert set(keeper.offsets("g")) == {("old", 0), ("new", 0)}
            await asyncio.sleep(12 * MINUTE_S)
            assert set(keeper.offsets("g")) == {("new", 0)}
            assert keeper.groups.classic.get("g") is not None
            await asyncio.sleep(3 * DAY_S)
            assert keeper.offsets("g") == {}
            assert keeper.groups.classic.get("g") is None  # nothing is left of it

        async def after(keeper: Keeper) -> None:
            assert keeper.offsets("g") == {}
            assert keeper.groups.classic.ids() == []

        tell(machine, after, tell(machine, story))

    def test_a_client_of_old_sets_the_time_itself(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 1, "short", retention_ms=60_000)
            await keeper.commit("g", 2, "usual")
            await asyncio.sleep(5 * MINUTE_S)
            assert set(keeper.offsets("g")) == {("usual", 0)}

        tell(machine, story, settings=config(offsets_retention_check_interval_ms=10_000))

    def test_many_take_several_batches_and_turns(self, machine: Machine) -> None:
        many = 2 * _RECORDS_A_TURN + 5

        async def story(keeper: Keeper) -> None:
            rows = [Commit("orders", number, 1) for number in range(many)]
            await keeper.write(lambda groups: groups.offsets.commit(Member("g"), rows, 9))
            await asyncio.gather(*[keeper.commit(f"small-{n}", 1) for n in range(500)])
            await asyncio.sleep(5 * MINUTE_S)
            assert keeper.offsets("g") == {} and keeper.groups.classic.ids() == []

        partition = tell(machine, story, settings=OFTEN)
        sizes = [parse_header(data).record_count for data in everything(partition.log)[2:]]
        assert max(sizes) <= _RECORDS_A_TURN + 1
        records = [record for data in everything(partition.log) for record in read_records(data)]
        assert sum(record.value is None for record in records) == many + 500 + 501  # offsets, and their groups

    def test_a_sweep_that_cannot_be_stored_is_tried_again_with_the_next(self, machine: Machine) -> None:
        async def story(keeper: Keeper) -> None:
            rows = [Commit("orders", number, 1) for number in range(_RECORDS_A_TURN + 5)]
            await keeper.write(lambda groups: groups.offsets.commit(Member("g"), rows, 9))
            tried: list[object] = []

            def refuse(*batch: object) -> Appended:
                tried.append(batch)
                return Appended(ErrorCode.not_enough_replicas)

            with patch.object(keeper.partition, "append", refuse):
                await asyncio.sleep(5 * MINUTE_S)
            assert 20 <= len(tried) <= 31
            assert len(keeper.offsets("g")) == _RECORDS_A_TURN + 5
            await asyncio.sleep(MINUTE_S)
            assert keeper.offsets("g") == {} and keeper.groups.classic.ids() == []

        tell(machine, story, settings=OFTEN)

    def test_one_that_fails_is_not_the_last(self, machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
        async def story(keeper: Keeper) -> None:
            await keeper.commit("g", 1)
            with patch.object(keeper.groups.offsets.table, "of_group", side_effect=RuntimeError("broken")):
                await asyncio.sleep(5 * MINUTE_S)
            assert 20 < len(caplog.records) < 40, "once in each interval"
            await asyncio.sleep(MINUTE_S)
            assert keeper.offsets("g") == {}

        tell(machine, story, settings=OFTEN)

    def test_a_group_that_cannot_be_read_is_not_in_the_way_of_the_others(
        self, machine: Machine, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def story(keeper: Keeper) -> None:
            await asyncio.gather(*[keeper.commit(group, 1) for group in ("a", "b", "c")])
            newer = StoredRecord(write_key(OffsetKey("b", "orders", 1)), b"\x00\x63")
            await keeper.write(lambda groups: Outcome(None, [newer]))
            await asyncio.sleep(5 * MINUTE_S)
            assert keeper.groups.classic.ids() == ["b"]

        tell(machine, story, settings=OFTEN)
        assert "offsets of the group b stay" in caplog.text

    def test_nothing_is_kept_of_groups_that_are_gone(self, machine: Machine) -> None:
        async def come_and_go(keeper: Keeper, group: str) -> None:
            await keeper.commit(group, 1)
            await keeper.write(lambda groups: groups.delete([group]))

        async def story(keeper: Keeper) -> None:
            for number in range(300):
                await come_and_go(keeper, f"deleted-{number}")
                await keeper.commit(f"expires-{number}", 1)
            assert len(keeper.groups.offsets.table.groups()) == 600
            await asyncio.sleep(5 * MINUTE_S)
            assert keeper.groups.offsets.table.groups() == []

        tell(machine, story, settings=OFTEN)


def test_offsets_of_a_deleted_topic_go_but_not_those_of_its_successor(machine: Machine) -> None:
    old, new = UUID(int=1), UUID(int=2)

    async def story(keeper: Keeper) -> None:
        for group in range(500):
            await keeper.commit(f"g{group}", 1, "gone", topic_id=old)
            await keeper.commit(f"g{group}", 1, "stays", topic_id=UUID(int=3))
        await keeper.commit("g7", 5, "gone", topic_id=new)
        await keeper.write(lambda groups: groups.sweep.forget_topics({"gone": old}))
        await asyncio.sleep(1)
        assert keeper.offsets("g7") == {("gone", 0): 5, ("stays", 0): 1}
        assert all(keeper.offsets(f"g{group}") == {("stays", 0): 1} for group in range(500) if group != 7)

    tell(machine, story)


def test_a_deleted_group_takes_its_offsets_along(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        await keeper.commit("g", 1)
        await keeper.commit("h", 2)
        assert await keeper.write(lambda groups: groups.delete(["g", "nobody"])) == [OK, ErrorCode.group_id_not_found]
        assert keeper.offsets("g") == {} and keeper.offsets("h") == {("orders", 0): 2}

    tell(machine, story)


def test_records_that_are_not_known_are_left_alone(machine: Machine) -> None:
    partition = leader(machine)
    data = build_batch([Record(b"\x00\x63what", b"ever", 0), Record(b"\x00\x63what", None, 0)])
    machine.call(lambda: partition.log.append(data, parse_header(data), 5, 0, 0))
    partition.lead_or_follow(ALONE._replace(leader_epoch=6))

    async def story(keeper: Keeper) -> None:
        assert await keeper.commit("g", 1) is OK

    tell(machine, story, partition)
