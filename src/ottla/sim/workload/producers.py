"""Producers: plain ones that may send twice, and idempotent ones that must not be stored twice."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.sim.journal import Identity
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, PRODUCE, Client, KnownTopic, NoAnswer, SimConnection
from ottla.wire import codec
from ottla.wire.build import build, request_type
from ottla.wire.client import ConnectionFailed

BY_ID: Final = 13
_TIMEOUT: Final = timedelta(seconds=2)
_FORGOTTEN: Final = (
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.unknown_producer_id,
    ErrorCode.invalid_producer_epoch,
)
_NO_LONGER_THERE: Final = (ErrorCode.unknown_topic_id, ErrorCode.unknown_topic_or_partition)


def produce_request(version: int, acks: int, batches: Sequence[Batch]) -> dict[str, Any]:
    """For any number of partitions, each at most once."""
    topics: dict[PartitionId | str, dict[str, Any]] = {}
    for batch in batches:
        row = {"index": batch.partition.partition, "records": batch.encode()}
        topic = {"name": batch.topic, "topic_id": batch.partition.topic_id, "partition_data": []}
        topics.setdefault(batch.topic, topic)["partition_data"].append(row)
    return {"transactional_id": None, "acks": acks, "timeout": _TIMEOUT, "topic_data": list(topics.values())}


class PlainProducer:
    """Sends a request for some partitions, again until it is acknowledged; with acks=0 once, and hopes."""

    def __init__(self, client: Client, topics: Sequence[KnownTopic], version: int, busy: float) -> None:
        self._client = client
        self._topics = topics
        self._version = version
        self._busy = busy
        self._values = Values(client.name, client.random, version)

    async def run(self) -> None:
        client = self._client
        while not client.stopping:
            batches = self._batches()
            if client.random.random() < 0.15:
                await self._send_and_hope(batches)
            else:
                acks = client.random.choice((1, -1))
                while batches:
                    batches = await self._send(acks, batches)
                    if batches:
                        await client.pause(0.05, 0.3)
            await client.pause(0.0, self._busy)

    def _batches(self) -> list[Batch]:
        random, now_ms = self._client.random, self._client.env.clock.now_ms()
        places = [(topic, number) for topic in self._topics for number in range(topic.partitions)]
        chosen = random.sample(places, min(len(places), random.choice((1, 1, 2, 4))))
        return [self._values.batch(topic.name, PartitionId(topic.id, number), now_ms) for topic, number in chosen]

    async def _send_and_hope(self, batches: list[Batch]) -> None:
        connection = await self._client.connection()
        for batch in batches:
            self._client.history.sends(batch.partition, batch.values)
        request = build(request_type(PRODUCE, self._version), produce_request(self._version, 0, batches))
        try:
            await connection.send_unanswered(PRODUCE, self._version, (codec.encode_request(request),))
        except ConnectionFailed:
            self._client.drop()

    async def _send(self, acks: int, batches: list[Batch]) -> list[Batch]:
        """Gives those that must be sent again."""
        results = await send(self._client, self._version, acks, batches)
        return [
            batch
            for batch, code in zip(batches, results, strict=True)
            if code not in (ErrorCode.none, *_NO_LONGER_THERE)
        ]


async def send(
    client: Client, version: int, acks: int, batches: Sequence[Batch], on: SimConnection | None = None
) -> list[ErrorCode | None]:
    """Sends one request and notes what comes of it: for each batch an error code, None where there was no answer."""
    connection = on or await client.connection()
    for batch in batches:
        client.history.sends(batch.partition, batch.values, batch.identity)
        batch.attempts += 1
    try:
        answer, life = await client.ask(PRODUCE, version, produce_request(version, acks, batches), on=connection)
    except NoAnswer:
        client.history.counts["produce requests without an answer"] += 1
        return [None] * len(batches)
    codes: list[ErrorCode | None] = []
    rows = {
        (topic.topic_id if version >= BY_ID else topic.name, row.index): row
        for topic in answer.responses
        for row in topic.partition_responses
    }
    for batch in batches:
        place = batch.partition.topic_id if version >= BY_ID else batch.topic
        row = rows[place, batch.partition.partition]
        codes.append(row.error_code)
        if row.error_code is ErrorCode.none:
            client.history.acknowledged(life, batch.partition, row.base_offset, batch.values, client.name)
            if version >= 5:
                client.history.starts_at(batch.partition, row.log_start_offset)
        else:
            client.history.counts[f"produce: {row.error_code.name}"] += 1
    return codes


class IdempotentProducer:
    """Keeps up to `depth` batches under way in one partition, and sends them again, in order, as long as it takes."""

    def __init__(
        self, client: Client, topic: KnownTopic, partition: int, *, version: int, depth: int, acks: int, busy: float
    ) -> None:
        self._client = client
        self._topic = topic
        self._partition = PartitionId(topic.id, partition)
        self._version = version
        self._depth = depth
        self._acks = acks
        self._busy = busy
        self._values = Values(client.name, client.random, version)
        self._window: deque[Batch] = deque()
        self._producer_id = -1
        self._id_of_life = 0
        self._sequence = 0
        self.is_over = False
        """The topic is gone."""

    async def run(self) -> None:
        client = self._client
        while not self.is_over and (self._window or not client.stopping):
            connection = await client.connection()
            if self._producer_id < 0 and not await self._take_id():
                await client.pause(0.05, 0.3)
                continue
            self._fill()
            sending = (send(client, self._version, self._acks, (batch,), connection) for batch in self._window)
            results = [codes[0] for codes in await asyncio.gather(*sending)]
            if not self._settle(results):
                await client.pause(0.05, 0.3)
            await client.pause(0.0, self._busy)

    async def _take_id(self) -> bool:
        request = {"transactional_id": None, "transaction_timeout": timedelta(seconds=60)}
        try:
            answer, life = await self._client.ask(INIT_PRODUCER_ID, 4, request)
        except NoAnswer:
            return False
        if answer.error_code is not ErrorCode.none:
            return False
        self._client.history.gives_producer_id(answer.producer_id, self._client.name)
        self._producer_id = answer.producer_id
        self._id_of_life = life
        self._sequence = 0
        for batch in self._window:
            batch.identity = self._next_identity(len(batch.values))
        return True

    def _next_identity(self, count: int) -> Identity:
        identity = (self._producer_id, 0, self._sequence)
        self._sequence += count
        return identity

    def _fill(self) -> None:
        while len(self._window) < self._depth and not self._client.stopping:
            batch = self._values.batch(self._topic.name, self._partition, self._client.env.clock.now_ms())
            batch.identity = self._next_identity(len(batch.values))
            self._window.append(batch)

    def _settle(self, results: list[ErrorCode | None]) -> bool:
        """Drops what is acknowledged. False if something is left to send again."""
        left = [(batch, code) for batch, code in zip(self._window, results, strict=True) if code is not ErrorCode.none]
        self._window = deque(batch for batch, _ in left)
        if not left:
            return True
        batch, code = left[0]
        if code in _NO_LONGER_THERE:
            self.is_over = True
        elif code in _FORGOTTEN:
            self._check_forgotten(batch, code)
            self._producer_id = -1
        return False

    def _check_forgotten(self, batch: Batch, code: ErrorCode | None) -> None:
        """Only a power loss may make the node forget; with one batch under way not even a restart hides the last one.

        (Snapshots keep the last batch of a producer only, as Kafka's do: of several under way those before it are
        no longer recognised after a restart.)
        """
        history = self._client.history
        history.counts["producers forgotten"] += 1
        if self._depth == 1 and not history.lost_power_since(self._id_of_life):
            history.complain(f"{self._client.name} was told {code and code.name} for {batch.identity} without a cause")
