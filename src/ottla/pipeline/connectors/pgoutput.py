"""What PostgreSQL's logical decoding plugin `pgoutput` says (protocol version 1), as changes of rows.

Messages in, changes out; no connection here. A transaction's messages come together, between Begin and Commit, in the
order of commits. A table is described by a Relation message before its first change, and again when it was altered.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple

from ottla.model.errors import OttlaError

_EPOCH_US: Final = 946_684_800_000_000
"""2000-01-01 in microseconds of Unix time."""
_NUMBERS: Final = frozenset({20, 21, 23, 26, 700, 701, 1700})  # int8, int2, int4, oid, float4, float8, numeric
_BOOLEAN: Final = 16
_JSON: Final = frozenset({114, 3802})
_TIME: Final = 1114
_TIME_WITH_ZONE: Final = 1184
_IS_KEY: Final = 1


class Op(Enum):
    READ = "r"
    """From the snapshot."""
    CREATE = "c"
    UPDATE = "u"
    DELETE = "d"


class Change(NamedTuple):
    op: Op
    schema: str
    table: str
    key: str | None
    """JSON of the columns of the replica identity; None for a table that has none."""
    value: str | None
    """JSON of the row as it is now; None if it was deleted."""
    unchanged: tuple[str, ...]
    """Columns that are not in `value` because they are long, were not changed, and PostgreSQL does not repeat them."""
    lsn: int
    """Of the commit."""
    xid: int
    sequence: int
    """Within the transaction."""
    committed_us: int


class Column(NamedTuple):
    name: str
    type: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    schema: str
    name: str
    columns: tuple[Column, ...]
    whole_row: bool
    """REPLICA IDENTITY FULL, with which PostgreSQL calls all columns the key."""


class Unchanged:
    """A long value that was not changed."""


UNCHANGED: Final = Unchanged()
Value = bytes | Unchanged | None


class Decoder:
    """Gives changes of transactions whose commit lies in [start, end), of which the snapshot has not seen any."""

    def __init__(
        self,
        start: int,
        end: int,
        seen: Seen | None = None,
        primary_keys: Mapping[tuple[str, str], tuple[str, ...]] | None = None,
    ) -> None:
        """Primary keys by schema and table, for tables with REPLICA IDENTITY FULL."""
        self._start = start
        self._end = end
        self._seen = seen
        self._primary_keys = primary_keys or {}
        self._relations: dict[int, Relation] = {}
        self._lsn = self._xid = self._committed_us = self._sequence = 0
        self._wanted = False

    def changes(self, messages: Iterable[bytes]) -> Iterator[Change]:
        for message in messages:
            yield from self._message(message)

    def _message(self, message: bytes) -> Iterator[Change]:
        match message[:1]:
            case b"B":
                self._lsn, committed, self._xid = struct.unpack_from(">QqI", message, 1)
                self._committed_us = committed + _EPOCH_US
                self._sequence = 0
                in_snapshot = self._seen is not None and self._seen.has(self._xid, self._lsn)
                self._wanted = self._start <= self._lsn < self._end and not in_snapshot
            case b"R":
                number, relation = _relation(message)
                self._relations[number] = self._keyed(relation)
            case b"I" | b"U" | b"D" if self._wanted:
                yield from self._change(message)
            case _:
                pass  # Commit, Origin, Type, Truncate, Message

    def _keyed(self, relation: Relation) -> Relation:
        if not relation.whole_row:
            return relation
        key = self._primary_keys.get((relation.schema, relation.name), ())
        return replace(relation, columns=tuple(one._replace(is_key=one.name in key) for one in relation.columns))

    def _change(self, message: bytes) -> Iterator[Change]:
        (number,) = struct.unpack_from(">I", message, 1)
        relation = self._relations.get(number)
        if relation is None:
            raise OttlaError(f"PostgreSQL sent a change of a table ({number}) that it has not described")
        old: list[Value] | None = None
        new: list[Value] | None = None
        at = 5
        old_is_key = False
        while at < len(message):
            kind = message[at : at + 1]
            values, at = _tuple(message, at + 1)
            if kind == b"N":
                new = values
            else:
                old, old_is_key = values, kind == b"K"
        if new is None:
            assert old is not None
            yield self._made(relation, Op.DELETE, _key(relation, old), None, ())
            return
        if old is not None and not old_is_key:
            new = [was if isinstance(is_, Unchanged) else is_ for was, is_ in zip(old, new, strict=True)]
        key = _key(relation, new)
        if old is not None and key is not None and (before := _key(relation, old)) != key:
            yield self._made(relation, Op.DELETE, before, None, ())
        op = Op.CREATE if message[:1] == b"I" else Op.UPDATE
        unchanged = tuple(
            column.name for column, value in zip(relation.columns, new, strict=True) if isinstance(value, Unchanged)
        )
        yield self._made(relation, op, key, _json(relation.columns, new), unchanged)

    def _made(
        self, relation: Relation, op: Op, key: str | None, value: str | None, unchanged: tuple[str, ...]
    ) -> Change:
        self._sequence += 1
        return Change(
            op, relation.schema, relation.name, key, value, unchanged, self._lsn, self._xid, self._sequence,
            self._committed_us,
        )  # fmt: skip


class Seen:
    """Transactions that a snapshot (`pg_current_snapshot()`, xmin:xmax:xip,...) has seen. It was taken when the log was
    at `until`: what is committed behind that place is none of them, whatever its number."""

    def __init__(self, text: str, until: int) -> None:
        low, high, running = text.split(":")
        self._low, self._high, self._until = int(low), int(high), until
        self._running = frozenset(int(one) & 0xFFFFFFFF for one in running.split(",") if one)

    def has(self, xid: int, lsn: int) -> bool:
        """Numbers in the stream have 32 bits, and go round: what is meant is near the snapshot's."""
        if lsn >= self._until:
            return False
        near = self._high & ~0xFFFFFFFF | xid
        near = min((near - (1 << 32), near, near + (1 << 32)), key=lambda one: abs(one - self._high))
        return near < self._low or (near < self._high and xid not in self._running)


