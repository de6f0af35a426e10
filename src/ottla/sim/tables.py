"""One node that keeps tables: compacted topics are cleaned all the time while the node is killed and loses its power.

outcome = run(seed=17)
assert not outcome.violations, outcome.report()

Each producer owns some keys and writes to them one batch after the other, so that the order of a key's values is known.
Whoever reads must end with a value of each key that is no older than the last one that was acknowledged, and must never
see a value of a key after a later one. The topics are synced with every batch: not even a loss of power excuses that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from ottla.env.ports import Env
from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec
from ottla.record.builder import build_batch
from ottla.record.reader import iterate_batches, read_records
from ottla.record.records import Record
from ottla.sim.chaos import Chaos
from ottla.sim.history import History
from ottla.sim.log_files import PartitionId
from ottla.sim.node import PORT, SimNode
from ottla.sim.outcome import AFTER_A_VIOLATION_S, Outcome, watched_log
from ottla.sim.weather import Weather
from ottla.sim.workload.batches import Batch
from ottla.sim.workload.client import Client, KnownTopic
from ottla.sim.workload.consumer import Consumer, Place
from ottla.sim.workload.producers import IdempotentProducer
from ottla.sim.workload.topics import TopicKeeper
from ottla.sim.world import World

PRODUCE_VERSION: Final = 9
FETCH_VERSIONS: Final = (7, 12, 13)
HEALED_WITHIN_S: Final = 60.0
_FOREVER_MS: Final = 10**9


class Written:
    """All values that were ever sent for each key, in order, and how far they were acknowledged."""

    def __init__(self) -> None:
        self.sent: dict[bytes, list[bytes | None]] = {}
        self.acknowledged: dict[bytes, int] = {}

    def send(self, key: bytes, value: bytes | None) -> int:
        values = self.sent.setdefault(key, [])
        values.append(value)
        return len(values) - 1

    def possible(self, key: bytes, value: bytes | None, since: int) -> int | None:
        """The earliest place, not before `since`, at which a key had this value; None if it had it at none."""
        values = self.sent.get(key, [])
        return next((n for n in range(max(since, 0), len(values)) if values[n] == value), None)


@dataclass(slots=True)
class TableBatch(Batch):
    pairs: tuple[tuple[bytes, bytes | None, int], ...] = ()
    """Key, value, and which of the key's values it is."""

    @property
    def keys(self) -> tuple[bytes, ...]:
        return tuple(key for key, _, _ in self.pairs)

    def encode(self) -> bytes:
        producer_id, epoch, sequence = self.identity
        return build_batch(
            [Record(key, value, self.timestamp) for key, value, _ in self.pairs],
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )


class TableValues:
    def __init__(self, who: str, random: Random, written: Written) -> None:
        self._random = random
        self._written = written
        self._keys = [f"{who}/{n}".encode() for n in range(random.choice((2, 5)))]

    def batch(self, topic: str, partition: PartitionId, now_ms: int) -> TableBatch:
        random, pairs = self._random, []
        for _ in range(random.choice((1, 1, 2, 5))):
            key = random.choice(self._keys)
            number = len(self._written.sent.get(key, ()))
            value = None if random.random() < 0.2 else b"%s=%d " % (key, number) + b"." * random.randint(0, 150)
            pairs.append((key, value, self._written.send(key, value)))
        codec = random.choice(list(Codec)) if random.random() < 0.3 else Codec.NONE
        values = tuple(value or b"" for _, value, _ in pairs)
        return TableBatch(topic, partition, values, codec, now_ms, pairs=tuple(pairs))


class TableProducer(IdempotentProducer):
    def __init__(self, client: Client, topic: KnownTopic, written: Written, busy: float) -> None:
        super().__init__(client, topic, 0, version=PRODUCE_VERSION, depth=1, acks=-1, busy=busy)
        self._written = written
        self._values: Any = TableValues(client.name, client.random, written)

    async def _send(self, batches: Any) -> list[ErrorCode | None]:
        sent = list(batches)
        codes = await super()._send(batches)
        for batch, code in zip(sent, codes, strict=True):
            if code is ErrorCode.none:
                for key, _, number in batch.pairs:
                    self._written.acknowledged[key] = number
        return codes


class TableReader(Consumer):
    """Builds a table, and notices a value that comes after a later one."""

    def __init__(self, client: Client, written: Written, version: int, max_bytes: int) -> None:
        super().__init__(client, version, sessions=False, committed=False, max_wait_s=0.2, max_bytes=max_bytes)
        self._reader = client
        self._written = written
        self._seen: dict[bytes, int] = {}
        self._table: dict[bytes, bytes | None] = {}

    def _read(self, place: Place, row: Any, life: int) -> None:
        before = place.position
        super()._read(place, row, life)
        for header, batch in iterate_batches(row.records):
            for record in read_records(batch):
                if record.offset >= before:
                    self._note(record.key or b"", record.value, record.offset)
            place.position = max(place.position, header.next_offset)  # its last records may be gone

    def _note(self, key: bytes, value: bytes | None, offset: int) -> None:
        number = self._written.possible(key, value, self._seen.get(key, 0))
        if number is None:
            seen = self._seen.get(key)
            self._reader.history.complain(
                f"{self._reader.name} read {value!r} of {key!r} at {offset}, which it never had since its value {seen}"
            )
        else:
            self._seen[key] = number
            self._table[key] = value

    def check(self, *, may_miss_deletions: bool) -> Iterator[str]:
        for key, acknowledged in self._written.acknowledged.items():
            value = self._table.get(key)
            known = self._written.possible(key, value, acknowledged) is not None
            was_deleted = self._written.possible(key, None, acknowledged) is not None
            if not known and not (may_miss_deletions and was_deleted):
                values = self._written.sent[key]
                yield (
                    f"{self._reader.name} ends with {value!r} of {key!r}, although its value {acknowledged} of "
                    f"{len(values)}, {values[acknowledged]!r}, was acknowledged"
                )


