"""A cluster as a client sees it: who leads which partition, asked again whenever somebody else does now.

Questions are patient: a broker that is gone, a leader that has moved or is being elected are tried again until the time
for a whole question (default.api.timeout.ms) is over, and then the error says what was wrong last.

Versions of requests are those that every broker since Kafka 3.0 has.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar, cast
from uuid import UUID

from ottla.env.backoff import Backoff
from ottla.env.network import TcpNetwork
from ottla.env.ports import Buffer, Env
from ottla.env.randomness import SeededRandom
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.model.names import TopicPartition
from ottla.spark.client_settings import Address, ClientSettings
from ottla.wire import codec
from ottla.wire.build import build, request_type
from ottla.wire.client import ConnectionFailed, RequestTimedOut
from ottla.wire.link import Link

T = TypeVar("T")

EARLIEST: Final = -2
LATEST: Final = -1
EARLIEST_LOCAL: Final = -4
"""From where on a partition is on its leader's disk: what lies before is in the remote tier (KIP-405)."""
NO_OFFSET: Final = -1

_FETCH, _LIST_OFFSETS, _METADATA, _OFFSET_COMMIT, _OFFSET_FETCH, _FIND_COORDINATOR = 1, 2, 3, 8, 9, 10
_END_OF_EPOCH: Final = 23
_LISTS_LOCAL: Final = 8  # the first version of ListOffsets that knows EARLIEST_LOCAL, of Kafka 3.4
GROUP, TRANSACTION = 0, 1  # kinds of coordinators
_FETCH_BY_NAME, _FETCH_BY_ID = 12, 13  # the first that knows topics by their ids is of Kafka 3.1
_PASSING: Final = frozenset(
    {
        ErrorCode.leader_not_available, ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch, ErrorCode.offset_not_available, ErrorCode.replica_not_available,
        ErrorCode.kafka_storage_error, ErrorCode.network_exception, ErrorCode.request_timed_out,
        ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress, ErrorCode.not_coordinator,
        ErrorCode.unstable_offset_commit, ErrorCode.unknown_topic_or_partition, ErrorCode.concurrent_transactions,
        ErrorCode.not_enough_replicas, ErrorCode.not_enough_replicas_after_append,
    }
)  # fmt: skip
"""Errors that say: not here, or not yet."""


class Topic(NamedTuple):
    name: str
    id: UUID | None
    leaders: dict[int, int]
    """By partition; -1 where there is none now."""
    internal: bool = False


class Fetched(NamedTuple):
    records: Buffer
    aborted: list[tuple[int, int]]
    """Producer id and first offset of aborted transactions."""
    start_offset: int
    end_offset: int
    """Up to where a reader of this isolation may read."""


class OutOfRange(Exception):
    """An offset that a partition does not have: before its start, or beyond its end."""


class TopicGone(Exception):
    """A topic that was there has been deleted, or another has its name now."""


