"""`ottla pipeline test`: given rows instead of sources, and what comes out compared with what is expected.

The steps run as they will in earnest, as streaming queries; only sources are files of the given rows, a micro-batch
each, and sinks are not written.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.pipeline.connectors.port import DataFrame, Shape, SparkSession
from ottla.pipeline.flow import build
from ottla.pipeline.queries import Query, queries
from ottla.pipeline.spec import SourceEntry, Spec, Test


@dataclass(frozen=True, slots=True)
class Outcome:
    test: Test
    problems: tuple[str, ...]
    seconds: float


def run_test(spec: Spec, test: Test, spark: SparkSession, folder: Path) -> Outcome:
    """`folder` is for what the test needs on the way, and is emptied afterwards."""
    began = time.monotonic()
    try:
        rounds = test.given if isinstance(test.given, list) else [test.given]
        flow = build(spec, spark, lambda entry, session: _given(session, entry, rounds, folder))
        found: dict[str, list[dict[str, Any]]] = {}
        wanted = [query for query in queries(flow) if any(sink.name in test.expected for sink in query.sinks)]
        _run_together(wanted, folder, found)
        problems = tuple(
            line for name, rows in test.expected.items() for line in differences(name, rows, found.get(name, []))
        )
        return Outcome(test, problems, time.monotonic() - began)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _given(spark: SparkSession, entry: SourceEntry, rounds: list[Mapping[str, Any]], folder: Path) -> DataFrame:
    """Lines of JSON, a file for each round; a file is a micro-batch. A table may be asked for again in each of them."""
    place = folder / "given" / entry.name
    is_there = place.exists()
    place.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate([] if is_there else rounds):
        file = place / f"{number:05}.json"
        lines = (json.dumps(row, default=str) for row in entry.source.test_rows(one.get(entry.name, [])))
        file.write_text("".join(f"{line}\n" for line in lines))
        os.utime(file, (number + 1, number + 1))  # Spark takes the older ones first
    schema = entry.source.test_schema
    if entry.shape is Shape.TABLE:
        return _parsed(spark.read.text(str(place)), schema) if schema else spark.read.json(str(place))
    stream = spark.readStream.option("maxFilesPerTrigger", 1).option("latestFirst", "false")
    if schema:
        return _parsed(stream.text(str(place)), schema)
    return stream.schema(spark.read.json(str(place)).schema).json(str(place))


def _parsed(lines: DataFrame, schema: str) -> DataFrame:
    """Times and numbers may be texts, as in JSON."""
    from pyspark.sql.functions import from_json

    return lines.select(from_json("value", schema, {"mode": "FAILFAST"}).alias("row")).select("row.*")


def _run_together(wanted: list[Query], folder: Path, found: dict[str, list[dict[str, Any]]]) -> None:
    """At the same time, as in earnest: each spends most of its time with what only one core is needed for."""
    running: list[Any] = []
    try:
        for query in wanted:
            running.append(_started(query, folder, found))
        for one in running:
            one.awaitTermination()
    finally:
        for one in running:
            one.stop()


def _started(query: Query, folder: Path, found: dict[str, list[dict[str, Any]]]) -> Any:
    def write(frame: DataFrame, number: int) -> None:
        with query.parts(frame) as (rows, _):
            for sink in query.sinks:
                found.setdefault(sink.name, []).extend(sink.sink.as_test_rows(rows))

    writer = query.frame.writeStream.outputMode(query.mode).foreachBatch(write)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint" / query.view))
    return writer.trigger(availableNow=True).start()


def differences(sink: str, expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[str]:
    """Each row is compared by the columns that are expected of it; in any order, each as often as it is there."""
    left, missing = list(found), list[str]()
    for row in sorted(expected, key=len, reverse=True):  # those that are particular choose first
        wanted = _text(row)
        place = next((n for n, one in enumerate(left) if row.keys() <= one.keys() and _text(one, row) == wanted), None)
        if place is None:
            missing.append(wanted)
        else:
            del left[place]
    named = {name for row in expected for name in row}
    more = [_text(row, named & row.keys() if named else row) for row in left]
    return [f"{sink}: expected and not there: {row}" for row in missing] + [
        f"{sink}: there and not expected: {row}" for row in more
    ]


def _text(row: Mapping[str, Any], columns: Iterable[str] | None = None) -> str:
    names = sorted(row if columns is None else columns)
    return json.dumps({name: _plain(row[name]) for name in names}, ensure_ascii=False)


def _plain(value: Any) -> Any:
    """Times as texts in one way, whole numbers as such, and the same for what is in lists and rows."""
    from datetime import UTC, date, datetime
    from decimal import Decimal

    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in sorted(value.items())}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes | bytearray):
        return bytes(value).decode("utf-8", "backslashreplace")
    if isinstance(value, float | Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, str) and len(value) >= 10 and value[4:5] == "-":
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return value
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    return str(value) if value is not None and not isinstance(value, bool | int | str) else value
