from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, sink, source
from tests.tier.s3 import S3

from ottla.pipeline.connectors.delta_sink import DeltaSink
from ottla.pipeline.connectors.delta_source import DeltaSource


def _run(frame: Any, folder: Path) -> list[Any]:
    """Rows that a stream brings until there is no more."""
    found: list[Any] = []

    def take(rows: Any, _: int) -> None:
        found.extend(tuple(row) for row in rows.collect())

    query = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "checkpoint"))
    query.trigger(availableNow=True).start().awaitTermination(60)
    return sorted(found, key=repr)


def test_a_table_is_read_as_it_is(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="t", write="upsert", key=("id",), partition_by=("day",))
    rows = spark.createDataFrame([(1, "a"), (2, "b"), (3, None)], "id INT, name STRING")
    dated = rows.selectExpr("*", "DATE '2026-01-02' + id AS day", "TIMESTAMP '2026-01-02 03:04:05' AS at")
    out.write(dated, batch(0))
    table = source(DeltaSource, tmp_path, delta="t").table(spark)
    out.write(
        spark.createDataFrame([(2, True)], "id INT, fresh BOOLEAN").selectExpr(
            "*", "'x' AS name", "day(DATE '2026-01-01') AS n", "DATE '2027-01-01' AS day"
        ),
        batch(1),
    )
    assert sorted(tuple(row) for row in table.select("id", "name", "day").collect())[0][2].isoformat() == "2026-01-03"
    again = source(DeltaSource, tmp_path, delta="t").table(spark)
    assert sorted(again.selectExpr("id", "name", "CAST(day AS STRING)", "fresh", "CAST(at AS STRING)").collect()) == [
        (1, "a", "2026-01-03", None, "2026-01-02 03:04:05"),
        (2, "x", "2027-01-01", True, "2026-01-02 03:04:05"),
        (3, None, "2026-01-05", None, "2026-01-02 03:04:05"),
    ]


def test_a_stream_has_what_is_there_and_then_what_is_appended(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="t")
    out.write(spark.range(3), batch(0))
    out.write(spark.range(3, 5), batch(1))
    frame = source(DeltaSource, tmp_path, delta="t").stream(spark)
    assert _run(frame, tmp_path) == [(n,) for n in range(5)]
    assert _run(frame, tmp_path) == []
    out.write(spark.range(5, 7), batch(2))
    assert _run(frame, tmp_path) == [(5,), (6,)]


def test_a_stream_fails_when_rows_are_changed_unless_it_is_told_not_to(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="t", write="upsert", key=("id",))
    out.write(spark.createDataFrame([(1, "a")], "id INT, name STRING"), batch(0))
    frame = source(DeltaSource, tmp_path, delta="t").stream(spark)
    assert _run(frame, tmp_path) == [(1, "a")]
    out.write(spark.createDataFrame([(1, "b")], "id INT, name STRING"), batch(1))
    with pytest.raises(Exception, match="changes or deletes rows; changes: ignore"):
        _run(frame, tmp_path)
    assert _run(source(DeltaSource, tmp_path, delta="t", changes="ignore").stream(spark), tmp_path) == []


def test_a_table_in_an_object_store(spark: Any, tmp_path: Path, s3: S3) -> None:
    sink(DeltaSink, tmp_path, delta=f"{s3.url}/src", storage=s3.options).write(spark.range(4), batch(0))
    made = source(DeltaSource, tmp_path, delta=f"{s3.url}/src", storage=s3.options)
    assert made.table(spark).count() == 4
    assert _run(made.stream(spark), tmp_path) == [(n,) for n in range(4)]


def test_a_table_that_is_not_there(tmp_path: Path) -> None:
    (problem,) = source(DeltaSource, tmp_path, delta="nothing").check_there()
    assert problem.message == f"there is no Delta table at {tmp_path / 'nothing'}"
