"""Transactions: which ids there are and how they are, which producers have one open where, and ending one."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from ottla.cli.admin.brokers import know_brokers
from ottla.cli.admin.moving import asked_again
from ottla.cli.admin.session import Session, raise_for
from ottla.cli.admin.topics import TopicInfo
from ottla.cli.cluster_options import Address
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition
from ottla.wire.build import build, request_type

INIT_PRODUCER_ID, WRITE_TXN_MARKERS, FIND_COORDINATOR = 22, 27, 10
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
_TRANSACTION_KEY: Final = 1
_MS: Final = timedelta(milliseconds=1)
STATES: Final = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "PrepareEpochFence",
)  # fmt: skip
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")


class ListedId(NamedTuple):
    id: str
    coordinator: int
    producer_id: int
    state: str


class TransactionInfo(NamedTuple):
    id: str
    coordinator: int
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    start_ms: int | None
    """None if none has begun."""
    partitions: tuple[TopicPartition, ...]

    @property
    def is_open(self) -> bool:
        return self.state in OPEN


class OpenProducer(NamedTuple):
    """One with an open transaction on a partition."""

    partition: TopicPartition
    leader: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    last_ms: int
    """The timestamp of its last batch."""


@asked_again
async def list_ids(
    session: Session, states: Sequence[str] = (), longer_than_ms: int = -1, producer_ids: Sequence[int] = ()
) -> list[ListedId]:
    """Of all brokers, sorted by name."""
    await know_brokers(session)
    found: list[ListedId] = []
    for broker in sorted(session.brokers):
        version = await session.newest(LIST_TRANSACTIONS, 2, broker=broker)
        if version is None:
            raise OttlaError(f"broker {broker} does not list transactions, as Kafka before 3.0")
        if longer_than_ms >= 0 and version < 1:
            raise OttlaError(f"broker {broker} cannot list by duration, as Kafka before 3.8: leave --longer-than out")
        values = {
            "state_filters": tuple(states), "producer_id_filters": tuple(producer_ids),
            "duration_filter": longer_than_ms, "transactional_id_pattern": None,
        }  # fmt: skip
        request = build(request_type(LIST_TRANSACTIONS, version), values)
        answer = await session.call(request, broker=broker)
        raise_for(answer.error_code, None, f"transactions of broker {broker}")
        found += [
            ListedId(row.transactional_id, broker, row.producer_id, row.transaction_state)
            for row in answer.transaction_states
        ]
    return sorted(found)


async def describe(session: Session, names: Iterable[str]) -> list[TransactionInfo]:
    """In the order of the names; OttlaError if there is no such id."""
    return list(await asyncio.gather(*(_describe(session, name) for name in names)))


@asked_again
async def _describe(session: Session, name: str) -> TransactionInfo:
    broker = await _coordinator(session, name)
    values = {"transactional_ids": (name,)}
    answer = await session.call(build(request_type(DESCRIBE_TRANSACTIONS, 0), values), broker=broker)
    (row,) = answer.transaction_states
    if row.error_code is ErrorCode.transactional_id_not_found:
        raise OttlaError(f"there is no transactional id {name}; `ottla txn list` shows those that are there")
    raise_for(row.error_code, None, f"transactional id {name}")
    start_ms = round(row.transaction_start_time.timestamp() * 1000)
    return TransactionInfo(
        row.transactional_id,
        broker,
        row.transaction_state,
        row.producer_id,
        row.producer_epoch,
        row.transaction_timeout // _MS,
        start_ms if start_ms > 0 else None,
        tuple(sorted(TopicPartition(topic.topic, number) for topic in row.topics for number in topic.partitions)),
    )


async def _coordinator(session: Session, name: str) -> int:
    request = build(request_type(FIND_COORDINATOR, 3), {"key": name, "key_type": _TRANSACTION_KEY})
    answer = await session.call(request)
    raise_for(answer.error_code, answer.error_message, f"the coordinator of {name}")
    session.brokers[answer.node_id] = Address(answer.host, answer.port)
    return int(answer.node_id)


async def open_producers(session: Session, found: Sequence[TopicInfo], only: int | None = None) -> list[OpenProducer]:
    """Who has a transaction open on partitions of topics, the oldest of each partition first."""
    by_leader: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for topic in found:
        for partition in topic.partitions:
            if partition.leader >= 0 and only in (None, partition.number):
                by_leader[partition.leader][topic.name].append(partition.number)
    producers: list[OpenProducer] = []
    for leader, names in by_leader.items():
        asked = [{"name": name, "partition_indexes": tuple(numbers)} for name, numbers in names.items()]
        answer = await session.call(build(request_type(DESCRIBE_PRODUCERS, 0), {"topics": asked}), broker=leader)
        for answered in answer.topics:
            for row in answered.partitions:
                key = TopicPartition(answered.name, row.partition_index)
                raise_for(row.error_code, row.error_message, str(key))
                producers += [
                    OpenProducer(
                        key,
                        leader,
                        each.producer_id,
                        each.producer_epoch,
                        each.coordinator_epoch,
                        each.current_txn_start_offset,
                        each.last_timestamp,
                    )
                    for each in row.active_producers
                    if each.current_txn_start_offset >= 0
                ]
    return sorted(producers, key=lambda each: (each.partition, each.start_offset))


async def owners(session: Session, producers: Sequence[OpenProducer]) -> dict[int, TransactionInfo]:
    """By producer id what its coordinator says; those that no coordinator knows are left out."""
    ids = sorted({each.producer_id for each in producers})
    if not ids:
        return {}
    listed = await list_ids(session, producer_ids=ids)
    found: dict[int, TransactionInfo] = {}
    for each in listed:
        (described,) = await describe(session, [each.id])
        found[each.producer_id] = described
    return found


@asked_again
async def end_by_force(session: Session, name: str) -> TransactionInfo:
    """Whoever has the id is fenced, and what he has open aborted: as if another producer began."""
    before = (await describe(session, [name]))[0]
    version = 4
    values = {
        "transactional_id": name, "transaction_timeout": timedelta(minutes=1), "producer_id": -1, "producer_epoch": -1,
    }  # fmt: skip
    request = build(request_type(INIT_PRODUCER_ID, version), values)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + session.cluster.timeout_s
    while True:
        answer = await session.call(request, broker=await _coordinator(session, name))
        if answer.error_code is not ErrorCode.concurrent_transactions or loop.time() > deadline:
            break
        await asyncio.sleep(0.1)
    raise_for(answer.error_code, None, f"transactional id {name}")
    return before


async def write_abort(session: Session, producer: OpenProducer) -> None:
    """The marker that a coordinator would write, for a transaction that none knows of."""
    marker = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "transaction_result": False,
        "topics": [{"name": producer.partition.topic, "partition_indexes": (producer.partition.partition,)}],
        "coordinator_epoch": producer.coordinator_epoch,
    }
    answer = await session.call(
        build(request_type(WRITE_TXN_MARKERS, 1), {"markers": [marker]}), broker=producer.leader
    )  # fmt: skip
    for each in answer.markers:
        for topic in each.topics:
            for row in topic.partitions:
                raise_for(row.error_code, None, f"{topic.name}-{row.partition_index}")
