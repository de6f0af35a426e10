from __future__ import annotations

import struct
from typing import Any

import pytest

from ottla.pipeline.connectors.pgoutput import Change, Decoder, Op, Seen, json_text

_INT, _TEXT = 23, 25


def _begin(lsn: int, xid: int = 700) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, 0, xid)


def _relation(*columns: tuple[str, int, bool], identity: bytes = b"d") -> bytes:
    told = b"".join(
        struct.pack(">B", is_key) + name.encode() + b"\0" + struct.pack(">Ii", kind, -1)
        for name, kind, is_key in columns
    )
    return b"R" + struct.pack(">I", 9) + b"public\0orders\0" + identity + struct.pack(">H", len(columns)) + told


def _tuple(*values: Any) -> bytes:
    def one(value: Any) -> bytes:
        if value is None:
            return b"n"
        if value is ...:
            return b"u"
        text: bytes = value.encode()
        return b"t" + struct.pack(">I", len(text)) + text

    return struct.pack(">H", len(values)) + b"".join(map(one, values))


def _row(kind: bytes, *parts: bytes) -> bytes:
    return kind + struct.pack(">I", 9) + b"".join(parts)


_ORDERS = _relation(("id", _INT, True), ("name", _TEXT, False))


def _changes(*messages: bytes, **more: Any) -> list[Change]:
    return list(Decoder(100, 200, **more).changes(messages))


def _short(changes: list[Change]) -> list[tuple[Op, str | None, str | None]]:
    return [(one.op, one.key, one.value) for one in changes]


def test_inserts_updates_and_deletes() -> None:
    found = _changes(
        _begin(100),
        _ORDERS,
        _row(b"I", b"N", _tuple("1", 'a"b')),
        _row(b"U", b"N", _tuple("1", None)),
        _row(b"D", b"K", _tuple("1", None)),
    )
    assert _short(found) == [
        (Op.CREATE, '{"id":1}', '{"id":1,"name":"a\\"b"}'),
        (Op.UPDATE, '{"id":1}', '{"id":1,"name":null}'),
        (Op.DELETE, '{"id":1}', None),
    ]
    assert [one.sequence for one in found] == [1, 2, 3]
    assert {(one.schema, one.table, one.lsn, one.xid) for one in found} == {("public", "orders", 100, 700)}


def test_transactions_before_and_behind_the_range_are_left_out() -> None:
    insert = _row(b"I", b"N", _tuple("1", "x"))
    found = _changes(_begin(99), _ORDERS, insert, _begin(100), insert, _begin(199), insert, _begin(200), insert)
    assert [one.lsn for one in found] == [100, 199]


def test_a_row_that_gets_another_key_is_deleted_under_the_old_one() -> None:
    found = _changes(_begin(100), _ORDERS, _row(b"U", b"K", _tuple("1", None), b"N", _tuple("2", "x")))
    assert _short(found) == [(Op.DELETE, '{"id":1}', None), (Op.UPDATE, '{"id":2}', '{"id":2,"name":"x"}')]


def test_long_values_that_were_not_changed_are_named() -> None:
    (found,) = _changes(_begin(100), _ORDERS, _row(b"U", b"N", _tuple("1", ...)))
    assert (found.value, found.unchanged) == ('{"id":1}', ("name",))


def test_with_whole_rows_nothing_is_missing_and_the_key_is_the_primary_key() -> None:
    whole = _relation(("id", _INT, True), ("name", _TEXT, True), identity=b"f")
    update = _row(b"U", b"O", _tuple("1", "long"), b"N", _tuple("1", ...))
    keys = {("public", "orders"): ("id",)}
    (found,) = _changes(_begin(100), whole, update, primary_keys=keys)
    assert (found.key, found.value, found.unchanged) == ('{"id":1}', '{"id":1,"name":"long"}', ())
    (without,) = _changes(_begin(100), whole, update)
    assert without.key is None


def test_a_table_that_is_altered_in_mid_stream() -> None:
    wider = _relation(("id", _INT, True), ("name", _TEXT, False), ("paid", 16, False))
    found = _changes(
        _begin(100),
        _ORDERS,
        _row(b"I", b"N", _tuple("1", "x")),
        _begin(120),
        wider,
        _row(b"I", b"N", _tuple("2", "y", "t")),
    )
    assert [one.value for one in found] == ['{"id":1,"name":"x"}', '{"id":2,"name":"y","paid":true}']


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (20, "-5", "-5"),
        (1700, "12.30", "12.30"),
        (1700, "NaN", '"NaN"'),
        (701, "1e+20", "1e+20"),
        (701, "-Infinity", '"-Infinity"'),
        (16, "f", "false"),
        (3802, '{"a": [1]}', '{"a": [1]}'),
        (1184, "2026-01-02 03:04:05.6+00", '"2026-01-02T03:04:05.6Z"'),
        (1114, "2026-01-02 03:04:05", '"2026-01-02T03:04:05"'),
        (1184, "infinity", '"infinity"'),
        (1007, "{1,2}", '"{1,2}"'),
        (25, "ä\n", '"ä\\n"'),
    ],
)
def test_values_as_json(kind: int, text: str, told: str) -> None:
    assert json_text(kind, text.encode()) == told


@pytest.mark.parametrize(
    ("xid", "lsn", "seen"),
    [(99, 5, True), (100, 5, False), (104, 5, True), (107, 5, False), (110, 5, False), (99, 10, False)],
)
def test_what_a_snapshot_has_seen(xid: int, lsn: int, seen: bool) -> None:
    assert Seen("100:110:100,107", until=10).has(xid, lsn) is seen


def test_transaction_numbers_go_round() -> None:
    snapshot = Seen(f"{(3 << 32) - 4}:{(3 << 32) + 4}:{(3 << 32) - 4}", until=10)
    assert (
        snapshot.has(0xFFFFFFF0, 1)
        and not snapshot.has(0xFFFFFFFC, 1)
        and snapshot.has(2, 1)
        and not snapshot.has(5, 1)
    )
