"""Fetch (key 1): reads batches from partitions, or waits until there are some.

Versions: 4 is the oldest (record batches v2), 5 adds log start offsets, 7 sessions (KIP-227), 9 the client's leader
epoch, 11 the rack, 12 is flexible and detects diverging epochs, 13 names topics by id, 15 moves the replica's state to
a tagged field, 16 tells other nodes' endpoints, 17 and 18 add what only followers send.

Requests are read and answers written by hand. The batches themselves are ranges of files, read when they are sent
(wire/server.py), so an answer of 50 MB needs no 50 MB of memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import Final
from uuid import UUID

from ottla.broker.apis.fetch_format import TOPIC_IDS, Row, write_answer
from ottla.broker.apis.fetch_request import RACKS, SESSIONS, FetchRequest, read
from ottla.broker.context import Context
from ottla.broker.current_leaders import CurrentLeader, current_leader, endpoints_of
from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, Session, SessionError, Told, Wanted
from ottla.broker.follower_watch import FollowerWatch, Key
from ottla.broker.read_replica import NOBODY, preferred_replica, selects_by_rack
from ottla.broker.replication_quotas import LeaderQuota
from ottla.broker.tier.fetching import TierFetch
from ottla.broker.traffic import count_fetched
from ottla.env.ports import Buffer
from ottla.env.slices import Rows, is_sliced, whole
from ottla.log.index import NotInMemory
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Fetched, InTier, Isolation, Partition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource
from ottla.wire.reply import Later, Message

_log = logging.getLogger("ottla.broker")

_NONE: Final = ErrorCode.none
LEADERS: Final = 16
_ELSEWHERE: Final = (ErrorCode.not_leader_or_follower, ErrorCode.fenced_leader_epoch)
_ISOLATION_LEVELS: Final = (0, 1)
_SHARDS: Final = 8
_IDS_OF_A_SHARD: Final = (2**31 - 1) // _SHARDS
_LONG_BYTES: Final = 32 * 1024  # a thousand partitions
_MAX_WARMINGS: Final = 64  # after so many reads that were not in memory, an answer goes out with what it has


def handle(context: Context, body: memoryview) -> Message | Later:
    if len(body) > _LONG_BYTES:
        return context.node.dispatcher.in_slices(context, body, partial(_handle_long, context))
    return _begin(context, read(context.header.version, body))


def _handle_long(context: Context, body: Buffer) -> Message | Later:
    request = read(context.header.version, memoryview(body))
    if request.replica_id >= 0:  # a follower's places in the logs are taken note of together
        return whole(partial(_begin, context), request)
    return _begin(context, request)


def _begin(context: Context, request: FetchRequest) -> Message | Later:
    version = context.header.version
    try:
        session = _session(context, request)
    except SessionError as error:
        context.count_errors([error.code])
        return write_answer(version, context.header.correlation_id, error.code, 0, [])
    except _OutsideCache:
        return _refusal(context, request)
    fetch = _Fetch(context, request, session)
    if request.isolation_level not in _ISOLATION_LEVELS and fetch.finds_partitions():
        return _refusal(context, request)
    return fetch.start()


def _refusal(context: Context, request: FetchRequest) -> Message:
    """What Kafka makes of a request that it does not expect: every partition has the error, or none is named."""
    code, version = ErrorCode.unknown_server_error, context.header.version
    rows = [Row(key, Fetched(code, aborted=[])) for key in request.wanted] if version < TOPIC_IDS else []
    return write_answer(version, context.header.correlation_id, code, request.session_id, rows)


def _session(context: Context, request: FetchRequest) -> Session | None:
    version = context.header.version
    if version < SESSIONS:
        return None
    if not 0 <= int(request.session_id / _IDS_OF_A_SHARD) < _SHARDS:
        raise _OutsideCache
    sessions, now_ms = context.node.fetch_sessions, context.node.env.clock.now_ms()
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return None
        follower = FollowerWatch(request.replica_id) if request.replica_id >= 0 else None
        if follower is not None and context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
            sessions.end_former(follower.replica, request.broker_epoch)
        return sessions.create(request.wanted, version >= TOPIC_IDS, now_ms, follower)
    return sessions.go_on(
        request.session_id, request.session_epoch, request.wanted, request.forgotten, version >= TOPIC_IDS, now_ms
    )


class _OutsideCache(Exception):
    """Kafka's cache of sessions is in parts, by id, and falls over an id that no part has."""


