"""The transaction coordinator on one partition of a simulated machine: what it writes, tells, and finds again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine
from tests.replica.given import NODE, leader
from tests.replica.test_leading import EPOCH, THREE, Around

from ottla.coordinator.machine import Outcome
from ottla.coordinator.runtime import Runtime
from ottla.coordinator.shard import Shard
from ottla.coordinator.txn.machine import Settings, Surroundings, TxnMachine
from ottla.coordinator.txn.transaction import Marker, ProducerEpoch, Transaction, TxnState
from ottla.env.timers import TimerWheel
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import TopicPartition
from ottla.replica.partition import Partition

R = TypeVar("R")
S = TxnState
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
HOUR_MS = 3_600_000


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


class Keeper:
    """Remembers what markers were to be sent; a test says when they are written."""

    def __init__(self, machine: Machine, partition: Partition) -> None:
        self.machine = machine
        self.sent: list[tuple[str, Marker, Sequence[TopicPartition]]] = []
        self.ids = iter(range(100, 200))
        self.runtime: Runtime[TxnMachine] = Runtime(machine.env, TimerWheel(machine.env.loop), self._make)
        self.runtime.watch(partition)

    def _make(self, shard: Shard[TxnMachine]) -> TxnMachine:
        return TxnMachine(
            shard.timeline,
            Surroundings(
                shard,
                self,
                self.machine.env.clock.now_ms,
                lambda: next(self.ids, None),
                lambda: 2,
                lambda: Settings(7 * 24 * HOUR_MS, 10_000, HOUR_MS),
                shard.epoch,
            ),
        )

    def send(self, transactional_id: str, marker: Marker, partitions: Sequence[TopicPartition]) -> None:
        self.sent.append((transactional_id, marker, partitions))

    def write(self, operation: Callable[[TxnMachine], Outcome[R]]) -> asyncio.Future[R]:
        return self.runtime.shard(0).write(operation)

    async def begin(self, name: str = "tx", *partitions: TopicPartition, version: int = 2) -> ProducerEpoch:
        reply = await self.write(lambda txns: txns.initialise(name, 60_000, None))
        assert reply.code is ErrorCode.none
        if partitions:
            code = await self.write(lambda txns: txns.add_partitions(name, reply.producer, partitions, version))
            assert code is ErrorCode.none
        return reply.producer

    def of(self, name: str = "tx") -> Transaction:
        found = self.runtime.shard(0).machine.describe(name)
        assert found is not None
        return found


def tell(
    machine: Machine, story: Callable[[Keeper], Coroutine[Any, Any, None]], partition: Partition | None = None
) -> Partition:
    place = partition if partition is not None else leader(machine)

    async def run() -> None:
        keeper = Keeper(machine, place)
        await keeper.runtime.settle()
        await story(keeper)
        place.listeners.remove(keeper.runtime)
        await keeper.runtime.stop()

    machine.wait_for(run)
    return place


def test_a_transaction_from_beginning_to_end(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A, B)
        assert keeper.of().state is S.ONGOING
        ended = await keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        assert ended == (ErrorCode.none, (producer.producer_id, 1))
        [(name, marker, partitions)] = keeper.sent
        assert (name, tuple(partitions)) == ("tx", (A, B))
        assert marker == Marker(ProducerEpoch(producer.producer_id, 1), True, 5, 2, keeper.of().updated_ms)
        assert keeper.of().state is S.PREPARE_COMMIT
        await keeper.write(lambda txns: txns.complete("tx", marker))
        assert (keeper.of().state, keeper.of().partitions) == (S.COMPLETE_COMMIT, ())

    tell(machine, story)


def test_markers_are_sent_only_when_the_outcome_is_committed(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A)
        ended = keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        assert not keeper.sent
        await ended
        assert len(keeper.sent) == 1

    tell(machine, story)


def test_the_next_decision_builds_on_what_is_not_committed_yet(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin()
        added = keeper.write(lambda txns: txns.add_partitions("tx", producer, [A], 2))
        ended = keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        next_one = keeper.write(lambda txns: txns.add_partitions("tx", ProducerEpoch(producer.producer_id, 1), [A], 2))
        assert [await added, (await ended).code, await next_one] == [
            ErrorCode.none,
            ErrorCode.none,
            ErrorCode.concurrent_transactions,
        ]

    tell(machine, story)


def test_what_was_open_or_decided_goes_on_after_a_restart(machine: Machine) -> None:
    producers = {}

    async def before(keeper: Keeper) -> None:
        for name in ("open", "committing", "aborting", "done"):
            producers[name] = await keeper.begin(name, A, B)
        await keeper.write(lambda txns: txns.end("committing", producers["committing"], True, 2))
        await keeper.write(lambda txns: txns.end("aborting", producers["aborting"], False, 0))
        await keeper.write(lambda txns: txns.end("done", producers["done"], True, 2))
        marker = keeper.sent[-1][1]
        await keeper.write(lambda txns: txns.complete("done", marker))

    partition = tell(machine, before)

    async def after(keeper: Keeper) -> None:
        await asyncio.sleep(0.1)
        assert {name: (marker.is_commit, marker.producer.epoch) for name, marker, _ in keeper.sent} == {
            "committing": (True, 1),
            "aborting": (False, 0),
        }
        assert all(tuple(partitions) == (A, B) for _, _, partitions in keeper.sent)
        assert [keeper.of(name).state for name in ("open", "done")] == [S.ONGOING, S.COMPLETE_COMMIT]
        for name, marker, _ in keeper.sent:
            await keeper.write(lambda txns, name=name, marker=marker: txns.complete(name, marker))  # type: ignore[misc]
        assert [keeper.of(name).state for name in ("committing", "aborting")] == [S.COMPLETE_COMMIT, S.COMPLETE_ABORT]
        again = await keeper.write(lambda txns: txns.end("committing", producers["committing"], True, 2))
        assert again == (ErrorCode.none, (producers["committing"].producer_id, 1))

    tell(machine, after, partition)


def test_what_was_decided_is_told_after_an_election_only_when_it_is_committed(machine: Machine) -> None:
    """The next leader may not have it: then the transaction is open again, and may end otherwise."""

    async def before(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A)
        await keeper.write(lambda txns: txns.end("tx", producer, True, 2))

    log = tell(machine, before).log
    elected = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 0, Around())
    elected.lead_or_follow(THREE._replace(leader_epoch=EPOCH + 1))

    async def after(keeper: Keeper) -> None:
        await asyncio.sleep(1)
        assert keeper.runtime.shard(0).machine.transactions["tx"].state is S.PREPARE_COMMIT
        assert (elected.high_watermark, keeper.sent) == (0, [])
        for follower in (2, 3):
            elected.follower_fetched(follower, log.end_offset, 0, follower * 10)
        await asyncio.sleep(1)
        [(name, marker, partitions)] = keeper.sent
        assert (name, marker.is_commit, tuple(partitions)) == ("tx", True, (A,))

    tell(machine, after, elected)


def test_a_late_end_never_touches_the_next_transaction(machine: Machine) -> None:
    """What Jepsen found: with an epoch for many transactions, a delayed EndTxn ended the wrong one."""

    async def story(keeper: Keeper) -> None:
        first = await keeper.begin("tx", A)
        await keeper.write(lambda txns: txns.end("tx", first, True, 2))
        await keeper.write(lambda txns: txns.complete("tx", keeper.sent[-1][1]))
        second = ProducerEpoch(first.producer_id, 1)
        await keeper.write(lambda txns: txns.add_partitions("tx", second, [B], 2))
        late = await keeper.write(lambda txns: txns.end("tx", first, True, 2))
        assert late.code is ErrorCode.producer_fenced
        assert keeper.of().state is S.ONGOING

    tell(machine, story)


def test_a_completion_that_comes_late_changes_nothing(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        first = await keeper.begin("tx", A)
        await keeper.write(lambda txns: txns.end("tx", first, True, 2))
        marker = keeper.sent[-1][1]
        await keeper.write(lambda txns: txns.complete("tx", marker))
        second = ProducerEpoch(first.producer_id, 1)
        await keeper.write(lambda txns: txns.add_partitions("tx", second, [B], 2))
        await keeper.write(lambda txns: txns.end("tx", second, False, 2))
        await keeper.write(lambda txns: txns.complete("tx", marker))
        assert keeper.of().state is S.PREPARE_ABORT
        await keeper.write(lambda txns: txns.complete("unknown", marker))

    tell(machine, story)


def test_a_late_completion_does_not_end_the_next_one_of_the_same_epoch(machine: Machine) -> None:
    """Of clients of the first version: whoever completes may have to say so again, when it has long been heard."""

    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A, version=0)
        await keeper.write(lambda txns: txns.end("tx", producer, True, 0))
        first = keeper.sent[-1][1]
        await keeper.write(lambda txns: txns.complete("tx", first))
        await asyncio.sleep(0.01)
        await keeper.write(lambda txns: txns.add_partitions("tx", producer, [B], 0))
        await keeper.write(lambda txns: txns.end("tx", producer, True, 0))
        await keeper.write(lambda txns: txns.complete("tx", first))
        assert keeper.of().state is S.PREPARE_COMMIT
        await keeper.write(lambda txns: txns.complete("tx", keeper.sent[-1][1]))
        assert keeper.of().state is S.COMPLETE_COMMIT

    tell(machine, story)


def test_what_stays_open_too_long_is_aborted_and_its_producer_fenced(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A)
        await asyncio.sleep(59)
        assert keeper.of().state is S.ONGOING
        await asyncio.sleep(12)
        assert (keeper.of().state, keeper.of().epoch) == (S.PREPARE_ABORT, 1)
        [(_, marker, partitions)] = keeper.sent
        assert (marker.is_commit, marker.producer.epoch, tuple(partitions)) == (False, 1, (A,))
        late = await keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        assert late.code is ErrorCode.concurrent_transactions
        await keeper.write(lambda txns: txns.complete("tx", marker))
        late = await keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        assert late.code is ErrorCode.invalid_txn_state  # its epoch is one below: as if it repeated itself
        assert await keeper.write(lambda txns: txns.add_partitions("tx", producer, [A], 2)) is ErrorCode.producer_fenced

    tell(machine, story)


def test_whose_transaction_took_too_long_may_go_on_if_it_says_who_it_was(machine: Machine) -> None:
    """KIP-360: nobody has taken its place, only its transaction is lost. It gets the epoch of the abort."""

    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A)
        await asyncio.sleep(71)
        [(_, marker, _)] = keeper.sent
        await keeper.write(lambda txns: txns.complete("tx", marker))
        for _ in range(2):
            again = await keeper.write(lambda txns: txns.initialise("tx", 60_000, producer))
            assert again == (ErrorCode.none, (producer.producer_id, 1))

    tell(machine, story)


def test_a_transaction_of_another_coordinator_has_no_time_limit(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        reply = await keeper.write(lambda txns: txns.initialise("tx", 2**31 - 1, None))
        await keeper.write(lambda txns: txns.add_partitions("tx", reply.producer, [A], 2))
        await asyncio.sleep(40 * 24 * 3600)
        assert keeper.of().state is S.ONGOING

    tell(machine, story)


def test_ids_that_nobody_uses_are_forgotten(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        await keeper.begin("unused")
        await asyncio.sleep(6 * 24 * 3600)
        await keeper.begin("used")
        await asyncio.sleep(24 * 3600 + 3601)
        found = {each.transactional_id for each in keeper.runtime.shard(0).machine.list((), None, -1, None)}
        assert found == {"used"}

    partition = tell(machine, story)

    async def after(keeper: Keeper) -> None:
        assert keeper.runtime.shard(0).machine.describe("unused") is None

    tell(machine, after, partition)


def test_what_could_not_be_written_has_not_happened(machine: Machine) -> None:
    async def story(keeper: Keeper) -> None:
        producer = await keeper.begin("tx", A)
        partition = keeper.runtime.shard(0).partition
        partition.lead_or_follow(partition.leadership._replace(isr=()))
        with pytest.raises(KafkaError) as refused:
            await keeper.write(lambda txns: txns.end("tx", producer, True, 2))
        assert refused.value.code is ErrorCode.coordinator_not_available
        assert not keeper.sent
        assert keeper.of().state is S.ONGOING

    tell(machine, story)


@pytest.mark.parametrize(
    ("producer_ids", "states", "longer_than_ms", "names", "found"),
    [
        ((), None, -1, None, {"idle", "open"}),
        ({100}, None, -1, None, {"idle"}),
        ((), {S.ONGOING}, -1, None, {"open"}),
        ((), set(), -1, None, set()),
        ((), {S.ONGOING}, 1000, None, {"open"}),
        ((), {S.ONGOING}, 1_000_000, None, set()),
        ((), None, -1, {"idle"}, {"idle"}),
    ],
)
def test_listing(
    machine: Machine,
    producer_ids: set[int],
    states: set[TxnState] | None,
    longer_than_ms: int,
    names: set[str] | None,
    found: set[str],
) -> None:
    async def story(keeper: Keeper) -> None:
        await keeper.begin("idle")
        await keeper.begin("open", A)
        await asyncio.sleep(5)
        listed = keeper.runtime.shard(0).machine.list(producer_ids, states, longer_than_ms, names)
        assert {each.transactional_id for each in listed} == found

    tell(machine, story)
