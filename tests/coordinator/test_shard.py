"""The runtime with the simplest of coordinators: a table of numbers, kept as records."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine, Iterable, Iterator
from typing import Any, cast

import pytest
from tests.log.given import Machine, everything, marker
from tests.replica.given import ALONE, NODE, leader

from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import Haste, Shard
from ottla.coordinator.timeline import TimelineDict
from ottla.env.timers import TimerWheel
from ottla.log.producers import Verification
from ottla.model.errors import ErrorCode, KafkaError
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.replica.partition import Appended, Leadership, Partition
from ottla.sim.executor import SimExecutor


class Numbers:
    """Adds to numbers by name."""

    def __init__(self, shard: Shard[Numbers]) -> None:
        self.table: TimelineDict[bytes, int] = TimelineDict(shard.timeline)
        self.shard = shard
        self.undone = 0
        self.committed = 0
        self.why = ErrorCode.none
        self.log: list[str] = []

    def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
        if record.value is None:
            self.table.pop(record.key)
        else:
            self.table[record.key] = int(record.value)
        if producer_id >= 0:
            self.log.append(f"{producer_id} wrote {record.key!r}")

    def end_transaction(self, producer_id: int, producer_epoch: int, *, is_commit: bool) -> None:
        self.log.append(f"{producer_id} {'committed' if is_commit else 'aborted'}")

    def started(self) -> None:
        self.log.append("started")

    def stopped(self) -> None:
        self.log.append("stopped")

    def add(self, name: bytes, number: int = 1, copies: int = 1) -> Outcome[int]:
        total = (self.table.get(name) or 0) + number
        return Outcome(total, [StoredRecord(name, b"%d" % total)] * copies, self._undo, self._done)

    def _undo(self, error: KafkaError) -> None:
        self.undone += 1
        self.why = error.code

    def _done(self) -> None:
        self.committed += 1


class Story:
    def __init__(self, machine: Machine, partition: Partition) -> None:
        self.machine = machine
        self.partition = partition
        self.runtime: Runtime[Numbers] = Runtime(machine.env, TimerWheel(machine.env.loop), Numbers)
        self.runtime.watch(partition)

    def add(self, name: bytes, number: int = 1, copies: int = 1) -> asyncio.Task[int]:
        return asyncio.ensure_future(self.runtime.write(0, lambda numbers: numbers.add(name, number, copies)))

    def committed(self, name: bytes) -> int | None:
        return self.runtime.read(0, lambda numbers: numbers.table.committed_get(name))

    @property
    def numbers(self) -> Numbers:
        return self.runtime.shard(0).machine


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def tell(machine: Machine, story: Callable[[Story], Coroutine[Any, Any, None]], **overrides: object) -> Partition:
    """Runs a story on a partition that this node leads, once its coordinator has been loaded."""
    partition = leader(machine, **overrides)  # type: ignore[arg-type]
    go_on(machine, partition, story)
    return partition


def go_on(machine: Machine, partition: Partition, story: Callable[[Story], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        told = Story(machine, partition)
        await told.runtime.settle()
        await story(told)
        partition.listeners.remove(told.runtime)
        await told.runtime.stop()

    machine.wait_for(run)


def codes(results: Iterable[object]) -> list[ErrorCode]:
    return [result.code for result in results if isinstance(result, KafkaError)]


def test_a_reply_comes_with_the_commit_and_the_state_before_it(machine: Machine) -> None:
    async def story(told: Story) -> None:
        task = told.add(b"a")
        await asyncio.sleep(0)
        assert told.numbers.table.get(b"a") == 1
        assert await task == 1
        assert told.committed(b"a") == 1
        assert await told.add(b"a", 5) == 6

    partition = tell(machine, story)
    assert [record.value for data in everything(partition.log) for record in read_records(data)] == [b"1", b"6"]


def test_operations_of_one_turn_share_a_batch(machine: Machine) -> None:
    async def story(told: Story) -> None:
        assert await asyncio.gather(*[told.add(b"a") for _ in range(50)]) == list(range(1, 51))

    partition = tell(machine, story)
    assert [parse_header(data).record_count for data in everything(partition.log)] == [50]


def record_counts(partition: Partition) -> list[int]:
    return [parse_header(data).record_count for data in everything(partition.log)]


@pytest.mark.parametrize("haste", [Haste.NOW, Haste.WHEN_CALM])
def test_what_nobody_waits_for_goes_with_the_next_records(machine: Machine, haste: Haste) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        unhurried = shard.write(lambda numbers: numbers.add(b"a"), Haste.NEXT)
        await asyncio.sleep(0.001)
        assert not unhurried.done() and told.numbers.table.get(b"a") == 1
        assert shard.write(lambda numbers: numbers.add(b"a", 2), haste).result() == 3
        assert await unhurried == 1

    assert record_counts(tell(machine, story)) == [2]


def test_and_after_a_moment_if_none_come(machine: Machine) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        unhurried = [shard.write(lambda numbers: numbers.add(b"a"), Haste.NEXT) for _ in range(3)]
        await asyncio.sleep(0.02)
        assert [each.result() for each in unhurried] == [1, 2, 3]
        assert shard.write(lambda numbers: numbers.add(b"a"), Haste.WHEN_CALM).result() == 4

    assert record_counts(tell(machine, story)) == [3, 1]


def test_the_first_of_a_turn_is_appended_at_once_and_others_share_a_batch(machine: Machine) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        first, *others = [shard.write(lambda numbers: numbers.add(b"a"), Haste.WHEN_CALM) for _ in range(5)]
        assert first.result() == 1
        assert await asyncio.gather(*others) == [2, 3, 4, 5]

    assert record_counts(tell(machine, story)) == [1, 4]


@pytest.mark.parametrize("haste", list(Haste))
def test_what_cannot_be_appended_has_not_happened(machine: Machine, haste: Haste) -> None:
    async def story(told: Story) -> None:
        await told.add(b"a")
        told.partition.lead_or_follow(Leadership(NODE, ALONE.leader_epoch, (), (NODE, 2)))  # nobody is in sync
        refused = told.runtime.shard(0).write(lambda numbers: numbers.add(b"a"), haste)
        assert codes(await asyncio.gather(refused, return_exceptions=True)) == [ErrorCode.coordinator_not_available]
        assert told.numbers.table.get(b"a") == told.committed(b"a") == 1
        assert told.numbers.undone == 1

    tell(machine, story)


def test_a_batch_is_no_larger_than_the_topic_allows(machine: Machine) -> None:
    async def story(told: Story) -> None:
        assert await asyncio.gather(*[told.add(b"a") for _ in range(50)]) == list(range(1, 51))

    partition = tell(machine, story, max_message_bytes=500)
    assert len(everything(partition.log)) > 4
    assert max(parse_header(data).size for data in everything(partition.log)) <= 500


def test_what_does_not_fit_into_a_batch_is_undone_and_others_are_not(machine: Machine) -> None:
    async def story(told: Story) -> None:
        first, large, after = told.add(b"a"), told.add(b"a", 100, copies=100), told.add(b"b")
        results = await asyncio.gather(first, large, after, return_exceptions=True)
        assert results[0] == 1 and results[2] == 1
        assert codes(results) == [ErrorCode.unknown_server_error]
        assert (told.committed(b"a"), told.committed(b"b")) == (1, 1)

    tell(machine, story, max_message_bytes=1000)


def test_until_it_is_committed_readers_see_what_was_before(machine: Machine) -> None:
    async def story(told: Story) -> None:
        partition = told.partition
        await told.add(b"a")
        partition.lead_or_follow(Leadership(NODE, 5, (), (NODE, 2)))  # nobody is in sync: nothing can be committed
        task = asyncio.ensure_future(told.runtime.write(0, lambda numbers: numbers.add(b"a")))
        reader = asyncio.ensure_future(told.runtime.write(0, lambda numbers: Outcome(numbers.table.get(b"a"))))
        await asyncio.sleep(1)
        assert codes(await asyncio.gather(task, reader, return_exceptions=True)) == [
            ErrorCode.coordinator_not_available,
            ErrorCode.coordinator_not_available,  # it was about to tell of something that has not happened
        ]
        assert told.committed(b"a") == 1 and told.numbers.table.get(b"a") == 1

    tell(machine, story)


def test_a_reply_waits_for_the_flush_where_the_topic_asks_for_one(machine: Machine) -> None:
    async def story(told: Story) -> None:
        cast(SimExecutor, told.machine.env.executor).longest_s = 0.5
        first = told.add(b"a")
        await asyncio.sleep(0.01)
        assert told.numbers.table.get(b"a") == 1
        assert told.committed(b"a") is None and not first.done()
        same = asyncio.ensure_future(told.runtime.write(0, lambda numbers: Outcome(numbers.table.get(b"a"))))
        await asyncio.sleep(0.01)
        assert not same.done()
        assert await first == 1 and await same == 1
        assert told.committed(b"a") == 1

    tell(machine, story, flush_messages=1)


def test_who_waits_too_long_is_told_so_and_it_may_come_to_be_nevertheless(machine: Machine) -> None:
    async def story(told: Story) -> None:
        cast(SimExecutor, told.machine.env.executor).longest_s = 1000
        early = told.add(b"a")
        await asyncio.sleep(2)
        late = told.add(b"a")
        began = asyncio.get_running_loop().time()
        assert codes(await asyncio.gather(early, return_exceptions=True)) == [ErrorCode.coordinator_not_available]
        assert 2.9 < asyncio.get_running_loop().time() - began < 3.1
        assert codes(await asyncio.gather(late, return_exceptions=True)) == [ErrorCode.coordinator_not_available]
        assert 4.9 < asyncio.get_running_loop().time() - began < 5.1
        assert told.committed(b"a") is None
        await asyncio.sleep(5000)
        assert told.committed(b"a") == 2

    tell(machine, story, flush_messages=1)


def test_a_disk_that_fails_undoes_all_that_was_decided_since(machine: Machine) -> None:
    async def story(told: Story) -> None:
        await told.add(b"a")
        numbers = told.numbers
        told.machine.disk.fail("*.log", errno.EIO, ("write",))
        results = await asyncio.gather(told.add(b"a"), told.add(b"b"), return_exceptions=True)
        assert codes(results) == [ErrorCode.not_coordinator] * 2
        assert dict(numbers.table.items()) == {b"a": 1}
        assert (numbers.undone, numbers.committed, numbers.why) == (2, 1, ErrorCode.not_coordinator)

    tell(machine, story)


class TestLeaders:
    def test_a_new_leader_knows_what_the_old_one_knew(self, machine: Machine) -> None:
        async def first(told: Story) -> None:
            await asyncio.gather(*[told.add(b"%d" % (n % 7), n) for n in range(100)])

        async def second(told: Story) -> None:
            assert {key: value for key, value in told.numbers.table.items()} == {
                b"%d" % n: sum(range(n, 100, 7)) for n in range(7)
            }
            assert told.numbers.log == ["started"]

        go_on(machine, tell(machine, first), second)

    def test_resigning_and_being_elected_again(self, machine: Machine) -> None:
        async def story(told: Story) -> None:
            await told.add(b"a")
            numbers = told.numbers
            late = told.add(b"a")
            await asyncio.sleep(0)
            told.partition.lead_or_follow(Leadership(2, 6, (2,), (NODE, 2)))
            assert codes([await asyncio.gather(late, return_exceptions=True)][0]) == [ErrorCode.not_coordinator]
            assert numbers.log == ["started", "stopped"]
            with pytest.raises(KafkaError) as refused:
                told.committed(b"a")
            assert refused.value.code is ErrorCode.not_coordinator
            # when it leads again
            told.partition.lead_or_follow(ALONE._replace(leader_epoch=7))
            with pytest.raises(KafkaError) as refused:
                told.committed(b"a")
            assert refused.value.code is ErrorCode.coordinator_load_in_progress
            await told.runtime.settle()
            assert told.committed(b"a") == 1

        tell(machine, story)

    def test_transactions_in_the_log(self, machine: Machine) -> None:
        partition = leader(machine)
        pending = build_batch(
            [Record(b"a", b"5", 0)], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True
        )
        for data in (pending, marker(9, commit=False)):
            machine.call(lambda data=data: partition.log.append(data, parse_header(data), 5, 0, 0))
        partition.lead_or_follow(ALONE._replace(leader_epoch=6))

        async def story(told: Story) -> None:
            assert told.numbers.log == ["9 wrote b'a'", "9 aborted", "started"]

        go_on(machine, partition, story)


class TestTransactions:
    """Of producers, who write to the coordinator's log; not of the coordinator itself."""

    @staticmethod
    def begin(told: Story, producer_id: int = 9, epoch: int = 0) -> None:
        producers = told.partition.log.producers
        begun = producers.begin_verification(producer_id, epoch, -1, True, 0)
        assert isinstance(begun, Verification)
        producers.verified(producer_id, epoch, begun)

    def test_what_it_wrote_and_its_end_are_in_the_log_and_told(self, machine: Machine) -> None:
        async def story(told: Story) -> None:
            shard = told.runtime.shard(0)
            before = shard.write(lambda numbers: numbers.add(b"a"))
            self.begin(told)
            within = shard.write_in_transaction(lambda numbers: numbers.add(b"b", 5), 9, 0)
            after = shard.write(lambda numbers: numbers.add(b"c"))
            ended = shard.end_transaction(9, 1, True, 3, 2)
            assert [await before, await within, await after] == [1, 5, 1]
            await ended
            assert told.numbers.log == ["started", "9 wrote b'b'", "9 committed"]
            headers = [parse_header(batch) for batch in everything(told.partition.log)]
            assert [(each.producer_id, each.is_transactional, each.is_control) for each in headers] == [
                (-1, False, False),
                (9, True, False),
                (-1, False, False),
                (9, True, True),
            ]
            assert told.partition.last_stable_offset == 4

        async def again(told: Story) -> None:
            assert told.numbers.log == ["9 wrote b'b'", "9 committed", "started"]

        go_on(machine, tell(machine, story), again)

    def test_one_that_its_coordinator_does_not_know_changes_nothing(self, machine: Machine) -> None:
        async def story(told: Story) -> None:
            shard = told.runtime.shard(0)
            before = shard.write(lambda numbers: numbers.add(b"a"))
            within = shard.write_in_transaction(lambda numbers: numbers.add(b"a", 5), 9, 0)
            after = shard.write(lambda numbers: numbers.add(b"a"))
            results = await asyncio.gather(before, within, after, return_exceptions=True)
            assert codes(results) == [ErrorCode.invalid_txn_state]
            assert (results[0], results[2]) == (1, 2)

        tell(machine, story)

    def test_a_marker_that_is_refused_changes_nothing(self, machine: Machine) -> None:
        async def story(told: Story) -> None:
            shard = told.runtime.shard(0)
            await shard.end_transaction(9, 5, True, 3, 2)
            late = [shard.end_transaction(9, 4, True, 3, 2), shard.end_transaction(9, 6, True, 2, 2)]
            assert codes(await asyncio.gather(*late, return_exceptions=True)) == [
                ErrorCode.invalid_producer_epoch,
                ErrorCode.transaction_coordinator_fenced,
            ]
            assert told.numbers.log == ["started", "9 committed"]

        tell(machine, story)


