"""decode and encode: text and JSON, whole columns at once."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.spark.topics import committed, new_topic, write

from ottla.spark.formats import json_in, json_out, text
from ottla.testing.node import RunningNode

TEXTS = st.text(alphabet=st.characters(codec="utf-8"), max_size=12)
OBJECTS = st.fixed_dictionaries(
    {
        "id": st.none() | st.integers(-(2**63), 2**63 - 1),
        "name": st.none() | TEXTS,
        "share": st.none() | st.floats(allow_nan=False, allow_infinity=False),
        "is_new": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | TEXTS, max_size=3),
        "inner": st.none() | st.fixed_dictionaries({"n": st.none() | st.integers(-100, 100)}),
    }
)
KIND = pa.struct(
    [
        ("id", pa.int64()),
        ("name", pa.string()),
        ("share", pa.float64()),
        ("is_new", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("inner", pa.struct([("n", pa.int32())])),
    ]
)


def without_nulls(found: dict[str, Any] | None) -> Any:
    if found is None:
        return None
    kept = {name: value for name, value in found.items() if value is not None}
    if "inner" in kept:
        kept["inner"] = without_nulls(kept["inner"])
    return kept


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | OBJECTS, min_size=1, max_size=8), st.integers(0, 7))
def test_json_is_written_as_anybody_reads_it_and_read_as_anybody_writes_it(
    objects: list[dict[str, Any] | None], cut: int
) -> None:
    column = pa.array(objects, KIND).slice(min(cut, len(objects) - 1))
    rows = column.to_pylist()
    written = json_out.encode(column)
    assert [None if one is None else json.loads(one) for one in written.to_pylist()] == list(map(without_nulls, rows))
    assert json_in.decoding(KIND)(written).to_pylist() == rows
    pretty = pa.array([None if row is None else json.dumps(row, indent=1).encode() for row in rows], pa.binary())
    assert json_in.decoding(KIND)(pretty).to_pylist() == rows


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, 4, 5, 6, UTC), '{"v":"2026-01-02T03:04:05.000006Z"}'),
        (pa.timestamp("us"), datetime(2026, 1, 2, 3, 4, 5), '{"v":"2026-01-02T03:04:05.000000"}'),
        (pa.date32(), date(2026, 1, 2), '{"v":"2026-01-02"}'),
        (pa.decimal128(10, 2), Decimal("-1.25"), '{"v":-1.25}'),
        (pa.list_(pa.date32()), [date(2026, 1, 2), None], '{"v":["2026-01-02",null]}'),
        (pa.list_(pa.list_(pa.int8())), [[1], [], None], '{"v":[[1],[],null]}'),
        (pa.string(), 'a"\\\n\x00\x1f', r'{"v":"a\"\\\n\u0000\u001f"}'),
    ],
)
def test_json_of_each_type(kind: Any, value: Any, written: str) -> None:
    whole = pa.struct([("v", kind)])
    column = pa.array([{"v": value}], whole)
    assert json_out.encode(column).to_pylist() == [written.encode()]
    assert json_in.decoding(whole)(pa.array([written.encode()])).to_pylist() == [{"v": value}]


def test_json_of_maps_and_of_what_is_no_number() -> None:
    maps = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64()))
    assert json_out.encode(maps).to_pylist() == [b'{"a":1,"b":null}', None, b"{}"]
    assert json_out.encode(maps.slice(2)).to_pylist() == [b"{}"]
    odd = pa.array([float("nan"), float("inf"), float("-inf"), 1.5])
    assert json_out.encode(odd).to_pylist() == [b'"NaN"', b'"Infinity"', b'"-Infinity"', b"1.5"]


@pytest.mark.parametrize(
    "values",
    [
        [b'{"id": 1}{"id": 2}', b""],
        [b'{"id": 1}{"id": 2}'],
        [b'{"id": "x"}'],
        [b"[1]"],
        [b'{"id": 1', b'{"id": 2}'],
        [b'{"name": "', b'"}'],
        [b'{"name": "\xff"}'],
        [b""],
    ],
)
def test_what_is_not_one_object_each_is_refused(values: list[bytes]) -> None:
    with pytest.raises(ValueError):
        json_in.decoding(KIND)(pa.array(values, pa.binary()))


def test_text() -> None:
    assert text.decode(pa.array(["é".encode(), None])).to_pylist() == ["é", None]
    assert text.encode(pa.array([17, None])).to_pylist() == [b"17", None]
    with pytest.raises(ValueError):
        text.decode(pa.array([b"\xff"]))


# -- in Spark


def reading(spark: Any, node: RunningNode, topic: str, **options: str) -> Any:
    reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.address).option("subscribe", topic)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load()


def test_values_come_decoded(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(
        node,
        topic,
        [b'{"id": 1, "at": "2026-01-01T00:00:00Z", "more": 0}', None, b'{"tags": ["a"]}'],
        key="schl\u00fcssel",
    )
    frame = reading(
        spark,
        node,
        topic,
        decode="json",
        decodeSchema="id BIGINT, at TIMESTAMP, tags ARRAY<STRING>",
        decodeKey="string",
    )
    rows = frame.selectExpr("key", "value.id", "CAST(value.at AS STRING) at", "value.tags", "value IS NULL n").collect()
    assert [tuple(row) for row in rows] == [
        ("schl\u00fcssel", 1, "2026-01-01 00:00:00", None, False),
        ("schl\u00fcssel", None, None, None, True),
        ("schl\u00fcssel", None, None, ["a"], False),
    ]
    assert frame.where("value.id = 1").count() == 1


def test_a_record_that_cannot_be_decoded_is_named(spark: Any, node: RunningNode) -> None:
    topic = new_topic(node)
    write(node, topic, [*(b'{"id": %d}' % n for n in range(300)), b'{"id": "seven"}', b'{"id": 8}'])
    strict = reading(spark, node, topic, decode="json", decodeSchema="id INT")
    with pytest.raises(Exception, match=f"{topic}-0: the value of the record at offset 300 cannot be decoded as json"):
        strict.collect()
    lenient = reading(spark, node, topic, decode="json", decodeSchema="id INT", undecodable="null")
    assert lenient.selectExpr("sum(value.id)", "count(value)", "count(*)").first() == (44858, 301, 302)


def test_what_was_encoded_is_decoded(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node), new_topic(node)
    write(node, source, [b'{"id": 1, "name": "a"}', b'{"id": 2}'], key="5")
    reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", node.address)
    reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
    frame = reader.option("decode", "json").option("decodeSchema", "id BIGINT, name STRING").load()
    frame = frame.selectExpr(
        "CAST(CAST(key AS STRING) AS INT) AS key", "struct(value.id * 10 AS id, value.name) AS value"
    )
    writer = frame.writeStream.format("ottla").option("kafka.bootstrap.servers", node.address).option("topic", target)
    writer = writer.option("encode", "json").option("encodeKey", "string").option("checkpointLocation", str(tmp_path))
    writer.trigger(availableNow=True).start().awaitTermination()
    assert committed(node, target) == [b'{"id":10,"name":"a"}', b'{"id":20}']
    assert reading(spark, node, target, decodeKey="string").select("key").first() == ("5",)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decode": "jsn"}, "decode is string or json, not 'jsn'; did you mean json"),
        ({"decode": "json"}, "decode=json needs the option decodeSchema"),
        ({"decodeSchema": "id INT"}, "decodeSchema is for decode=json, and there is no decode"),
        ({"decode": "string", "decodeSchema": "id INT"}, "decodeSchema is for decode=json, not for decode=string"),
        ({"decode": "json", "decodeSchema": "m MAP<STRING, INT>"}, "there is no way from or to JSON for map"),
        ({"decode": "string", "undecodable": "skip"}, "undecodable is fail, null or keep"),
        ({"decodKey": "string"}, "no option decodkey; did you mean decodeKey"),
    ],
)
def test_wrong_options_for_decoding(spark: Any, node: RunningNode, options: dict[str, str], says: str) -> None:
    with pytest.raises(Exception, match=says):
        reading(spark, node, new_topic(node), **options).collect()


@pytest.mark.parametrize(
    ("column", "options", "says"),
    [
        ("struct(1 AS a)", {}, "must be binary or string, not struct<a:int>; the option encode=json"),
        ("struct(1 AS a)", {"encode": "string"}, "it has parts; encode=json writes them"),
        ("struct(X'00' AS a)", {"encode": "json"}, "there is no way from or to JSON for binary"),
        ("'a'", {"encodeKey": "json"}, "encodeKey is for a column key, and there is none"),
        ("'a'", {"encode": "avro"}, "encode is string or json"),
    ],
)
def test_wrong_options_for_encoding(
    spark: Any, node: RunningNode, column: str, options: dict[str, str], says: str
) -> None:
    writer = spark.sql(f"SELECT {column} AS value").write.format("ottla").mode("append").option("topic", "t")
    for name, value in options.items():
        writer = writer.option(name, value)
    with pytest.raises(Exception, match=says):
        writer.option("kafka.bootstrap.servers", node.address).save()