class _Fetch:
    """One request from its first look to its answer; a WaitingRequest in between.

    It looks, and answers if that is enough; otherwise it waits until a partition is touched or the time is over, and
    looks again. Where an index or a header is not in memory, looking is put off until the executor has read it.
    """

    def __init__(self, context: Context, request: FetchRequest, session: Session | None) -> None:
        self._context = context
        self._node = context.node
        self._session = session
        self._is_incremental = session is not None and request.session_epoch > 0
        self._wanted = session.wanted if session is not None else request.wanted
        self._max_wait_ms = request.max_wait_ms
        self._max_bytes = min(request.max_bytes, self._node.config.fetch_max_bytes)
        self._min_bytes = min(request.min_bytes, self._max_bytes)  # else nothing would ever be enough
        self._replica_id, self._broker_epoch = request.replica_id, request.broker_epoch
        self._follower: FollowerWatch | None = None
        self._quota: LeaderQuota | None = None
        self._is_noted = self._replica_id < 0  # a follower's progress, once for each request
        if self._replica_id >= 0:
            self._follow(session, request.wanted)
        self._isolation = Isolation.READ_COMMITTED if request.isolation_level == 1 else Isolation.READ_UNCOMMITTED
        self._follower_allowed = self._replica_id < 0 or context.allowed(
            Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
        )
        # A client that may tell its rack may read from any replica (KIP-392).
        self._leader_only = self._replica_id >= 0 or context.header.version < RACKS
        self._rack: str = "" if self._leader_only or not selects_by_rack(context) else request.rack_id
        self._later: Later | None = None
        self._tier: TierFetch | None = None
        self._is_warming = False
        self._warmings = 0
        self._check_is_due = False
        self._is_sliced = is_sliced()
        self._targets: Sequence[tuple[Key, Wanted, Partition | ErrorCode]] | None = None
        self._counted: list[tuple[Partition, int, int]] | None = None  # who is watched, his epoch and bytes till then
        self._have = 0

    def _follow(self, session: Session | None, wanted: dict[Key, Wanted]) -> None:
        follower = session.follower if session is not None else None
        replication = self._node.replicas.replication
        self._quota = replication.leader_quota if replication is not None else None
        if follower is None:
            follower = FollowerWatch(self._replica_id)
        self._follower = follower
        follower.begin(self._node.env.clock.elapsed(), self._broker_epoch, wanted, self._wanted)

    def start(self) -> Message | Later:
        answer = self._look()
        if answer is None and self._is_sliced and not self._is_warming:
            answer = whole(_Fetch._look, self)  # what came during a breath is told, or waited for
        if answer is not None:
            if self._follower is not None and self._session is None:
                self._follower.close()  # else partitions would go on telling it
            return answer
        self._later = Later(cancel=self._leave, overlaps=self._follower is not None, is_idle=True)
        if not self._is_warming:
            self._wait()
        return self._later

    # -- looking

    def finds_partitions(self) -> bool:
        return any(isinstance(self._find(key), Partition) for key in self._wanted)

    def _look(self) -> Message:
        """The answer, if there is enough for one or the time is over."""
        rows = self._read()
        return self._answer(rows) if rows is not None and self._is_enough(rows) else None

    def _read(self) -> Sequence[Row] | None:
        """All partitions in their order, within the limits; None if something is being read into memory first."""
        targets = self._targets
        if targets is None or self._follower is not None:
            found = [(key, wanted, self._find(key)) for key, wanted in self._to_look_at()]
            targets = self._targets = Rows(found) if self._is_sliced else found
        self._have = 0
        left = self._max_bytes
        rows = []
        for key, wanted, partition in targets:
            if isinstance(partition, ErrorCode):
                rows.append(Row(key, Fetched(partition, aborted=[])))
                continue
            if self._rack and (elsewhere := self._nearer(partition, wanted)) is not None:
                rows.append(Row(key, elsewhere))
                continue
            limit = min(wanted.max_bytes, left)
            try:
                fetched = partition.fetch(
                    wanted.offset if self._tier is None else self._tier.offset_of(key, wanted.offset),
                    max(limit, 0),
                    self._isolation,
                    wanted.current_leader_epoch,
                    wanted.last_fetched_epoch,
                    self._replica_id,
                    at_least_one=self._have == 0 or limit < 0,
                    leader_only=self._leader_only,
                )
            except NotInMemory as missing:
                if self._warm(missing):
                    return None
                fetched = Fetched(ErrorCode.kafka_storage_error)
            except InTier as elsewhere:
                fetched = self._from_tier.fetched(
                    key, partition, wanted.offset, elsewhere.fetched, limit, at_least_one=self._have == 0
                )
            except OSError as error:
                _log.error("%s could not be read: %s", partition.key, error)
                partition.log.read_failed(error)
                fetched = Fetched(ErrorCode.kafka_storage_error)
            if limit < 0 and fetched.data is not None:  # Kafka falls over it where there is something to read
                fetched = Fetched(ErrorCode.unknown_server_error)
            if self._follower is not None:
                fetched = self._note_follower(self._follower, key, wanted, partition, fetched)
            if fetched.data is not None:
                self._have += fetched.data.size
            left = max(self._max_bytes - self._have, 0)
            rows.append(Row(key, fetched))
        if self._tier is not None and self._tier.is_waiting:
            self._is_warming = True
            return None
        self._is_noted = True
        return Rows(rows) if self._is_sliced else rows

    def _nearer(self, partition: Partition, wanted: Wanted) -> Fetched | None:
        """Who is nearer to the consumer, if somebody is: it then reads there, and nothing is read here."""
        if not partition.is_leader or partition.check_epoch(wanted.current_leader_epoch) is not _NONE:
            return None
        replica = preferred_replica(self._context, partition, self._rack, wanted.offset)
        if replica == NOBODY:
            return None
        stable, start_offset = partition.last_stable_offset, partition.log.start_offset
        return Fetched(_NONE, partition.high_watermark, stable, start_offset, aborted=None, preferred_replica=replica)

    def _to_look_at(self) -> Iterable[tuple[Key, Wanted]]:
        """Of a follower's partitions only those that may have something new; the others rest."""
        if self._follower is None:
            return Rows(self._wanted.items()) if self._is_sliced else self._wanted.items()
        return [(key, self._wanted[key]) for key in self._follower.active if key in self._wanted]

    def _note_follower(
        self, follower: FollowerWatch, key: Key, wanted: Wanted, partition: Partition, fetched: Fetched
    ) -> Fetched:
        if fetched.code is not _NONE or fetched.diverging is not None:
            return fetched
        if not self._is_noted:
            code = partition.follower_fetched(self._replica_id, wanted.offset, wanted.start_offset, self._broker_epoch)
            if code is not _NONE:
                return Fetched(code, aborted=[])
            if fetched.high_watermark != partition.high_watermark:
                fetched = fetched._replace(high_watermark=partition.high_watermark)
        follower.watch(key, partition)
        if fetched.data is not None and self._quota is not None:
            if self._quota.holds_back(partition, self._replica_id):
                return fetched._replace(data=None)
            self._quota.count(partition, fetched.data.size)
        if fetched.data is not None:
            follower.gave(key)
        elif (
            wanted.offset >= partition.log.end_offset  # else the answer only had no room for it
            and self._session is not None
            and self._session.told.get(key) == _told(fetched)
        ):
            follower.rests(key, partition)
        return fetched

    def _find(self, key: Key) -> Partition | ErrorCode:
        follower = self._follower
        if follower is not None and self._follower_allowed and (led := follower.led(key)) is not None:
            return led
        replicas = self._node.replicas
        topic, number = key
        partition: Partition | None
        if isinstance(topic, bytes):
            topic_id = UUID(bytes=topic)
            name = replicas.name_of(topic_id)
            if name is None:
                return ErrorCode.unknown_topic_id
            partition = replicas.by_id.get((topic_id, number))
        else:
            name = topic
            partition = replicas.by_name.get((name, number))
        if not self._may_read(name):
            return ErrorCode.topic_authorization_failed
        return partition if partition is not None else replicas.why_not_here(name, number)

    def _may_read(self, topic: str) -> bool:
        """A follower may read all topics or none."""
        if self._replica_id >= 0:
            return self._follower_allowed
        return self._context.allowed(Operation.READ, Resource.TOPIC, topic)

    @property
    def _from_tier(self) -> TierFetch:
        """What this request reads from the remote tier: looked at again when all of it has come, or time is over."""
        if self._tier is None:
            self._tier = TierFetch(self._node, self._isolation, self._have_from_tier)
        return self._tier

    def _have_from_tier(self) -> None:
        self._is_warming = False
        self._look_again()

    def _warm(self, missing: NotInMemory) -> bool:
        """Has the executor read what is missing; False if that does not seem to help."""
        self._warmings += 1
        if self._warmings > _MAX_WARMINGS:
            return False
        self._is_warming = True
        reading = self._node.env.executor.blocking(missing.file.pread, missing.size, missing.position)
        reading.add_done_callback(self._warmed)
        return True

    def _warmed(self, reading: asyncio.Future[bytes]) -> None:
        self._is_warming = False
        if (error := reading.exception()) is not None:
            _log.error("a partition could not be read: %s", error)
            self._warmings = _MAX_WARMINGS
        self._look_again()

    def _look_again(self) -> None:
        later = self._later
        if later is None or later.done or self._is_warming:
            return
        try:
            answer = self._look()
        except Exception:
            _log.exception("a fetch that waited failed")
            self._leave()
            later.fail()
            return
        if answer is not None:
            self._leave()
            later.complete(answer)
        elif not self._is_warming and self._counted is None:
            self._wait()

    # -- waiting

    def _is_enough(self, rows: Sequence[Row]) -> bool:
        return (
            self._max_wait_ms <= 0
            or not self._wanted
            or self._have >= self._min_bytes
            or any([_must_be_told(row.fetched) for row in rows])
            or self._is_behind()
            or self._tier is not None
        )

    def _is_behind(self) -> bool:
        """Whether one reads in an older segment: there is more in the next one, so what there is here need not wait."""
        return self._have > 0 and any(
            isinstance(partition, Partition) and wanted.offset < partition.log.active.base_offset
            for _, wanted, partition in self._targets or ()
        )

    def _wait(self) -> None:
        assert self._targets is not None
        if self._follower is not None:
            self._follower.waiting = self
            self._counted = []
            self._node.waiting.enter(self, (), self._max_wait_ms)
            return
        partitions = [target[2] for target in self._targets if isinstance(target[2], Partition)]
        self._counted = [(each, each.leader_epoch, self._bytes_before(each)) for each in partitions]
        self._node.waiting.enter(self, [partition.key for partition in partitions], self._max_wait_ms)

    def _bytes_before(self, partition: Partition) -> int:
        """What counts as having been there. Where something is there that may not be read yet, nobody knows how much of
        what is readable later is new: then every change is a reason to look."""
        committed_only = self._isolation is Isolation.READ_COMMITTED
        readable = partition.last_stable_offset if committed_only else partition.high_watermark
        is_level = readable >= partition.log.end_offset
        return partition.bytes_appended - (0 if is_level else self._min_bytes)

    def touched(self, key: Hashable) -> None:
        if not self._check_is_due:  # once for all the batches that have come
            self._check_is_due = True
            self._context.connection.turn.afterwards(self._check)

    def _check(self) -> None:
        self._check_is_due = False
        counted = self._counted or []
        if not all([partition.is_leader for partition, _, _ in counted]):
            self._targets = None  # deleted, perhaps made anew: to be looked up again
        elif self._min_bytes > 1 and all([partition.leader_epoch == epoch for partition, epoch, _ in counted]):
            new = sum([partition.bytes_appended - before for partition, _, before in counted])
            if self._have + new < self._min_bytes:
                return
        self._look_again()

    def expired(self) -> None:
        self._max_wait_ms = 0
        self._look_again()

    def woken(self) -> None:
        if not self._check_is_due:
            self._check_is_due = True
            self._context.connection.turn.afterwards(self._check_follower)

    def _check_follower(self) -> None:
        self._check_is_due = False
        self._look_again()

    def dismissed(self) -> None:
        later = self._later
        self._leave()
        if later is not None and not later.done:
            later.complete(self._answer([]))

    def _leave(self) -> None:
        self._node.waiting.leave(self)
        if self._tier is not None:
            self._tier.leave()
            self._tier = None
        follower = self._follower
        if follower is not None:
            if follower.waiting is self:
                follower.waiting = None
            if self._session is None:
                follower.close()

    # -- answering

    def _answer(self, rows: Sequence[Row]) -> Message:
        session = self._session
        if self._follower is None:
            count_fetched(self._context, self._targets or (), rows)
        else:
            self._node.replicas.replication_bytes_out += self._have if rows else 0
        if session is not None:
            rows = self._note(session, rows)
        header = self._context.header
        session_id = session.id if session is not None and session.wanted else 0
        if header.version >= LEADERS and any([row.fetched.code in _ELSEWHERE for row in rows]):
            leaders = self._leaders(rows)
            # a follower knows from the metadata where the others are
            endpoints = endpoints_of(self._context, leaders.values() if self._replica_id < 0 else ())
            return write_answer(header.version, header.correlation_id, _NONE, session_id, rows, leaders, endpoints)
        return write_answer(header.version, header.correlation_id, _NONE, session_id, rows)

    def _leaders(self, rows: Sequence[Row]) -> dict[Key, CurrentLeader]:
        return {
            row.key: current_leader(self._context, self._name_of(row.key[0]), row.key[1])
            for row in rows
            if row.fetched.code in _ELSEWHERE
        }

    def _name_of(self, topic: str | bytes) -> str:
        return topic if isinstance(topic, str) else self._node.replicas.name_of(UUID(bytes=topic)) or ""

    def _note(self, session: Session, rows: Sequence[Row]) -> Sequence[Row]:
        """Leaves out, in later answers of a session, partitions of which there is nothing new to say."""
        news = []
        for row in rows:
            fetched = row.fetched
            told = _told(fetched)
            has_data = fetched.data is not None
            if has_data and row.key in session.wanted:  # to the end of the row
                session.wanted[row.key] = session.wanted.pop(row.key)
            is_news = has_data or _must_be_told(fetched)
            if not self._is_incremental or is_news or session.told.get(row.key) != told:
                news.append(row)
            if fetched.code is _NONE:
                session.told[row.key] = told
            else:
                session.told.pop(row.key, None)
        return news


def _must_be_told(fetched: Fetched) -> bool:
    return fetched.code is not _NONE or fetched.diverging is not None or fetched.preferred_replica != NOBODY


def _told(fetched: Fetched) -> Told:
    return Told(fetched.high_watermark, fetched.last_stable_offset, fetched.start_offset)