def test_what_was_decided_on_what_did_not_happen_does_not_happen(machine: Machine) -> None:
    """The second needs a batch of its own, so the first is appended, and fails, after the second was decided on it."""

    async def story(told: Story) -> None:
        await told.add(b"a")
        append, failures = told.partition.append, [Appended(ErrorCode.not_enough_replicas)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(told.partition, "append", lambda *given: failures.pop() if failures else append(*given))
            shard = told.runtime.shard(0)
            first = shard.write(lambda numbers: numbers.add(b"a", 10))
            second = shard.write(lambda numbers: numbers.add(b"a", 1, copies=11))
            results = await asyncio.gather(first, second, return_exceptions=True)
        assert codes(results) == [ErrorCode.coordinator_not_available] * 2
        assert told.numbers.undone == 2
        assert await told.add(b"a") == 2

    tell(machine, story, max_message_bytes=500)


def test_an_outcome_that_cannot_be_applied_leaves_nothing_behind(machine: Machine) -> None:
    async def story(told: Story) -> None:
        first = told.add(b"a")
        await asyncio.sleep(0)
        half = [StoredRecord(b"b", b"1"), StoredRecord(b"b", b"not a number")]
        with pytest.raises(KafkaError) as refused:
            await told.runtime.write(0, lambda numbers: Outcome(1, half, numbers._undo))
        assert refused.value.code is ErrorCode.unknown_server_error and told.numbers.undone == 1
        assert [await first, await told.add(b"a")] == [1, 2]
        keys = [record.key for batch in everything(told.partition.log) for record in read_records(batch)]
        assert keys == [b"a", b"a"] and told.committed(b"b") is None

    tell(machine, story)


def test_an_alarm_that_fails_rings_again(machine: Machine) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        failures = [ValueError("once"), ValueError("twice")]

        def operation() -> Outcome[int]:
            if failures:
                raise failures.pop()
            return shard.machine.add(b"a")

        shard.set("member", 100, operation)
        await asyncio.sleep(0.9)
        assert told.committed(b"a") is None
        await asyncio.sleep(0.5)
        assert told.committed(b"a") == 1

    tell(machine, story)


def test_a_shard_that_lost_its_place_in_the_log_is_loaded_again(machine: Machine) -> None:
    async def story(told: Story) -> None:
        await told.add(b"a")
        stranger = build_batch([Record(b"s", b"7", 0)])
        told.partition.log.append(stranger, parse_header(stranger), 5, 0, 0)
        assert await told.add(b"a") == 2, "it is in the log, one place further on"
        with pytest.raises(KafkaError) as refused:
            await told.add(b"a")
        assert refused.value.code is ErrorCode.coordinator_load_in_progress
        await told.runtime.settle()
        assert (told.committed(b"s"), await told.add(b"a")) == (7, 3)

    tell(machine, story)


def test_of_records_with_one_key_the_last_is_replayed_in_its_place(machine: Machine) -> None:
    partition = leader(machine)
    plain = [build_batch([Record(key, value, 0)]) for key, value in ((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))]
    pending = build_batch([Record(b"c", b"5", 0)], producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    rest = [build_batch([Record(key, value, 0)]) for key, value in ((b"b", None), (b"c", b"7"), (b"c", b"8"))]
    for data in (*plain, pending, marker(9, commit=True), *rest):
        machine.call(lambda data=data: partition.log.append(data, parse_header(data), 5, 0, 0))
    partition.lead_or_follow(ALONE._replace(leader_epoch=6))
    replayed = []

    class Watched(Numbers):
        def replay(self, record: StoredRecord, producer_id: int, producer_epoch: int) -> None:
            replayed.append((self.shard.timeline.offset, *record))
            super().replay(record, producer_id, producer_epoch)

    async def run() -> None:
        runtime: Runtime[Numbers] = Runtime(machine.env, TimerWheel(machine.env.loop), Watched)
        runtime.watch(partition)
        await runtime.settle()
        table = runtime.shard(0).machine.table
        assert dict(table.items()) == {b"a": 3, b"c": 8} and table.is_settled
        await runtime.stop()

    machine.wait_for(run)
    before = [(1, b"b", b"2"), (2, b"a", b"3")]
    assert replayed == [*before, (3, b"c", b"5"), (5, b"b", None), (7, b"c", b"8")]


def test_alarms_run_operations(machine: Machine) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        shard.set("late", 500, lambda: shard.machine.add(b"a", 7))
        shard.set("never", 100, lambda: shard.machine.add(b"a", 100))
        shard.set("late", 1000, lambda: shard.machine.add(b"a", 8))
        shard.cancel("never")
        await asyncio.sleep(0.9)
        assert told.committed(b"a") is None
        await asyncio.sleep(0.3)
        assert told.committed(b"a") == 8

    tell(machine, story)


def test_an_alarm_may_be_put_off_and_brought_forward(machine: Machine) -> None:
    async def story(told: Story) -> None:
        shard = told.runtime.shard(0)
        for _ in range(5):
            shard.set("session", 1000, lambda: shard.machine.add(b"a"))
            await asyncio.sleep(0.9)
        assert told.committed(b"a") is None
        await asyncio.sleep(0.2)
        assert told.committed(b"a") == 1, "it rings once, and when it was last set to"
        await asyncio.sleep(5)
        assert told.committed(b"a") == 1
        shard.set("session", 9000, lambda: shard.machine.add(b"a", 100))
        shard.set("session", 100, lambda: shard.machine.add(b"a", 10))
        await asyncio.sleep(0.2)
        assert told.committed(b"a") == 11
        shard.set("session", 100, lambda: shard.machine.add(b"a", 1000))
        shard.set("session", 1000, lambda: shard.machine.add(b"a", 1000))
        await asyncio.sleep(0.5)  # it has looked, and waits on
        shard.cancel("session")
        await asyncio.sleep(1)
        assert told.committed(b"a") == 11

    tell(machine, story)


def test_an_alarm_that_is_late_listens_first(machine: Machine) -> None:
    """A node that stood still finds in its connections what its members said meanwhile."""

    async def story(told: Story) -> None:
        shard, loop = told.runtime.shard(0), asyncio.get_running_loop()
        for name in ("heard", "silent"):
            shard.set(name, 1000, lambda: shard.machine.add(b"a"))
        await asyncio.sleep(0.9)
        loop._now += 30  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        assert told.committed(b"a") is None
        shard.set("heard", 1000, lambda: shard.machine.add(b"b"))
        await asyncio.sleep(0.6)
        assert (told.committed(b"a"), told.committed(b"b")) == (1, None), "who is not heard then has been silent"
        loop._now += 30  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        assert told.committed(b"b") is None
        loop._now += 30  # type: ignore[attr-defined]
        await asyncio.sleep(0.1)
        assert told.committed(b"b") == 1, "one that is always late rings nevertheless"

    tell(machine, story)


def test_nothing_is_decided_on_what_is_too_large(machine: Machine) -> None:
    async def story(told: Story) -> None:
        await told.add(b"a")
        results = await asyncio.gather(told.add(b"a", 100, copies=100), told.add(b"a"), return_exceptions=True)
        assert codes(results) == [ErrorCode.unknown_server_error] and results[1] == 2
        assert told.committed(b"a") == 2

    tell(machine, story, max_message_bytes=1000)
