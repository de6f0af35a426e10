"""Fetch (key 1): reads batches from partitions, or waits until there are some.

Versions: 4 is the oldest (record batches v2), 5 adds log start offsets, 7 sessions (KIP-227), 9 the client's leader
epoch, 11 the rack, 12 is flexible and detects diverging epochs, 13 names topics by id, 15 moves the replica's state to
a tagged field, 16 tells other nodes' endpoints, 17 and 18 add what only followers send.

Answers are written by hand. The batches themselves are ranges of files, read when they are sent (wire/server.py), so an
answer of 50 MB needs no 50 MB of memory.
"""

from __future__ import annotations

import asyncio
import logging
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

_log = logging.getLogger("ottla.broker")

_FLEXIBLE: Final = 12
_TOPIC_IDS: Final = 13
_NONE: Final = ErrorCode.none
_SIZE_CORRELATION: Final = Struct(">ii")
_I32: Final = Struct(">i")
_HEAD: Final = Struct(">ihi")  # throttle time, error, session id
_ROW_OF_4: Final = Struct(">ihqq")
_ROW_OF_12: Final = Struct(">ihqqqBi")  # with null for aborted transactions
_TWO_I64: Final = Struct(">qq")
_EPOCH_END: Final = Struct(">iq")
_NO_REPLICA: Final = -1  # no other replica is preferred for reading
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
        return _write(version, context.header.correlation_id, error.code, 0, [])
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
        self._targets: list[tuple[Key, Wanted, Partition | ErrorCode]] | None = None
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
        self._wait()
        return self._later

    # -- reading

    def _read(self) -> list[Row] | None:
        """All partitions in their order, within the limits; None if something is being read into memory first."""
        targets = self._targets
        if targets is None:
            targets = self._targets = [(key, wanted, self._find(key)) for key, wanted in self._wanted.items()]
        self._have = 0
        rows, left = [], self._max_bytes
        for key, wanted, partition in targets:
            if isinstance(partition, ErrorCode):
                rows.append(Row(key, Fetched(partition)))
                continue
            try:
                fetched = partition.fetch(
                    wanted.offset,
                    min(wanted.max_bytes, left),
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
            except OSError as error:
                _log.error("%s could not be read: %s", partition.key, error)
                fetched = Fetched(ErrorCode.kafka_storage_error)
            if fetched.data is not None:
                left = max(left - fetched.data.size, 0)
                self._have += fetched.data.size
            rows.append(Row(key, fetched))
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
            self._wait()

    # -- waiting

    def _is_enough(self, rows: list[Row]) -> bool:
        return (
            self._max_wait_ms <= 0
            or not rows
            or self._have >= self._min_bytes
            or any([row.fetched.code is not _NONE or row.fetched.diverging is not None for row in rows])
        )

    def _wait(self) -> None:
        assert self._targets is not None
        partitions = [target[2] for target in self._targets if isinstance(target[2], Partition)]
        self._counted = [(partition, partition.bytes_appended) for partition in partitions]
        self._node.waiting.enter(self, [partition.key for partition in partitions], self._max_wait_ms)

    def touched(self, key: Hashable) -> None:
        if not self._check_is_due:  # once a turn of the loop, however many batches come in it
            self._check_is_due = True
            asyncio.get_running_loop().call_soon(self._check)

    def _check(self) -> None:
        self._check_is_due = False
        if self._later is None or self._later.done:
            return
        if not all([partition.is_leader for partition, _ in self._counted]):
            self._targets = None  # deleted, perhaps made anew: to be looked up again
        elif self._min_bytes > 1:
            new = sum([partition.bytes_appended - before for partition, before in self._counted])
            if self._have + new < self._min_bytes:
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
        return _write(header.version, header.correlation_id, _NONE, session_id, rows)

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


def _write(version: int, correlation_id: int, code: ErrorCode, session_id: int, rows: list[Row]) -> Message:
    """The whole frame: bytes, and ranges of files between them."""
    flexible = version >= _FLEXIBLE
    parts: list[Part] = []
    pending: list[bytes] = [b"\x00"] if flexible else []
    pending.append(_HEAD.pack(0, code, session_id) if version >= 7 else b"\x00\x00\x00\x00")
    size = 4  # the correlation id
    topics: dict[object, list[Row]] = {}
    for row in rows:
        topics.setdefault(row.key[0], []).append(row)
    pending.append(_count(len(topics), flexible))
    for name, topic_rows in topics.items():
        pending.append(_topic(name, version))
        pending.append(_count(len(topic_rows), flexible))
        for row in topic_rows:
            fetched = row.fetched
            pending.append(_row_head(version, row))
            data = fetched.data
            if data is not None:
                pending.append(uvarint(data.size + 1) if flexible else _I32.pack(data.size))
                parts.append(b"".join(pending))
                pending.clear()
                parts.append(FileRange(data.file, data.position, data.size))
                size += data.size
            else:
                pending.append(b"\x01" if flexible else b"\x00\x00\x00\x00")
            if flexible:
                end = fetched.diverging
                pending.append(b"\x00" if end is None else b"\x01\x00\x0d" + _EPOCH_END.pack(*end) + b"\x00")
        if flexible:
            pending.append(b"\x00")
    if flexible:
        pending.append(b"\x00")
    last = b"".join(pending)
    size += len(last) + sum([len(part) for part in parts if isinstance(part, bytes)])
    head = _SIZE_CORRELATION.pack(size, correlation_id)
    if not parts:
        return head + last
    first = parts[0]
    assert isinstance(first, bytes)
    parts[0] = head + first
    if last:
        parts.append(last)
    return parts


def _count(count: int, flexible: bool) -> bytes:
    return uvarint(count + 1) if flexible else _I32.pack(count)


def _topic(name: object, version: int) -> bytes:
    if version >= _TOPIC_IDS:
        return name.bytes if isinstance(name, UUID) else bytes(16)
    encoded = str(name).encode()
    return (uvarint(len(encoded) + 1) if version >= _FLEXIBLE else len(encoded).to_bytes(2, "big")) + encoded


def _row_head(version: int, row: Row) -> bytes:
    """All of a partition's answer that comes before its records."""
    code, high_watermark, last_stable_offset, start_offset, _, aborted, _ = row.fetched
    number = row.key[1]
    if aborted is None and version >= _FLEXIBLE:
        return _ROW_OF_12.pack(number, code, high_watermark, last_stable_offset, start_offset, 0, _NO_REPLICA)
    fixed = _ROW_OF_4.pack(number, code, high_watermark, last_stable_offset)
    if version >= 5:
        fixed += start_offset.to_bytes(8, "big", signed=True)
    flexible = version >= _FLEXIBLE
    if aborted is None:
        fixed += b"\xff\xff\xff\xff"
    else:
        fixed += _count(len(aborted), flexible)
        tags = b"\x00" if flexible else b""
        fixed += b"".join([_TWO_I64.pack(txn.producer_id, txn.first_offset) + tags for txn in aborted])
    return fixed + _I32.pack(_NO_REPLICA) if version >= 11 else fixed


API: Final = Api(1, "Fetch", oldest=4, newest=18, handle_raw=handle)