class Refused(OttlaError):
    """The cluster says no, and asking again would not help."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class _ClientEnv:
    """What connections ask of their world."""

    def __init__(self) -> None:
        self.network = TcpNetwork()
        self.random = SeededRandom(random.SystemRandom())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()


class Cluster:
    """Everything is asked on the loop that it was first used on."""

    def __init__(self, settings: ClientSettings) -> None:
        self.settings = settings
        self._env = _ClientEnv()
        self._backoff = Backoff(settings.backoff_ms, settings.backoff_max_ms, jitter=0.2)
        self._brokers: dict[int, Address] = {}
        self._topics: dict[str, Topic] = {}
        self._links: dict[Address, Link] = {}
        self._coordinators: dict[tuple[str, int], int] = {}

    async def close(self) -> None:
        for link in self._links.values():
            await link.close()
        self._links.clear()

    # -- topics

    async def topics(self, names: Iterable[str] | None = None) -> dict[str, Topic]:
        """All of them, or those of the names that are there."""
        wanted = None if names is None else sorted(set(names))
        return await self.patiently("cannot ask for topics", lambda: self._ask_topics(wanted))

    async def _ask_topics(self, names: list[str] | None) -> dict[str, Topic]:
        asked = None if names is None else [{"topic_id": None, "name": name} for name in names]
        request = request_of(
            _METADATA,
            12,
            topics=asked,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )
        answer = await self.ask_anyone(request)
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        found: dict[str, Topic] = {}
        for topic in answer.topics:
            if topic.error_code is ErrorCode.unknown_topic_or_partition:
                self._topics.pop(topic.name, None)
                continue
            if topic.error_code is not ErrorCode.none:
                raise KafkaError(topic.error_code, f"topic {topic.name}: {topic.error_code.name.upper()}")
            leaders = {part.partition_index: part.leader_id for part in topic.partitions}
            found[topic.name] = Topic(topic.name, topic.topic_id, dict(sorted(leaders.items())), topic.is_internal)
        self._topics |= found
        return found

    # -- offsets

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """By partition the offset of a time (EARLIEST, LATEST, or milliseconds); NO_OFFSET if no record is that young.

        LATEST is what may be read to: the high watermark, or the last stable offset for readers of what is committed.
        """
        found: dict[TopicPartition, int] = {}

        async def ask() -> dict[TopicPartition, int]:
            missing = {place: time for place, time in wanted.items() if place not in found}
            await self._ask_offsets(missing, found)
            return found

        await self.patiently("cannot ask for offsets of " + _some(wanted), ask)
        return found

    async def _ask_offsets(self, wanted: Mapping[TopicPartition, int], found: dict[TopicPartition, int]) -> None:
        by_leader: dict[int, dict[str, list[dict[str, int]]]] = defaultdict(lambda: defaultdict(list))
        for place, time in wanted.items():
            leader = await self.leader(place)
            by_leader[leader][place.topic].append({"partition_index": place.partition, "timestamp": time})
        version = _LISTS_LOCAL if EARLIEST_LOCAL in wanted.values() else 7

        async def ask(leader: int, rows: dict[str, list[dict[str, int]]]) -> ErrorCode | None:
            request = request_of(
                _LIST_OFFSETS,
                version,
                replica_id=-1,
                isolation_level=int(self.settings.read_committed),
                topics=[{"name": name, "partitions": partitions} for name, partitions in rows.items()],
            )
            failed = None
            for topic in (await self.ask(leader, request)).topics:
                for part in topic.partitions:
                    if part.error_code is ErrorCode.none:
                        found[TopicPartition(topic.name, part.partition_index)] = part.offset
                    else:
                        failed = part.error_code
            return failed

        outcomes = await asyncio.gather(*(ask(leader, rows) for leader, rows in by_leader.items()))
        if failed := next((code for code in outcomes if code is not None), None):
            raise KafkaError(failed)

    async def end_of_epoch(self, place: TopicPartition, epoch: int) -> tuple[int, int]:
        """The largest epoch in the leader's history that is not above this one, and where it ends; -1 for none."""
        row = {"partition": place.partition, "current_leader_epoch": -1, "leader_epoch": epoch}
        topics = [{"topic": place.topic, "partitions": [row]}]

        async def ask() -> tuple[int, int]:
            request = request_of(_END_OF_EPOCH, 4, replica_id=-1, topics=topics)
            (part,) = (await self.ask(await self.leader(place), request)).topics[0].partitions
            if part.error_code is not ErrorCode.none:
                raise KafkaError(part.error_code)
            return part.leader_epoch, part.end_offset

        return await self.patiently(f"cannot ask where epoch {epoch} of {place} ends", ask)

    # -- records

    async def fetch(
        self, place: TopicPartition, topic_id: UUID | None, offset: int, most_bytes: int | None = None
    ) -> Fetched:
        """Waits up to fetch.max.wait.ms for records. OutOfRange or TopicGone, beside what every question may end with.

        With an id, a topic of the same name that was made later is not taken for it.
        """

        async def ask() -> Fetched:
            return await self._ask_records(place, topic_id, offset, most_bytes or self.settings.fetch_bytes)

        return await self.patiently(f"cannot read {place} from offset {offset} on", ask)

    async def _ask_records(self, place: TopicPartition, topic_id: UUID | None, offset: int, most_bytes: int) -> Fetched:
        settings = self.settings
        link = self._link(await self.leader(place))
        await link.connection()
        offered = (link.versions or {}).get(_FETCH)
        by_id = topic_id is not None and offered is not None and offered.newest >= _FETCH_BY_ID
        partition = {"partition": place.partition, "fetch_offset": offset, "partition_max_bytes": most_bytes}
        topic = {"topic": place.topic, "topic_id": topic_id, "partitions": [partition]}
        request = request_of(
            _FETCH,
            _FETCH_BY_ID if by_id else _FETCH_BY_NAME,
            max_wait=timedelta(milliseconds=settings.fetch_max_wait_ms),
            min_bytes=min(settings.fetch_min_bytes, most_bytes),
            max_bytes=most_bytes,
            isolation_level=int(settings.read_committed),
            topics=[topic],
            forgotten_topics_data=[],
            rack_id=settings.rack,
        )
        within = settings.request_timeout_s + settings.fetch_max_wait_ms / 1000
        answer = await link.call(request, within=within)
        code = answer.error_code
        if code is ErrorCode.none:
            (part,) = answer.responses[0].partitions
            code = part.error_code
        if code is ErrorCode.offset_out_of_range:
            raise OutOfRange(f"{place} does not have offset {offset}")
        if code in (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id):
            now = (await self._ask_topics([place.topic])).get(place.topic)
            if now is None or now.id != topic_id:
                what = "has been deleted" if now is None else "has been deleted, and another of its name was made"
                raise TopicGone(f"topic {place.topic} {what}")
            raise KafkaError(ErrorCode.unknown_leader_epoch)  # the broker will know of it in a moment
        if code is not ErrorCode.none:
            raise KafkaError(code)
        end = part.last_stable_offset if settings.read_committed else part.high_watermark
        aborted = [(one.producer_id, one.first_offset) for one in part.aborted_transactions or ()]
        return Fetched(part.records or b"", aborted, part.log_start_offset, end)

    # -- groups

    async def commit_offsets(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """For a group without members: what a tool shows as its progress."""
        topics: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for place, offset in offsets.items():
            row = {"partition_index": place.partition, "committed_offset": offset, "committed_metadata": ""}
            topics[place.topic].append(row)
        request = request_of(
            _OFFSET_COMMIT,
            8,
            group_id=group,
            member_id="",
            topics=[{"name": name, "partitions": rows} for name, rows in topics.items()],
        )

        async def ask() -> None:
            answer = await self.ask(await self.coordinator(group, GROUP), request)
            codes = {part.error_code for topic in answer.topics for part in topic.partitions}
            if failed := next((code for code in codes if code is not ErrorCode.none), None):
                raise KafkaError(failed)

        await self.patiently(f"cannot commit offsets of the group {group}", ask)

    async def coordinator(self, key: str, kind: int) -> int:
        if (key, kind) not in self._coordinators:
            answer = await self.ask_anyone(request_of(_FIND_COORDINATOR, 4, key_type=kind, coordinator_keys=[key]))
            (found,) = answer.coordinators
            if found.error_code is not ErrorCode.none:
                raise KafkaError(found.error_code, found.error_message)
            self._brokers[found.node_id] = Address(found.host, found.port)
            self._coordinators[key, kind] = found.node_id
        return self._coordinators[key, kind]

    # -- asking

    async def patiently(self, what: str, ask: Callable[[], Awaitable[T]]) -> T:
        """Asks until there is an answer, or the time is over; `what` begins what is said then."""
        deadline = self._env.loop.time() + self.settings.api_timeout_s
        failures = 0
        while True:
            try:
                return await ask()
            except (ConnectionFailed, RequestTimedOut) as error:
                last: Exception = error
            except KafkaError as error:
                if error.code not in _PASSING:
                    raise Refused(error.code, f"{what}: {error}") from error
                last = error
            failures += 1
            self._topics.clear()
            self._coordinators.clear()
            rest = self._backoff.seconds(failures, self._env.random)
            if self._env.loop.time() + rest > deadline:
                raise OttlaError(
                    f"{what} within {self.settings.api_timeout_s:g} s (kafka.default.api.timeout.ms): {last}"
                ) from last
            await asyncio.sleep(rest)

    async def leader(self, place: TopicPartition) -> int:
        if place.topic not in self._topics:
            await self._ask_topics([place.topic])
        topic = self._topics.get(place.topic)
        if topic is None or place.partition not in topic.leaders:
            raise KafkaError(ErrorCode.leader_not_available, f"the cluster knows nothing of {place}")
        leader = topic.leaders[place.partition]
        if leader not in self._brokers:
            raise KafkaError(ErrorCode.leader_not_available, f"{place} has no leader")
        return leader

    async def ask(self, broker: int, request: Any) -> Any:
        return await self._link(broker).call(request, within=self.settings.request_timeout_s)

    async def ask_in_bytes(self, broker: int, key: int, version: int, body: Sequence[Buffer]) -> Any:
        """For a request that is too large to be copied into one piece."""
        link = self._link(broker)
        answer = await link.send_bytes(key, version, body, within=self.settings.request_timeout_s)
        try:
            return codec.decode_response(key, version, answer)
        except codec.MalformedRequest as error:
            raise ConnectionFailed(f"answer of {link.host}:{link.port} cannot be read: {error}") from error

    async def ask_anyone(self, request: Any) -> Any:
        """A broker that is connected, one that the cluster has named, one that the user has."""
        known = [*self._brokers.values(), *self.settings.bootstrap]
        last: Exception | None = None
        for address in sorted(dict.fromkeys(known), key=lambda one: one not in self._links):
            try:
                return await self._link_to(address).call(request, within=self.settings.request_timeout_s)
            except (ConnectionFailed, RequestTimedOut) as error:
                last = error
        raise ConnectionFailed(str(last))

    def _link(self, broker: int) -> Link:
        return self._link_to(self._brokers[broker])

    def _link_to(self, address: Address) -> Link:
        if address not in self._links:
            self._links[address] = Link(
                cast(Env, self._env),
                address.host,
                address.port,
                self.settings.client_id,
                connect_within=self.settings.connect_timeout_s,
                negotiates=True,
            )
        return self._links[address]


def request_of(key: int, version: int, /, **values: Any) -> Any:
    return build(request_type(key, version), values)


def _some(places: Iterable[TopicPartition]) -> str:
    named = [str(place) for place in sorted(places)]
    return ", ".join(named[:3]) + (f" and {len(named) - 3} more" if len(named) > 3 else "")
