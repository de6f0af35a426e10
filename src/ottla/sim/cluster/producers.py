"""Producers that follow the leaders: plain ones with acks 0, 1 or all, and idempotent ones with acks=all."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.client import LOOK_AGAIN, ClusterClient, Leader
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Batch, Values
from ottla.sim.workload.client import INIT_PRODUCER_ID, PRODUCE, KnownTopic, NoAnswer
from ottla.sim.workload.idempotent import IdempotentSender
from ottla.sim.workload.producers import BY_ID, produce_request
from ottla.wire import codec
from ottla.wire.build import build, request_type

VERSION: Final = 12


async def send(
    client: ClusterClient, leader: int, acks: int, batches: Sequence[Batch], *, version: int = VERSION
) -> list[ErrorCode | None]:
    """One request, and what comes of it: for each batch an error code, None where there was no answer."""
    oracle, since = client.oracle, client.oracle.now()
    epochs = [client.leaders.get(batch.partition, Leader()).epoch for batch in batches]
    for batch in batches:
        oracle.sends(batch.partition, batch.values, batch.identity)
        batch.attempts += 1
    try:
        answer = await client.ask(leader, PRODUCE, version, produce_request(version, acks, batches))
    except NoAnswer:
        oracle.counts["produce requests without an answer"] += 1
        return [None] * len(batches)
    rows = {
        (topic.topic_id if version >= BY_ID else topic.name, row.index): row
        for topic in answer.responses
        for row in topic.partition_responses
    }
    codes: list[ErrorCode | None] = []
    for batch, epoch in zip(batches, epochs, strict=True):
        row = rows[batch.partition.topic_id if version >= BY_ID else batch.topic, batch.partition.partition]
        codes.append(row.error_code)
        if row.error_code is ErrorCode.none:
            about = batch.values, client.name, acks, since, epoch, batch.keys, batch.timestamp
            oracle.acknowledges(batch.partition, row.base_offset, *about)
        else:
            oracle.counts[f"produce: {row.error_code.name}"] += 1
    return codes


class PlainProducer:
    """Sends to some partitions at a time, again until it is acknowledged; with acks=0 once, and hopes."""

    def __init__(self, client: ClusterClient, topics: Sequence[KnownTopic], acks: int, busy: float) -> None:
        self._client = client
        self._places = [(topic, number) for topic in topics for number in range(topic.partitions)]
        self._acks = acks
        self._busy = busy
        self._values = Values(client.name, client.random, VERSION)

    async def run(self) -> None:
        client = self._client
        while not client.stopping:
            chosen = client.random.sample(self._places, min(len(self._places), client.random.choice((1, 2, 3))))
            now_ms = client.env.clock.now_ms()
            left = [self._values.batch(topic.name, PartitionId(topic.id, number), now_ms) for topic, number in chosen]
            while left:
                left = await self._send(left)
                if left:
                    await client.refresh()
                    await client.pause(0.02, 0.2)
            await client.pause(0.0, self._busy)

    async def _send(self, batches: list[Batch]) -> list[Batch]:
        """Gives those that must be sent again."""
        by_leader = self._client.by_leader([batch.partition for batch in batches])
        again: list[Batch] = []
        for leader, keys in by_leader.items():
            theirs = [batch for batch in batches if batch.partition in keys]
            if leader == NOBODY:
                again += theirs
            elif self._acks == 0:
                await self._hope(leader, theirs)
            else:
                codes = await send(self._client, leader, self._acks, theirs)
                again += [batch for batch, code in zip(theirs, codes, strict=True) if code is not ErrorCode.none]
        return again

    async def _hope(self, leader: int, batches: list[Batch]) -> None:
        for batch in batches:
            self._client.oracle.sends(batch.partition, batch.values)
        request = build(request_type(PRODUCE, VERSION), produce_request(VERSION, 0, batches))
        try:
            await self._client.send_unanswered(leader, PRODUCE, VERSION, codec.encode_body(request))
        except NoAnswer:
            await self._client.refresh()


class IdempotentProducer(IdempotentSender):
    """With acks=all: no cluster forgets it unless all in sync have lost what it sent."""

    def __init__(self, client: ClusterClient, topic: KnownTopic, partition: int, *, depth: int, busy: float) -> None:
        super().__init__(client, client.oracle, topic, partition, version=VERSION, depth=depth, busy=busy)
        self._client = client
        self._id_since = 0.0

    async def _new_id(self) -> int | None:
        request = {"transactional_id": None, "transaction_timeout": timedelta(seconds=60)}
        self._id_since = self._client.oracle.now()
        try:
            answer = await self._client.ask_any(INIT_PRODUCER_ID, 4, request)
        except NoAnswer:
            return None
        if answer.error_code is not ErrorCode.none:
            self._client.oracle.counts[f"producer id: {answer.error_code.name}"] += 1
            return None
        return int(answer.producer_id)

    async def _send(self, batches: Sequence[Batch]) -> list[ErrorCode | None]:
        leader = self._client.leaders.get(self._partition, Leader()).id
        if leader == NOBODY:
            return [ErrorCode.leader_not_available] * len(batches)
        sending = (send(self._client, leader, -1, (batch,)) for batch in batches)
        return [codes[0] for codes in await asyncio.gather(*sending)]

    async def _after_errors(self, codes: Sequence[ErrorCode | None]) -> None:
        if any(code is None or code in LOOK_AGAIN for code in codes):
            await self._client.refresh()

    def _may_be_forgotten(self) -> bool:
        return self._client.oracle.is_excused(self._partition, self._id_since)