def _relation(message: bytes) -> tuple[int, Relation]:
    (number,) = struct.unpack_from(">I", message, 1)
    schema, at = _text(message, 5)
    name, at = _text(message, at)
    identity = message[at : at + 1]
    (count,) = struct.unpack_from(">H", message, at + 1)
    at += 3
    columns = []
    for _ in range(count):
        flags = message[at]
        column, at = _text(message, at + 1)
        (kind,) = struct.unpack_from(">I", message, at)
        at += 8
        columns.append(Column(column, kind, bool(flags & _IS_KEY)))
    return number, Relation(schema or "pg_catalog", name, tuple(columns), identity == b"f")


def _text(message: bytes, at: int) -> tuple[str, int]:
    end = message.index(0, at)
    return message[at:end].decode(), end + 1


def _tuple(message: bytes, at: int) -> tuple[list[Value], int]:
    (count,) = struct.unpack_from(">H", message, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = message[at : at + 1]
        at += 1
        if kind == b"t":
            (size,) = struct.unpack_from(">I", message, at)
            values.append(message[at + 4 : at + 4 + size])
            at += 4 + size
        elif kind == b"u":
            values.append(UNCHANGED)
        else:
            values.append(None)
    return values, at


def _key(relation: Relation, values: list[Value]) -> str | None:
    pairs = [(c, v) for c, v in zip(relation.columns, values, strict=True) if c.is_key]
    return _json([column for column, _ in pairs], [value for _, value in pairs]) if pairs else None


def _json(columns: Iterable[Column], values: Iterable[Value]) -> str:
    parts = [
        f"{json.dumps(column.name, ensure_ascii=False)}:{json_text(column.type, value)}"
        for column, value in zip(columns, values, strict=True)
        if not isinstance(value, Unchanged)
    ]
    return "{" + ",".join(parts) + "}"


def json_text(kind: int, value: bytes | None) -> str:
    """A value as PostgreSQL writes it (with ISO dates), as JSON has it."""
    if value is None:
        return "null"
    text = value.decode()
    if kind in _NUMBERS:
        return text if text[-1].isdigit() else json.dumps(text)  # NaN, Infinity
    if kind == _BOOLEAN:
        return "true" if text == "t" else "false"
    if kind in _JSON:
        return text
    if kind in (_TIME, _TIME_WITH_ZONE) and text[4:5] == "-":
        text = text.replace(" ", "T", 1)
        if kind == _TIME_WITH_ZONE:
            text = text.replace("+00", "Z") if text.endswith("+00") else text
    return json.dumps(text, ensure_ascii=False)
