"""Producers: plain ones that may send twice, and idempotent ones that must not be stored twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, PRODUCE, Client, KnownTopic, NoAnswer, SimConnection
from ottla.sim.workload.idempotent import IdempotentSender
from ottla.wire import codec
from ottla.wire.build import build, request_type
from ottla.wire.client import ConnectionFailed

BY_ID: Final = 13
_TIMEOUT: Final = timedelta(seconds=2)
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
            await connection.send_unanswered(PRODUCE, self._version, (codec.encode_body(request),))
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


class IdempotentProducer(IdempotentSender):
    """Only a power loss may make the node forget it."""

    def __init__(
        self, client: Client, topic: KnownTopic, partition: int, *, version: int, depth: int, acks: int, busy: float
    ) -> None:
        super().__init__(client, client.history, topic, partition, version=version, depth=depth, busy=busy)
        self._client = client
        self._version = version
        self._acks = acks
        self._id_of_life = 0

    async def _new_id(self) -> int | None:
        request = {"transactional_id": None, "transaction_timeout": timedelta(seconds=60)}
        try:
            answer, life = await self._client.ask(INIT_PRODUCER_ID, 4, request)
        except NoAnswer:
            return None
        if answer.error_code is not ErrorCode.none:
            return None
        self._id_of_life = life
        return int(answer.producer_id)

    async def _send(self, batches: Sequence[Batch]) -> list[ErrorCode | None]:
        connection = await self._client.connection()
        sending = (send(self._client, self._version, self._acks, (batch,), connection) for batch in batches)
        return [codes[0] for codes in await asyncio.gather(*sending)]

    async def _after_errors(self, codes: Sequence[ErrorCode | None]) -> None:
        self.is_over = next(code for code in codes if code is not ErrorCode.none) in _NO_LONGER_THERE

    def _may_be_forgotten(self) -> bool:
        return self._client.history.lost_power_since(self._id_of_life)