def run(seed: int, *, rage_s: float = 8.0) -> Outcome:
    with World(seed, weather=Weather(patience_s=5.0)) as world:

        def end_soon() -> None:
            world.loop.time_limit = min(world.loop.time_limit, world.loop.time() + AFTER_A_VIOLATION_S)

        history = History(world.loop.time, end_soon)
        scenario = _Scenario(world, history)
        with watched_log(history):
            try:
                world.run(scenario.story(rage_s), limit_s=400)
            except Exception as error:
                if not history.violations:
                    history.complain(f"the run ended with {error!r}")
                for one in getattr(error, "exceptions", ()):
                    history.complain(f"nobody handled {one!r}")
        swaps = [event for event in world.trace.events if event[2] == "disk rename" and ".log.swap" in event[3]]
        history.counts["names changed by swaps"] += len(swaps)
        return Outcome(seed, history.violations, history.counts, world.trace, scenario.node.disk.digest(), 0.0)


class _Scenario:
    def __init__(self, world: World, history: History) -> None:
        self._world = world
        self._history = history
        self._random = world.random("scenario")
        self._written = Written()
        self._clients: list[Client] = []
        self._running: list[Awaitable[Any]] = []
        self.node = SimNode(world, history, self._node_settings())

    def _node_settings(self) -> dict[str, str]:
        random = self._random
        return broker_settings(
            **{
                "log.cleaner.backoff.ms": str(random.choice((50, 200, 1000))),
                "log.cleaner.threads": str(random.choice((1, 2))),
                "log.cleaner.dedupe.buffer.size": str(random.choice((4 << 20, 16 << 20))),
                "log.segment.delete.delay.ms": str(random.choice((0, 500, 60_000))),
                "log.flush.offset.checkpoint.interval.ms": str(random.choice((200, 5000))),
            }
        )

    async def story(self, rage_s: float) -> None:
        world, random = self._world, self._random
        nursing = world.loop.create_task(self.node.keep_running(), name="nurse")
        keeper = TopicKeeper(self._client("keeper"))
        keeps_deletions = random.random() < 0.7
        configs = {
            "cleanup.policy": "compact",
            "flush.messages": "1",
            "min.cleanable.dirty.ratio": str(random.choice((0.0, 0.0, 0.3))),
            "delete.retention.ms": str(_FOREVER_MS if keeps_deletions else 0),
            "internal.segment.bytes": str(random.choice((600, 2_000))),
            "index.interval.bytes": str(random.choice((0, 1000))),
        }
        topic = await keeper.create_surely("table", 1, configs)
        for number in range(random.choice((1, 2, 3))):
            client = self._client(f"producer-{number}")
            self._start(client, TableProducer(client, topic, self._written, random.choice((0.05, 0.2))).run())
        follower = self._reader("follower", topic)
        self._start(self._clients[-1], follower.run())
        chaos = Chaos(world, self.node, [client.name for client in self._clients], self._history)
        await chaos.rage(rage_s)
        chaos.heal()
        try:
            async with asyncio.timeout(HEALED_WITHIN_S):
                await asyncio.sleep(2.0)
                for client in self._clients:
                    client.stopping = client.name != "follower"
                await asyncio.gather(*self._running[:-1])
                await self._until_read(follower)
                self._clients[-1].stopping = True
                await self._running[-1]
                await asyncio.sleep(3.0)  # what is left to clean is cleaned
                newcomer = self._reader("newcomer", topic)
                reading = self._host("newcomer", newcomer.run())
                await self._until_read(newcomer)
                self._clients[-1].stopping = True
                await reading
        except TimeoutError:
            self._history.complain(f"no progress within {HEALED_WITHIN_S:g} s after everything was healed")
        else:
            for complaint in (
                *follower.check(may_miss_deletions=not keeps_deletions),
                *newcomer.check(may_miss_deletions=False),
            ):
                self._history.complain(complaint)
        self.node.stop_for_good()
        await nursing

    def _client(self, name: str) -> Client:
        host = self._world.host(name)
        random = self._world.random(f"client {name}")
        client = Client(name, host.env, random, self._history, (self.node.host.name, PORT))
        self._clients.append(client)
        return client

    def _reader(self, name: str, topic: KnownTopic) -> TableReader:
        random = self._random
        client = self._client(name)
        reader = TableReader(client, self._written, random.choice(FETCH_VERSIONS), random.choice((300, 1 << 20)))
        reader.assign([topic])
        return reader

    def _start(self, client: Client, main: Awaitable[None]) -> None:
        self._running.append(self._host(client.name, main))

    def _host(self, name: str, main: Awaitable[None]) -> Awaitable[Any]:
        async def process(env: Env) -> None:
            await main

        return self._world.host(name).start(process)

    async def _until_read(self, reader: TableReader) -> None:
        while True:
            node = self.node.node
            if node is not None:
                ends = {log.topic_id: log.end_offset for log in node.logs.all_logs()}
                if all(place.position >= ends.get(key.topic_id, 0) for key, place in reader.places.items()):
                    return
            await asyncio.sleep(0.1)


def broker_settings(**given: str) -> dict[str, str]:
    return {
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        **given,
    }
