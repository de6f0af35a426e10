from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, place, problems_of, sink, source
from tests.tier.s3 import S3

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors import iceberg_compaction, iceberg_sink
from ottla.pipeline.connectors.iceberg_catalog import open_catalog
from ottla.pipeline.connectors.iceberg_sink import IcebergSink
from ottla.pipeline.connectors.iceberg_source import IcebergSource

_CATALOG = {"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "warehouse"}


def _sink(folder: Path, **options: Any) -> Any:
    return sink(IcebergSink, folder, **{"iceberg": "shop.orders", "catalog": _CATALOG} | options)


def _table(folder: Path, catalog: dict[str, str] = _CATALOG) -> Any:
    return open_catalog(catalog, place(folder)).load_table("shop.orders")


def _rows(folder: Path, *columns: str, catalog: dict[str, str] = _CATALOG) -> list[tuple[Any, ...]]:
    found = _table(folder, catalog).scan().to_arrow().sort_by("id")
    return [tuple(row[name] for name in columns or row) for row in found.to_pylist()]


def test_rows_are_appended_and_a_repeated_batch_is_not(spark: Any, tmp_path: Path) -> None:
    out = _sink(tmp_path)
    first = spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, name STRING")
    second = spark.createDataFrame([(3, "c")], "id BIGINT, name STRING")
    for rows, number in ((first, 0), (first, 0), (second, 1), (first, 0)):
        out.write(rows, batch(number))
    out.write(second, batch(1, "another query"))
    assert _rows(tmp_path) == [(1, "a"), (2, "b"), (3, "c"), (3, "c")]
    assert _table(tmp_path).current_snapshot().summary["ottla.batch"] == "1"


def test_rows_are_changed_and_deleted_by_key(spark: Any, tmp_path: Path) -> None:
    out = _sink(tmp_path, write="upsert", key=("id", "land"))
    schema = "id BIGINT, land STRING, n INT"
    out.write(spark.createDataFrame([(1, "de", 1), (2, "de", 2), (3, "at", 3)], schema), batch(0))
    changed = spark.createDataFrame([(2, "de", None), (3, "at", 33), (3, "de", 4), (5, "de", None)], schema)
    for _ in range(2):
        out.write(changed, batch(1))
    assert sorted(_rows(tmp_path)) == [(1, "de", 1), (3, "at", 33), (3, "de", 4)]
    single = _sink(tmp_path, write="upsert", key=("id",), iceberg="shop.single")
    single.write(spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING"), batch(0))
    single.write(spark.createDataFrame([(1, None), (2, "B"), (2, "BB")], "id INT, name STRING").coalesce(1), batch(1))
    found = open_catalog(_CATALOG, place(tmp_path)).load_table("shop.single").scan().to_arrow().to_pylist()
    assert found == [{"id": 2, "name": "BB"}]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_of_two_drivers_that_write_the_same_batch_one_wins(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    options: dict[str, Any] = {"write": mode, "key": ("id",) if mode == "upsert" else ()}
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    out = _sink(tmp_path, **options)
    out.write(rows.selectExpr("0 AS id", "name"), batch(0))
    looked, asked = iceberg_sink.has_batch, 0

    def overtaken(table: Any, mine: Any) -> bool:
        nonlocal asked
        found = looked(table, mine)
        asked += 1
        if asked == 2:
            _sink(tmp_path, **options).write(rows, batch(1))
        return found

    monkeypatch.setattr(iceberg_sink, "has_batch", overtaken)
    out.write(rows, batch(1))
    assert asked > 2 and _rows(tmp_path) == [(0, "a"), (1, "a")]


def test_others_may_write_meanwhile(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    out = _sink(tmp_path)
    out.write(rows.selectExpr("0 AS id", "name"), batch(0))
    write, times = IcebergSink._write, 0

    def disturbed(self: IcebergSink, table: Any, changed: Any, mine: Any) -> None:
        nonlocal times
        times += 1
        if times == 1:
            _table(tmp_path).append(rows.selectExpr("9 AS id", "name").toArrow())
        write(self, table, changed, mine)

    monkeypatch.setattr(IcebergSink, "_write", disturbed)
    out.write(rows, batch(1))
    assert times == 2 and _rows(tmp_path) == [(0, "a"), (1, "a"), (9, "a")]


def test_columns_that_are_new_in_mid_stream_and_types_that_change(spark: Any, tmp_path: Path) -> None:
    out = _sink(tmp_path)
    out.write(spark.createDataFrame([(1, "a")], "id BIGINT, name STRING"), batch(0))
    out.write(spark.createDataFrame([(2, [1])], "id INT, list ARRAY<INT>"), batch(1))
    assert _rows(tmp_path, "id", "name", "list") == [(1, "a", None), (2, None, [1])]
    with pytest.raises(OttlaError, match=r"id is string in rows and int64 in the table"):
        out.write(spark.createDataFrame([("x",)], "id STRING"), batch(2))
    with pytest.raises(OttlaError, match=r"has no column more \(int32\)"):
        _sink(tmp_path, new_columns="refuse").write(spark.createDataFrame([(3, 3)], "id INT, more INT"), batch(2))


def test_files_are_divided(spark: Any, tmp_path: Path) -> None:
    out = _sink(tmp_path, partition_by=("day(at)", "land", "bucket(4, id)"))
    rows = spark.createDataFrame([(1, "de"), (2, "at"), (3, None)], "id INT, land STRING")
    out.write(rows.selectExpr("*", "TIMESTAMP '2026-01-02 03:04:05' AS at"), batch(0))
    table = _table(tmp_path)
    assert [(one.name, str(one.transform)) for one in table.spec().fields] == [
        ("at_day", "day"), ("land", "identity"), ("id_bucket", "bucket[4]"),
    ]  # fmt: skip
    assert len(table.scan(row_filter="land = 'de'").to_arrow()) == 1 and len(_rows(tmp_path)) == 3


def test_files_may_be_divided_by_what_is_the_records_own(spark: Any, tmp_path: Path) -> None:
    out = _sink(tmp_path, partition_by=("day(_at)",))
    out.write(spark.sql("SELECT 1 AS id, TIMESTAMP '2026-01-02 03:04:05' AS _at, 7L AS _offset"), batch(0))
    table = _table(tmp_path)
    assert [one.name for one in table.spec().fields] == ["_at_day"] and table.schema().column_names == ["id", "_at"]


@pytest.mark.parametrize("write", ["append", "upsert"])
def test_small_files_are_put_together_partition_by_partition(spark: Any, tmp_path: Path, write: str) -> None:
    key = ("id",) if write == "upsert" else ()
    out = _sink(tmp_path, write=write, key=key, partition_by=("land",), compact_every=10)
    for number in range(10):
        rows = [(number, "de"), (number + 100, "at")] if number < 9 else [(9, "de"), (0, "de")]
        out.write(spark.createDataFrame(rows, "id INT, land STRING"), batch(number))
    table = _table(tmp_path)
    lands = [str(task.file.partition[0]) for task in table.scan().plan_files()]
    assert sorted(lands) == ["at", "de"]
    found = [one for (one,) in _rows(tmp_path, "id")]
    assert found == sorted([*([] if key else [0]), *range(10), *range(100, 109)])
    out.write(spark.createDataFrame([(9, "de")], "id INT, land STRING"), batch(9))
    assert [one for (one,) in _rows(tmp_path, "id")] == found  # the batch is known still


def test_files_are_put_together_another_time_if_somebody_writes_meanwhile(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    out = _sink(tmp_path, compact_every=10)
    plan = iceberg_compaction._groups

    def overtaken(tasks: Any) -> Any:
        groups = plan(tasks)
        _table(tmp_path).append(spark.sql("SELECT 99 AS id").toArrow())
        return groups

    monkeypatch.setattr(iceberg_compaction, "_groups", overtaken)
    for number in range(10):
        out.write(spark.sql(f"SELECT {number} AS id"), batch(number))
    assert [one for (one,) in _rows(tmp_path)] == [*range(10), 99]
    assert "were not put together" in caplog.text


def test_a_table_is_read_as_it_is(spark: Any, tmp_path: Path) -> None:
    _sink(tmp_path).write(spark.sql("SELECT 1 AS id, 'a' AS name, TIMESTAMP '2026-01-02 03:04:05' AS at"), batch(0))
    made = source(IcebergSource, tmp_path, iceberg="shop.orders", catalog=_CATALOG)
    assert [tuple(row) for row in made.table(spark).selectExpr("id", "name", "CAST(at AS STRING)").collect()] == [
        (1, "a", "2026-01-02 03:04:05")
    ]
    (problem,) = source(IcebergSource, tmp_path, iceberg="shop.nothing", catalog=_CATALOG).check_there()
    assert problem.message == "there is no Iceberg table shop.nothing"


def test_a_table_in_an_object_store(spark: Any, tmp_path: Path, s3: S3) -> None:
    catalog = {
        **_CATALOG,
        "warehouse": f"{s3.url}/iceberg",
        "s3.endpoint": s3.options["aws_endpoint"],
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    out = _sink(tmp_path, catalog=catalog, write="upsert", key=("id",))
    out.write(spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING"), batch(0))
    for _ in range(2):
        out.write(spark.createDataFrame([(2, None), (3, "c")], "id INT, name STRING"), batch(1))
    assert _rows(tmp_path, catalog=catalog) == [(1, "a"), (3, "c")]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("iceberg: orders", "with its namespace"),
        ("iceberg: a.b\npartition-by: dya(at)", "there is no dya() to divide files by; did you mean day?"),
        ("iceberg: a.b\nwrite: upsert", "needs a key"),
        ("iceberg: a.b\ncatalogue: {type: sql}", "did you mean catalog?"),
    ],
)
def test_options_that_are_wrong(text: str, told: str) -> None:
    (problem,) = problems_of(IcebergSink, text)
    assert told in problem.message
