"""Transfers between accounts, and a statement for whoever reads committed records.

Another program books every entry once more, in another topic, with its position in the same transaction: a chain of
consuming, transforming and producing, in which no entry may be lost or be there twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from ottla.model.names import OFFSETS_TOPIC, TRANSACTION_TOPIC
from ottla.sim.cluster.cleanup import COMPACTED
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.cluster.topics import configure, create, watch
from ottla.sim.cluster.transactions.booking import Booking
from ottla.sim.cluster.transactions.incarnations import Incarnation, Incarnations
from ottla.sim.cluster.transactions.ledger import Entry, Ledger, Statement, Told
from ottla.sim.cluster.transactions.producer import (
    FIND_COORDINATOR,
    GROUP,
    TRANSACTION,
    Abortable,
    Fenced,
    TransactionalProducer,
    Unknown,
)
from ottla.sim.cluster.transactions.reader import CommittedReader
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import KnownTopic, NoAnswer

ACCOUNTS: Final = 3
ENDS_REFUSED: Final = "ends of transactions refused for good"
"""As it is counted when a partition has had a later epoch of the producer than its coordinator knows of."""
_PATIENCE_S: Final = 30.0


class Bank(Workload):
    name: ClassVar[str] = "bank"

    async def prepare(self) -> None:
        """All topics are synced with each append: what a loss of power takes otherwise, Kafka may lose as well."""
        keeper, synced = self.cast.keeper, {"min.insync.replicas": "2", "flush.messages": "1"}
        self._ledger = Ledger(self.cast.oracle)
        self._random = self.cast.random(self.name)
        shapes = [TopicShape(name, ACCOUNTS, 3, synced) for name in ("accounts", "booked")]
        self._accounts, self._booked = [await create(keeper, shape, is_internal=True) for shape in shapes]
        self._internal = {name: await self._made(name) for name in (TRANSACTION_TOPIC, OFFSETS_TOPIC)}

    async def _made(self, name: str) -> KnownTopic:
        keeper = self.cast.keeper
        kind = TRANSACTION if name == TRANSACTION_TOPIC else GROUP
        size = self._random.choice((3_000, 1 << 20))
        while True:
            try:
                await keeper.ask_any(FIND_COORDINATOR, 6, {"key_type": kind, "coordinator_keys": ["bank"]})
                topic = (await keeper.topics()).get(name)
                if topic is not None:
                    await configure(keeper, name, {"flush.messages": "1", "internal.segment.bytes": str(size)})
                    watch(keeper, topic, is_internal=True, cleanup=COMPACTED)
                    return topic
            except NoAnswer:
                pass
            await keeper.pause(0.05, 0.3)

    def start(self) -> None:
        cast, random = self.cast, self._random
        self._clients: list[ClusterClient] = []
        self._programs: list[ClusterClient] = []
        self._running: list[Process[None]] = []
        for number in range(random.choice((1, 2))):
            client = self._client(f"bank-{number}")
            clerk = _Clerk(client, self._accounts, self._ledger)
            self._run(client, clerk.live)
        client = self._client("booking")
        booking = Booking(client, self._accounts, self._booked)
        self._run(client, booking.live)
        self._readers = [self._reader("statement", self._accounts), self._reader("books", self._booked)]
        for client, reader, _ in self._readers:
            self._running.append(cast.start(client, reader.run))

    def _client(self, name: str) -> ClusterClient:
        self._clients.append(client := self.cast.client(name))
        return client

    def _run(self, client: ClusterClient, life: Any) -> None:
        timeout_ms = self._random.choice((2_000, 6_000, 30_000))
        second = self._random.random() < 0.6 and self.cast.plan.release.has_transactions_by_epoch
        programs = Incarnations(client, client.name, timeout_ms, life, second_version=second)
        self._programs.append(client)
        self._running.append(self.cast.start(client, programs.run))

    def _reader(self, name: str, topic: KnownTopic) -> tuple[ClusterClient, CommittedReader, _Read]:
        client = self._client(name)
        read = _Read(self._ledger, name)
        size = self._random.choice((600, 5_000, 1 << 20))
        is_whole = topic is self._accounts  # entries are booked one by one
        stable = read.statement.stable if is_whole else lambda account: None
        return client, CommittedReader(client, topic, read.take, stable, max_bytes=size), read

    async def finish(self) -> None:
        """If it can: it may hang for ever where the last decisions of its coordinator are lost, with all who had them,
        and partitions that have heard of those take no earlier ones. So it does in Kafka."""
        ending = asyncio.ensure_future(self._end())
        until = self.cast.oracle.now() + _PATIENCE_S
        try:
            while not ending.done() and (self.cast.oracle.now() < until or not self._may_hang()):
                await asyncio.wait((ending,), timeout=1.0)
            if ending.done():
                await ending
        finally:
            ending.cancel()
        if not ending.done():
            self.cast.oracle.counts["banks that hang as their coordinator has lost its log"] += 1
            for client in self._clients:
                self.cast.world.host(client.name).crash()

    async def _end(self) -> None:
        """Programs end, what they left open is aborted in time, and readers come to the end of everything."""
        for client in self._programs:
            client.stopping = True
        readers = [reader for _, reader, _ in self._readers]
        await asyncio.gather(*self._running[: len(self._programs)])
        await self._book_the_rest()
        while not all(reader.has_all(self.cast) for reader in readers):
            await asyncio.sleep(0.1)
        for client, _, _ in self._readers:
            client.stopping = True
        await asyncio.gather(*self._running)
        if not self._is_excused():
            await self._read_again()

    def _may_hang(self) -> bool:
        oracle = self.cast.oracle
        lost = any(oracle.is_excused(key, 0.0) for key in _partitions(self._internal[TRANSACTION_TOPIC]))
        return lost and oracle.counts[ENDS_REFUSED] > 0

    async def _book_the_rest(self) -> None:
        """By one that does not die, until all entries are booked."""
        client = self._client("booking-at-last")
        booking = Booking(client, self._accounts, self._booked)

        async def book() -> None:
            async def step(_: str) -> None:
                pass

            producer = TransactionalProducer(client, "booking", 30_000, step, second_version=True)
            while True:
                try:
                    await producer.init()
                    await booking.catch_up(producer, self.cast)
                    return
                except (Abortable, Fenced, Unknown):
                    self.cast.oracle.counts["programs that gave up"] += 1

        await self.cast.start(client, book)

    async def _read_again(self) -> None:
        """Somebody who begins anew sees the same."""
        for name, topic, before in (
            ("new statement", self._accounts, self._readers[0]),
            ("new books", self._booked, self._readers[1]),
        ):
            client, reader, read = self._reader(name, topic)

            async def run(reader: CommittedReader = reader) -> None:
                while not reader.has_all(self.cast):
                    await reader.poll()

            await self.cast.start(client, run)
            if read.values != before[2].values:
                self.cast.oracle.complain(f"{name} has other records than {before[0].name}")

    def _is_excused(self) -> bool:
        """All who were in sync have lost the end of one of the logs, synced or not."""
        topics = (self._accounts, self._booked, *self._internal.values())
        return any(self.cast.oracle.is_excused(key, 0.0) for topic in topics for key in _partitions(topic))

    def unfinished(self) -> list[str]:
        return [process.name for process in self._running if not process.done()]

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        if self._is_excused():
            self.cast.oracle.counts["banks excused"] += 1
            return
        (_, _, statement), (_, _, books) = self._readers
        yield from statement.statement.at_the_end()
        for account in range(ACCOUNTS):
            entries, booked = statement.values.get(account, []), books.values.get(account, [])
            if entries != booked:
                first = next((n for n, pair in enumerate(zip(entries, booked, strict=False)) if pair[0] != pair[1]), -1)
                yield (
                    f"account {account} has {len(entries)} entries, {len(booked)} are booked; the first difference is "
                    f"at {first}"
                )


def _partitions(topic: KnownTopic) -> list[PartitionId]:
    return [PartitionId(topic.id, number) for number in range(topic.partitions)]


class _Read:
    """What a reader has got, in its order, and the statement that it makes of it."""

    def __init__(self, ledger: Ledger, who: str) -> None:
        self.statement = Statement(ledger, who)
        self.values: dict[int, list[bytes]] = {}

    def take(self, account: int, offset: int, value: bytes) -> None:
        self.values.setdefault(account, []).append(value)
        self.statement.read(Entry.read(value))


class _Clerk:
    """Makes transfers, one after the other; some it aborts itself."""

    def __init__(self, client: ClusterClient, accounts: KnownTopic, ledger: Ledger) -> None:
        self._client = client
        self._accounts = accounts
        self._ledger = ledger
        self._made = 0

    async def live(self, producer: TransactionalProducer, incarnation: Incarnation) -> None:
        while incarnation.goes_on:
            name = f"{self._client.name}.{self._made}"
            self._made += 1
            try:
                await self._transfer(producer, name)
            except Abortable:
                self._ledger.told(name, Told.NOT_COMMITTED)
                await producer.end(commits=False)
            await self._client.pause(0.0, 0.4)

    async def _transfer(self, producer: TransactionalProducer, name: str) -> None:
        random, ledger = self._client.random, self._ledger
        here, there = random.sample(range(ACCOUNTS), 2)
        amount = random.randint(2, 100)
        parts = ((here, 1, -1), (here, 2, 1 - amount), (there, 1, amount - 1), (there, 2, 1))
        entries = tuple(Entry(name, account, number, 2, part) for account, number, part in parts)
        ledger.begins(name, entries)
        for entry in random.sample(entries, len(entries)):
            await producer.send(self._accounts, entry.account, (entry.value(),))
            if random.random() < 0.02:
                await self._client.pause(0.0, 8.0)  # some take longer than they may
        commits = random.random() < 0.8
        if commits:
            ledger.asks_to_commit(name)
        try:
            told = await producer.end(commits=commits)
        except Fenced:
            ledger.told(name, Told.NOT_COMMITTED)
            raise
        ledger.told(name, told)
        if told is Told.COMMITTED:
            self._client.oracle.acknowledged += len(entries)
            self._client.oracle.counts["records acknowledged"] += len(entries)
