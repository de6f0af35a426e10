"""Fetch (key 1): reads batches from partitions, or waits until there are some.

Versions: 4 is the oldest (record batches v2), 5 adds log start offsets, 7 sessions (KIP-227), 9 the client's leader
epoch, 11 the rack, 12 is flexible and detects diverging epochs, 13 names topics by id, 15 moves the replica's state to
a tagged field, 16 tells other nodes' endpoints, 17 and 18 add what only followers send.

Answers are written by hand. The batches themselves are ranges of files, read when they are sent (wire/server.py), so an
answer of 50 MB needs no 50 MB of memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.broker.context import Api, Context
from ottla.broker.fetch_sessions import FINAL_EPOCH, INITIAL_EPOCH, Session, SessionError, Told, Wanted
from ottla.log.index import NotInMemory
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_EPOCH
from ottla.replica.partition import Fetched, Isolation, Partition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource
from ottla.wire.codec import decode_request
from ottla.wire.reply import FileRange, Later, Message, Part
from ottla.wire.varint import uvarint

_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_NONE: Final = ErrorCode.none
_SIZE_CORRELATION: Final = Struct(">ii")
_I32: Final = Struct(">i")
_HEAD: Final = Struct(">ihi")  # throttle time, error, session id
_ROW: Final = Struct(">ihqqq")
_ROW_OF_4: Final = Struct(">ihqq")
_TWO_I64: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")
_MAX_WARMINGS: Final = 64  # after so many reads that were not in memory, an answer goes out with what it has

Key = tuple[object, int]  # topic name or id, as the version has it, and partition


class Row(NamedTuple):
    key: Key
    fetched: Fetched


def handle(context: Context, body: memoryview) -> Message | Later:
    version = context.header.version
    request = decode_request(1, version, body)
    wanted, forgotten = _wanted(request, version), _forgotten(request, version)
    try:
        session = _session(context, request, wanted, forgotten)
    except SessionError as error:
        return _Answer(version, context.header.correlation_id).write(error.code, 0, [])
    return _Fetch(context, request, session, wanted).start()


def _wanted(request: Any, version: int) -> dict[Key, Wanted]:
    wanted: dict[Key, Wanted] = {}
    for topic in request.topics:
        name = topic.topic_id if version >= _TOPIC_IDS else topic.topic
        for row in topic.partitions:
            wanted[name, row.partition] = Wanted(
                row.fetch_offset,
                row.partition_max_bytes,
                row.current_leader_epoch if version >= 9 else NO_EPOCH,
                row.last_fetched_epoch if version >= _FLEXIBLE else NO_EPOCH,
            )
    return wanted


def _forgotten(request: Any, version: int) -> list[Key]:
    if version < 7:
        return []
    return [
        (topic.topic_id if version >= _TOPIC_IDS else topic.topic, partition)
        for topic in request.forgotten_topics_data
        for partition in topic.partitions
    ]


def _session(context: Context, request: Any, wanted: dict[Key, Wanted], forgotten: list[Key]) -> Session | None:
    version = context.header.version
    if version < 7:
        return None
    sessions, now_ms = context.node.fetch_sessions, context.node.env.clock.now_ms()
    if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
        if request.session_id:
            sessions.close(request.session_id)
        if request.session_epoch == FINAL_EPOCH:
            return None
        return sessions.create(wanted, version >= _TOPIC_IDS, context.principal, now_ms)
    return sessions.go_on(request.session_id, request.session_epoch, wanted, forgotten, version >= _TOPIC_IDS, now_ms)


class _Fetch:
    """One request from its first look to its answer; a WaitingRequest in between."""

    def __init__(self, context: Context, request: Any, session: Session | None, wanted: dict[Key, Wanted]) -> None:
        version = context.header.version
        self._context = context
        self._node = context.node
        self._session = session
        self._is_incremental = session is not None and request.session_epoch > 0
        self._wanted = session.wanted if session is not None else wanted
        self._max_wait_ms = request.max_wait.total_seconds() * 1000
        self._min_bytes = request.min_bytes
        self._max_bytes = min(request.max_bytes, self._node.config.fetch_max_bytes)
        replica_id = request.replica_state.replica_id if version >= 15 else request.replica_id
        self._isolation = Isolation.LOG_END if replica_id >= 0 else Isolation(1 if request.isolation_level == 1 else 0)
        self._follower_allowed = replica_id < 0 or context.allowed(
            Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
        )
        self._later: Later | None = None
        self._warmings = 0
        self._check_is_due = False
        self._counted: list[tuple[Partition, int]] = []  # what waits, and how much had been appended when it began
        self._have = 0

    def start(self) -> Message | Later:
        rows = self._read()
        if rows is None:
            self._later = self._later or Later(cancel=self._cancel)
            return self._later
        if self._is_enough(rows):
            return self._answer(rows)
        self._later = Later(cancel=self._cancel)
        self._wait(rows)
        return self._later

    # -- reading

    def _read(self) -> list[Row] | None:
        """All partitions in their order, within the limits; None if something is being read into memory first."""
        rows, left = [], self._max_bytes
        for key, wanted in self._wanted.items():
            partition = self._find(key)
            if isinstance(partition, ErrorCode):
                rows.append(Row(key, Fetched(partition)))
                continue
            try:
                fetched = partition.fetch(
                    wanted.offset,
                    min(wanted.max_bytes, max(left, 0)),
                    self._isolation,
                    wanted.current_leader_epoch,
                    wanted.last_fetched_epoch,
                    at_least_one=left == self._max_bytes,
                )
            except NotInMemory as missing:
                if self._warm(missing):
                    return None
                fetched = Fetched(
                    _NONE, partition.high_watermark, partition.last_stable_offset, partition.log.start_offset
                )
            if fetched.data is not None:
                left -= fetched.data.size
            rows.append(Row(key, fetched))
        self._have = self._max_bytes - left
        return rows

    def _find(self, key: Key) -> Partition | ErrorCode:
        replicas = self._node.replicas
        name: str | None
        if self._context.header.version >= _TOPIC_IDS:
            name = replicas.name_of(key[0])
            if name is None:
                return ErrorCode.unknown_topic_id
            partition = replicas.by_id.get(key)
        else:
            name = str(key[0])
            partition = replicas.by_name.get((name, key[1]))
        if not self._follower_allowed or not self._context.allowed(Operation.READ, Resource.TOPIC, name):
            return ErrorCode.topic_authorization_failed
        return partition if partition is not None else replicas.why_not_here(name, key[1])

    def _warm(self, missing: NotInMemory) -> bool:
        """Has the executor read what is missing, then looks again from the start."""
        self._warmings += 1
        if self._warmings > _MAX_WARMINGS:
            return False
        reading = self._node.env.executor.blocking(missing.file.pread, missing.size, missing.position)
        reading.add_done_callback(lambda _: self._look_again())
        return True

    def _look_again(self) -> None:
        if self._later is None or self._later.done:
            return
        rows = self._read()
        if rows is None:
            return
        if self._is_enough(rows):
            self._later.complete(self._answer(rows))
        else:
            self._wait(rows)

    # -- waiting

    def _is_enough(self, rows: list[Row]) -> bool:
        return (
            self._max_wait_ms <= 0
            or not rows
            or self._have >= self._min_bytes
            or any(row.fetched.code is not _NONE or row.fetched.diverging is not None for row in rows)
        )

    def _wait(self, rows: list[Row]) -> None:
        found = [self._find(row.key) for row in rows]
        partitions = [partition for partition in found if isinstance(partition, Partition)]
        self._counted = [(partition, partition.bytes_appended) for partition in partitions]
        self._node.waiting.enter(self, (partition.key for partition in partitions), self._max_wait_ms)

    def touched(self, key: Hashable) -> None:
        if not self._check_is_due:  # once a turn of the loop, however many batches come in it
            self._check_is_due = True
            asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        self._check_is_due = False
        if self._later is None or self._later.done:
            return
        new = sum(partition.bytes_appended - before for partition, before in self._counted)
        led = all(partition.is_leader for partition, _ in self._counted)
        if led and self._have + new < self._min_bytes:
            return
        rows = self._read()
        if rows is not None and self._is_enough(rows) and self._node.waiting.leave(self):
            self._later.complete(self._answer(rows))

    def expired(self) -> None:
        self._max_wait_ms = 0
        self._look_again()

    def _cancel(self) -> None:
        self._node.waiting.leave(self)

    # -- answering

    def _answer(self, rows: list[Row]) -> Message:
        session = self._session
        if session is not None:
            rows = self._note(session, rows)
        header = self._context.header
        session_id = session.id if session is not None and session.wanted else 0
        return _Answer(header.version, header.correlation_id).write(_NONE, session_id, rows)

    def _note(self, session: Session, rows: list[Row]) -> list[Row]:
        """Leaves out, in later answers of a session, partitions of which there is nothing new to say."""
        news = []
        for row in rows:
            fetched = row.fetched
            told = Told(fetched.high_watermark, fetched.last_stable_offset, fetched.start_offset)
            has_data = fetched.data is not None
            if has_data and row.key in session.wanted:  # to the end of the row
                session.wanted[row.key] = session.wanted.pop(row.key)
            is_news = has_data or fetched.code is not _NONE or fetched.diverging is not None
            if not self._is_incremental or is_news or session.told.get(row.key) != told:
                news.append(row)
            if fetched.code is _NONE:
                session.told[row.key] = told
            else:
                session.told.pop(row.key, None)
        return news


class _Answer:
    """The bytes of an answer: parts of the frame, and ranges of files between them."""

    def __init__(self, version: int, correlation_id: int) -> None:
        self._version = version
        self._correlation_id = correlation_id
        self._parts: list[Part] = []
        self._pending: list[bytes] = []
        self._size = 4  # the correlation id

    def _put(self, data: bytes) -> None:
        self._pending.append(data)
        self._size += len(data)

    def write(self, code: ErrorCode, session_id: int, rows: list[Row]) -> Message:
        version = self._version
        flexible = version >= _FLEXIBLE
        if flexible:
            self._put(b"\x00")
        self._put(_HEAD.pack(0, code, session_id) if version >= 7 else b"\x00\x00\x00\x00")
        topics: dict[object, list[Row]] = {}
        for row in rows:
            topics.setdefault(row.key[0], []).append(row)
        self._put(self._count(len(topics)))
        for name, topic_rows in topics.items():
            self._put(self._topic(name))
            self._put(self._count(len(topic_rows)))
            for row in topic_rows:
                self._row(row)
            if flexible:
                self._put(b"\x00")
        if flexible:
            self._put(b"\x00")
        head = _SIZE_CORRELATION.pack(self._size, self._correlation_id)
        if not self._parts:
            return head + b"".join(self._pending)
        if self._pending:
            self._parts.append(b"".join(self._pending))
        first = self._parts[0]
        assert isinstance(first, bytes)
        self._parts[0] = head + first
        return self._parts

    def _count(self, count: int) -> bytes:
        return uvarint(count + 1) if self._version >= _FLEXIBLE else _I32.pack(count)

    def _topic(self, name: object) -> bytes:
        if self._version >= _TOPIC_IDS:
            return name.bytes if isinstance(name, UUID) else bytes(16)
        encoded = str(name).encode()
        return (uvarint(len(encoded) + 1) if self._version >= _FLEXIBLE else len(encoded).to_bytes(2, "big")) + encoded

    def _row(self, row: Row) -> None:
        version, fetched = self._version, row.fetched
        flexible = version >= _FLEXIBLE
        fields = (row.key[1], fetched.code, fetched.high_watermark, fetched.last_stable_offset)
        self._put(_ROW.pack(*fields, fetched.start_offset) if version >= 5 else _ROW_OF_4.pack(*fields))
        self._aborted(fetched)
        if version >= 11:
            self._put(b"\xff\xff\xff\xff")  # no preferred read replica
        size = fetched.data.size if fetched.data is not None else 0
        self._put(uvarint(size + 1) if flexible else _I32.pack(size))
        if fetched.data is not None:
            self._parts.append(b"".join(self._pending))
            self._pending.clear()
            self._parts.append(FileRange(fetched.data.file, fetched.data.position, size))
            self._size += size
        if flexible:
            if fetched.diverging is None:
                self._put(b"\x00")
            else:
                self._put(b"\x01\x00\x0d" + _EPOCH_END.pack(*fetched.diverging) + b"\x00")

    def _aborted(self, fetched: Fetched) -> None:
        flexible = self._version >= _FLEXIBLE
        if fetched.aborted is None:
            self._put(b"\x00" if flexible else b"\xff\xff\xff\xff")
            return
        self._put(self._count(len(fetched.aborted)))
        for txn in fetched.aborted:
            self._put(_TWO_I64.pack(txn.producer_id, txn.first_offset) + (b"\x00" if flexible else b""))


API: Final = Api(1, "Fetch", oldest=4, newest=18, handle_raw=handle)
