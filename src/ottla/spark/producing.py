"""Writes record batches: as an idempotent producer, or within a transaction that carries a marker.

The requests are those of clients before transaction version 2 (KIP-890): every broker since Kafka 3.0 understands them,
and an epoch lasts for a whole transaction.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from struct import Struct
from typing import Final, NamedTuple, TypeVar

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.model.names import TopicPartition
from ottla.spark.client_settings import ClientSettings
from ottla.spark.cluster import GROUP, TRANSACTION, Cluster, Refused, request_of
from ottla.spark.encoder import Encoded, sealed
from ottla.wire.pieces import count, text

_PRODUCE, _OFFSET_FETCH, _INIT_PRODUCER_ID, _ADD_PARTITIONS, _ADD_OFFSETS, _END_TXN, _TXN_OFFSET_COMMIT = (
    0, 9, 22, 24, 25, 26, 28,
)  # fmt: skip
_DESCRIBE_PRODUCERS: Final = 61
T = TypeVar("T")
_ALL: Final = -1
_ACKS_AND_TIMEOUT, _INDEX = Struct(">hi"), Struct(">i")
_LARGEST_SEQUENCE: Final = 0x7FFFFFFF
_FENCED: Final = (ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch)


class Fenced(OttlaError):
    """Somebody else writes under the same transactional id, and has begun later."""


class Identity(NamedTuple):
    """Under which one transaction is written, by whomever the driver has given it to."""

    transactional_id: str
    producer_id: int
    epoch: int


class Producer:
    """Sends batches of any partitions; each partition's in the order in which they are given."""

    def __init__(self, cluster: Cluster, transactional_id: str | None = None) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._id, self._epoch = -1, -1
        self._sequences: dict[TopicPartition, int] = defaultdict(int)
        self._added: set[TopicPartition] = set()

    @classmethod
    def with_identity(cls, cluster: Cluster, identity: Identity) -> Producer:
        """Takes part in a transaction that another has begun and will end."""
        producer = cls(cluster, identity.transactional_id)
        producer._id, producer._epoch = identity.producer_id, identity.epoch
        return producer

    @property
    def settings(self) -> ClientSettings:
        return self._cluster.settings

    @property
    def identity(self) -> Identity:
        assert self._transactional_id is not None
        return Identity(self._transactional_id, self._id, self._epoch)

    async def begin(self) -> None:
        """With a transactional id: whoever has used it before is fenced, and his transaction aborted."""
        settings = self._cluster.settings
        request = request_of(
            _INIT_PRODUCER_ID,
            4,
            transactional_id=self._transactional_id,
            transaction_timeout=timedelta(milliseconds=settings.transaction_timeout_ms),
        )

        async def ask() -> None:
            if self._transactional_id is None:
                answer = await self._cluster.ask_anyone(request)
            else:
                answer = await self._cluster.ask(await self._coordinator(), request)
            _check(answer.error_code)
            self._id, self._epoch = answer.producer_id, answer.producer_epoch

        await self._asked("cannot begin to write", ask)
        self._sequences.clear()
        self._added.clear()

    async def abandon(self) -> None:
        """Aborts the transaction, and fences whoever still writes in it; but nobody who has begun since.

        To ask for an epoch would abort an open transaction whoever it belongs to; to end it, only if it is ours.
        """
        await self.end(commit=False)
        request = request_of(
            _INIT_PRODUCER_ID,
            4,
            transactional_id=self._transactional_id,
            transaction_timeout=timedelta(milliseconds=self.settings.transaction_timeout_ms),
            producer_id=self._id,
            producer_epoch=self._epoch,
        )

        async def ask() -> None:
            _check((await self._cluster.ask(await self._coordinator(), request)).error_code)

        await self._asked("cannot end what was begun", ask)

    async def send(self, batches: Iterable[Encoded]) -> None:
        """OttlaError, with the partition and the cause, if one is not written."""
        by_place: dict[TopicPartition, list[Encoded]] = defaultdict(list)
        for batch in batches:
            by_place[batch.place].append(batch)
        if self._transactional_id is not None:
            await self.add_partitions(by_place.keys())
        await asyncio.gather(*(self._send_in_order(place, own) for place, own in by_place.items()))

    async def _send_in_order(self, place: TopicPartition, batches: list[Encoded]) -> None:
        for batch in batches:
            await self._send_one(place, sealed(batch.data, self._id, self._epoch, self._sequences[place]))
            self._sequences[place] = (self._sequences[place] + batch.records) & _LARGEST_SEQUENCE

    async def _send_one(self, place: TopicPartition, records: Sequence[Buffer]) -> None:
        timeout_ms = round(self._cluster.settings.request_timeout_s * 1000)
        body = _produce_9(self._transactional_id, timeout_ms, place, records)

        async def ask() -> None:
            answer = await self._cluster.ask_in_bytes(await self._cluster.leader(place), _PRODUCE, 9, body)
            (told,) = answer.responses[0].partition_responses
            if told.error_code is not ErrorCode.duplicate_sequence_number:  # an answer was lost, and the batch was not
                _check(told.error_code, told.error_message)

        await self._asked(f"cannot write to {place}", ask)

    async def send_at(self, batch: Encoded, sequence: int) -> None:
        """For who knows the batch's place in the sequence, and may not be the first who sends it there."""
        try:
            await self._send_one(batch.place, sealed(batch.data, self._id, self._epoch, sequence))
        except Refused as error:
            if error.code is not ErrorCode.out_of_order_sequence_number:
                raise
            last = await self._last_sequence(batch.place)
            if last is None or not _reaches(last, (sequence + batch.records - 1) & _LARGEST_SEQUENCE):
                raise

    async def _last_sequence(self, place: TopicPartition) -> int | None:
        topics = [{"name": place.topic, "partition_indexes": [place.partition]}]
        request = request_of(_DESCRIBE_PRODUCERS, 0, topics=topics)

        async def ask() -> int | None:
            answer = await self._cluster.ask(await self._cluster.leader(place), request)
            (told,) = answer.topics[0].partitions
            _check(told.error_code, told.error_message)
            own = [
                one.last_sequence
                for one in told.active_producers
                if (one.producer_id, one.producer_epoch) == (self._id, self._epoch)
            ]
            return own[0] if own else None

        return await self._asked(f"cannot ask how far {place} is written", ask)

    # -- transactions

    async def add_partitions(self, wanted: Iterable[TopicPartition]) -> None:
        places = set(wanted) - self._added
        if not places:
            return
        topics: dict[str, list[int]] = defaultdict(list)
        for place in sorted(places):
            topics[place.topic].append(place.partition)
        request = request_of(
            _ADD_PARTITIONS,
            3,
            v3_and_below_transactional_id=self._transactional_id,
            v3_and_below_producer_id=self._id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[{"name": name, "partitions": numbers} for name, numbers in topics.items()],
        )

        async def ask() -> None:
            answer = await self._cluster.ask(await self._coordinator(), request)
            for topic in answer.results_by_topic_v3_and_below:
                for part in topic.results_by_partition:
                    place = TopicPartition(topic.name, part.partition_index)
                    _check(part.partition_error_code, f"{place}: {part.partition_error_code.name.upper()}")

        await self._asked("cannot add partitions to the transaction", ask)
        self._added |= places

    async def mark(self, marker: Marker, place: TopicPartition) -> None:
        """The marker becomes part of the transaction, as an offset of `place` in a group named like it."""
        group = self._transactional_id
        add = request_of(
            _ADD_OFFSETS,
            3,
            transactional_id=group,
            producer_id=self._id,
            producer_epoch=self._epoch,
            group_id=group,
        )
        row = {
            "partition_index": place.partition,
            "committed_offset": marker.batch_id,
            "committed_metadata": marker.query_id,
        }
        commit = request_of(
            _TXN_OFFSET_COMMIT,
            3,
            transactional_id=group,
            group_id=group,
            producer_id=self._id,
            producer_epoch=self._epoch,
            topics=[{"name": place.topic, "partitions": [row]}],
        )

        async def ask_to_add() -> None:
            _check((await self._cluster.ask(await self._coordinator(), add)).error_code)

        async def ask_to_commit() -> None:
            answer = await self._cluster.ask(await self._cluster.coordinator(str(group), GROUP), commit)
            _check(answer.topics[0].partitions[0].error_code)

        await self._asked("cannot mark the batch as written", ask_to_add)
        await self._asked("cannot mark the batch as written", ask_to_commit)

    async def end(self, *, commit: bool) -> None:
        request = request_of(
            _END_TXN,
            3,
            transactional_id=self._transactional_id,
            producer_id=self._id,
            producer_epoch=self._epoch,
            committed=commit,
        )

        async def ask() -> None:
            _check((await self._cluster.ask(await self._coordinator(), request)).error_code)

        await self._asked(f"cannot {'commit' if commit else 'abort'} the transaction", ask)

    async def last_batch(self, query_id: str) -> int | None:
        """The largest of a query whose transaction was committed."""
        group = self._transactional_id
        request = request_of(_OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": None}], require_stable=True)

        async def ask() -> int | None:
            answer = await self._cluster.ask(await self._cluster.coordinator(str(group), GROUP), request)
            (told,) = answer.groups
            _check(told.error_code)
            parts = [part for topic in told.topics for part in topic.partitions]
            for part in parts:
                _check(part.error_code)
            return max((part.committed_offset for part in parts if part.metadata == query_id), default=None)

        return await self._asked("cannot ask which batch was written last", ask)

    async def _coordinator(self) -> int:
        assert self._transactional_id is not None
        return await self._cluster.coordinator(self._transactional_id, TRANSACTION)

    async def _asked(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            return await self._cluster.patiently(what, ask)
        except Refused as error:
            if error.code in _FENCED and self._transactional_id is not None:
                raise Fenced(
                    f"{what}: another driver writes under the transactional id {self._transactional_id} now. "
                    "Is the same query running twice? Or did the transaction take longer than "
                    f"kafka.transaction.timeout.ms ({self.settings.transaction_timeout_ms})?"
                ) from error
            raise


def _produce_9(
    transactional_id: str | None, timeout_ms: int, place: TopicPartition, records: Sequence[Buffer]
) -> list[Buffer]:
    """The body of a request with one record batch, which is not copied into it."""
    one, no_tags = count(1, True), b"\0"
    before = (
        text(transactional_id, True), _ACKS_AND_TIMEOUT.pack(_ALL, timeout_ms),
        one, text(place.topic, True), one, _INDEX.pack(place.partition), count(sum(map(len, records)), True),
    )  # fmt: skip
    return [b"".join(before), *records, no_tags * 3]


def _reaches(last: int, sequence: int) -> bool:
    """Whether a sequence that has come to `last` has passed `sequence`; it begins anew behind the largest."""
    return (last - sequence) & _LARGEST_SEQUENCE < _LARGEST_SEQUENCE // 2


class Marker(NamedTuple):
    """Which batch of which query a transaction has written."""

    query_id: str
    batch_id: int


def _check(code: ErrorCode, message: str | None = None) -> None:
    if code is not ErrorCode.none:
        raise KafkaError(code, message)
