"""Consume, transform, produce: every committed entry is written once more, with how far that is in the transaction."""

from __future__ import annotations

from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.transactions.incarnations import Incarnation
from ottla.sim.cluster.transactions.producer import GROUP, Abortable, TransactionalProducer
from ottla.sim.cluster.transactions.reader import CommittedReader
from ottla.sim.workload.client import KnownTopic

GROUP_ID: Final = "books"
_OFFSET_FETCH: Final = 9


class Booking:
    def __init__(self, client: ClusterClient, source: KnownTopic, sink: KnownTopic) -> None:
        self._client = client
        self._source = source
        self._sink = sink

    async def live(self, producer: TransactionalProducer, incarnation: Incarnation) -> None:
        books = _Books(self._client, self._source, self._sink, producer)
        await books.begin()
        while incarnation.goes_on:
            await books.book_some()
            await self._client.pause(0.0, 0.3)

    async def catch_up(self, producer: TransactionalProducer, cast: Cast) -> None:
        books = _Books(self._client, self._source, self._sink, producer)
        await books.begin()
        while not books.reader.has_all(cast) or books.left:
            await books.book_some()


class _Books:
    """What one incarnation has read and not booked yet. It begins where the last that was committed left off."""

    def __init__(
        self, client: ClusterClient, source: KnownTopic, sink: KnownTopic, producer: TransactionalProducer
    ) -> None:
        self.left: list[tuple[int, int, bytes]] = []
        self.reader = self._new_reader(client, source)
        self._client = client
        self._source = source
        self._sink = sink
        self._producer = producer

    def _new_reader(self, client: ClusterClient, source: KnownTopic) -> CommittedReader:
        return CommittedReader(
            client, source, lambda *entry: self.left.append(entry), lambda account: None, max_bytes=3_000
        )  # fmt: skip

    async def begin(self) -> None:
        self.left.clear()
        self.reader = self._new_reader(self._client, self._source)
        self.reader.positions |= await self._committed()

    async def book_some(self) -> None:
        if not self.left:
            await self.reader.poll()
        some = self.left[: self._client.random.choice((1, 3, 10))]
        if not some:
            return
        try:
            for account, _, value in some:
                await self._producer.send(self._sink, account, (value,))
            offsets = {account: offset + 1 for account, offset, _ in some}
            await self._producer.send_offsets(GROUP_ID, self._source, offsets)
            await self._producer.end(commits=True)
        except Abortable:
            await self._producer.end(commits=False)
            await self.begin()
            return
        del self.left[: len(some)]
        self._client.oracle.counts["entries booked"] += len(some)

    async def _committed(self) -> dict[int, int]:
        """Only what no transaction may still change (KIP-447)."""
        partitions = list(range(self._source.partitions))
        group = {
            "group_id": GROUP_ID, "member_id": None, "member_epoch": -1,
            "topics": [{"name": self._source.name, "partition_indexes": partitions}],
        }  # fmt: skip

        def code(answer: Any) -> ErrorCode:
            told = answer.groups[0]
            codes = [told.error_code, *(row.error_code for topic in told.topics for row in topic.partitions)]
            wrong: ErrorCode = next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)
            again = wrong is ErrorCode.unstable_offset_commit
            return ErrorCode.concurrent_transactions if again else wrong

        request = {"groups": [group], "require_stable": True}
        answer, _ = await self._producer.ask(GROUP, GROUP_ID, _OFFSET_FETCH, 9, request, code)
        return {
            row.partition_index: row.committed_offset
            for topic in answer.groups[0].topics
            for row in topic.partitions
            if row.committed_offset >= 0
        }
