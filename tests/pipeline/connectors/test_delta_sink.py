from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, problems_of, sink
from tests.tier.s3 import S3

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.delta_sink import DeltaSink
from ottla.pipeline.connectors.storage import Location


def _rows(where: Path | Location, *columns: str, order: str = "id") -> list[tuple[Any, ...]]:
    from deltalake import DeltaTable

    if isinstance(where, Path):
        where = Location(str(where))
    table = DeltaTable(where.url, storage_options=where.settings() or None).to_pyarrow_table()
    names = columns or tuple(table.column_names)
    return [tuple(row[name] for name in names) for row in table.sort_by(order).to_pylist()]


def _version(folder: Path) -> int:
    from deltalake import DeltaTable

    return int(DeltaTable(str(folder)).version())


def test_rows_are_appended_and_a_repeated_batch_is_not(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table")
    first = spark.createDataFrame([(1, "a"), (2, "b")], "id BIGINT, name STRING")
    second = spark.createDataFrame([(3, "c")], "id BIGINT, name STRING")
    out.write(first, batch(0))
    out.write(first, batch(0))
    out.write(second, batch(1))
    out.write(first, batch(0))
    out.write(second, batch(1, "another query"))
    assert _rows(tmp_path / "table") == [(1, "a"), (2, "b"), (3, "c"), (3, "c")]


def test_a_batch_without_rows_leaves_no_version(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table")
    rows = spark.createDataFrame([(1,)], "id INT")
    out.write(rows, batch(0))
    before = _version(tmp_path / "table")
    out.write(rows.where("id > 1"), batch(1))
    assert _version(tmp_path / "table") == before


def test_a_driver_that_dies_before_the_commit_leaves_nothing_that_is_seen(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([(1,), (2,)], "id INT")
    dying = sink(DeltaSink, tmp_path, delta="table")
    with monkeypatch.context() as patch:

        def dies(*_: Any) -> None:
            raise KeyboardInterrupt

        patch.setattr(dying, "_commit", dies)
        with pytest.raises(KeyboardInterrupt):
            dying.write(rows, batch(0))
    assert list((tmp_path / "table").glob("*.parquet"))
    assert _rows(tmp_path / "table") == []
    sink(DeltaSink, tmp_path, delta="table").write(rows, batch(0))
    assert _rows(tmp_path / "table") == [(1,), (2,)]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_of_two_drivers_that_write_the_same_batch_one_wins(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """The other one has looked whether the batch is there before, and commits after."""
    from ottla.pipeline.connectors import delta_sink

    options = {"delta": "table", "write": mode, "key": ("id",) if mode == "upsert" else ()}
    rows = spark.createDataFrame([(1, "a")], "id INT, name STRING")
    out = sink(DeltaSink, tmp_path, **options)
    out.write(rows.where("id = 1").selectExpr("0 AS id", "name"), batch(0))
    asked = 0
    looked = delta_sink.has_batch

    def overtaken(table: Any, mine: Any) -> bool:
        nonlocal asked
        found = looked(table, mine)
        asked += 1
        if asked == 2:  # the last look before the commit
            sink(DeltaSink, tmp_path, **options).write(rows, batch(1))
        return found

    monkeypatch.setattr(delta_sink, "has_batch", overtaken)
    out.write(rows, batch(1))
    assert asked > 2
    assert _rows(tmp_path / "table") == [(0, "a"), (1, "a")]


def test_rows_are_changed_and_deleted_by_key(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write="upsert", key=("id",))
    schema = "id BIGINT, name STRING, n INT"
    out.write(spark.createDataFrame([(1, "a", 1), (2, "b", 2), (3, "c", 3)], schema), batch(0))
    changed = spark.createDataFrame([(2, None, None), (3, "C", None), (4, "d", 4), (5, None, None)], schema)
    out.write(changed, batch(1))
    out.write(changed, batch(1))
    assert _rows(tmp_path / "table") == [(1, "a", 1), (3, "C", None), (4, "d", 4)]


def test_the_last_row_of_a_key_counts(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write="upsert", key=("id",))
    rows = [(n % 3, f"{n}") for n in range(30)] + [(0, None)]
    out.write(spark.createDataFrame(rows, "id INT, name STRING").coalesce(1), batch(0))
    assert _rows(tmp_path / "table") == [(1, "28"), (2, "29")]


def test_order_and_deletes_by_columns_that_are_not_written(spark: Any, tmp_path: Path) -> None:
    out = sink(
        DeltaSink, tmp_path, delta="table", write="upsert", key=("id",), delete_when="op = 'd'", order_by="_at",
        leave_out=("op",),
    )  # fmt: skip
    schema = "id INT, name STRING, op STRING, _at INT"
    out.write(spark.createDataFrame([(1, "new", "u", 9), (1, "old", "u", 3), (2, "x", "c", 1)], schema), batch(0))
    assert _rows(tmp_path / "table") == [(1, "new"), (2, "x")]
    out.write(spark.createDataFrame([(1, "last", "d", 9), (2, "y", "u", 5), (2, "z", "d", 4)], schema), batch(1))
    assert _rows(tmp_path / "table") == [(2, "y")]


def test_a_key_that_is_null_is_an_error_that_says_what_to_do(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write="upsert", key=("id",))
    with pytest.raises(OttlaError, match=r"1 of 2 rows have no id.*WHERE id IS NOT NULL"):
        out.write(spark.createDataFrame([(1, "a"), (None, "b")], "id INT, name STRING"), batch(0))


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_columns_that_are_new_in_mid_stream_are_added(spark: Any, tmp_path: Path, mode: str) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write=mode, key=("id",) if mode == "upsert" else ())
    out.write(spark.createDataFrame([(1, "a")], "id BIGINT, name STRING"), batch(0))
    out.write(spark.createDataFrame([(2, True, [1, 2])], "id INT, fresh BOOLEAN, list ARRAY<INT>"), batch(1))
    out.write(spark.createDataFrame([(3, "c")], "id BIGINT, name STRING"), batch(2))
    assert _rows(tmp_path / "table", "id", "name", "fresh", "list") == [
        (1, "a", None, None),
        (2, None, True, [1, 2]),
        (3, "c", None, None),
    ]


@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_column_that_changes_its_type_is_refused(spark: Any, tmp_path: Path, mode: str) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write=mode, key=("id",) if mode == "upsert" else ())
    out.write(spark.createDataFrame([(1, 5)], "id INT, n INT"), batch(0))
    with pytest.raises(OttlaError, match=r"n is string in rows and int32 in the table.*CAST"):
        out.write(spark.createDataFrame([(2, "x")], "id INT, n STRING"), batch(1))
    assert _rows(tmp_path / "table") == [(1, 5)]


def test_new_columns_may_be_refused(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", new_columns="refuse")
    out.write(spark.createDataFrame([(1,)], "id INT"), batch(0))
    with pytest.raises(OttlaError, match=r"has no column name \(string\).*new-columns: add"):
        out.write(spark.createDataFrame([(2, "x")], "id INT, name STRING"), batch(1))


def test_files_are_divided_by_columns(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    out = sink(DeltaSink, tmp_path, delta="table", partition_by=("land", "day"))
    values = [(1, "de"), (2, "a b/ü%?=1"), (3, None), (4, "de"), (5, "")]
    rows = spark.createDataFrame(values, "id INT, land STRING").selectExpr("*", "DATE '2026-01-02' AS day")
    out.write(rows, batch(0))
    found = _rows(tmp_path / "table", "id", "land")
    assert found[:4] == values[:4]
    assert found[4] in ((5, ""), (5, None))  # Delta has no empty text in a partition
    table = DeltaTable(str(tmp_path / "table"))
    assert table.metadata().partition_columns == ["land", "day"]
    only = table.to_pyarrow_table(filters=[("land", "=", "de")])
    assert sorted(only["id"].to_pylist()) == [1, 4]
    assert spark.read.parquet(*table.file_uris()).count() == 5


def test_upserts_into_a_table_that_is_divided(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="table", write="upsert", key=("id",), partition_by=("land",))
    out.write(spark.createDataFrame([(1, "de", 1), (2, "at", 1)], "id INT, land STRING, n INT"), batch(0))
    out.write(spark.createDataFrame([(1, "ch", 2), (2, None, None)], "id INT, land STRING, n INT"), batch(1))
    assert _rows(tmp_path / "table", "id", "land", "n") == [(1, "ch", 2)]


def test_all_kinds_of_values_come_back(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql(
        "SELECT 1 AS id, true AS yes, 2S AS short, 3L AS long, 1.5F AS float, 2.5D AS double, 12.34BD AS decimal, "
        "X'0102' AS bytes, DATE '2026-03-04' AS day, TIMESTAMP '2026-03-04 05:06:07.123456' AS at, "
        "named_struct('a', 1, 'b', 'x') AS struct, array(1, 2) AS list, map('k', 1) AS map, 'ä' AS text, "
        "CAST(NULL AS STRING) AS nothing"
    )
    for mode, key in (("append", ()), ("upsert", ("id",))):
        out = sink(DeltaSink, tmp_path, delta=mode, write=mode, key=key)
        out.write(rows, batch(0))
        out.write(rows.selectExpr("2 AS id", "* EXCEPT (id)"), batch(1))
    assert _rows(tmp_path / "append") == _rows(tmp_path / "upsert")
    (first, second) = _rows(tmp_path / "append")
    assert first[1:] == second[1:]
    assert first[6].as_tuple().digits == (1, 2, 3, 4) and first[7] == b"\x01\x02"
    assert first[9].isoformat() == "2026-03-04T05:06:07.123456+00:00"


def test_the_log_tells_least_and_greatest_values(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    out = sink(DeltaSink, tmp_path, delta="table")
    rows = spark.range(100).selectExpr(
        "id", "CAST(id AS STRING) AS name", "TIMESTAMP '2026-01-01' + id * INTERVAL 1 HOUR AS at"
    )
    out.write(rows.coalesce(1), batch(0))
    (told,) = DeltaTable(str(tmp_path / "table")).get_add_actions(flatten=True).to_struct_array().to_pylist()
    assert (told["num_records"], told["min.id"], told["max.id"], told["null_count.id"]) == (100, 0, 99, 0)
    assert told["min.at"].isoformat().startswith("2026-01-01T00:00")
    table = DeltaTable(str(tmp_path / "table"))
    assert table.to_pyarrow_dataset().count_rows() == 100


def test_small_files_are_put_together(spark: Any, tmp_path: Path) -> None:
    from deltalake import DeltaTable

    from ottla.pipeline.options import Span

    out = sink(DeltaSink, tmp_path, delta="table", compact_every=4, keep=Span(0))
    for number in range(4):
        out.write(spark.range(number * 10, number * 10 + 10), batch(number))
    table = DeltaTable(str(tmp_path / "table"))
    assert len(table.file_uris()) == 1
    assert len(list((tmp_path / "table").glob("*.parquet"))) == 1
    assert _rows(tmp_path / "table") == [(n,) for n in range(40)]
    out.write(spark.range(30, 40), batch(3))
    assert len(_rows(tmp_path / "table")) == 40


def test_a_table_in_an_object_store(spark: Any, tmp_path: Path, s3: S3) -> None:
    where = Location(f"{s3.url}/delta", s3.options)
    out = sink(DeltaSink, tmp_path, delta=where.url, storage=s3.options, write="upsert", key=("id",))
    out.write(spark.createDataFrame([(1, "a"), (2, "b")], "id INT, name STRING"), batch(0))
    out.write(spark.createDataFrame([(2, None), (3, "c")], "id INT, name STRING"), batch(1))
    out.write(spark.createDataFrame([(2, "again")], "id INT, name STRING"), batch(1))
    assert _rows(where) == [(1, "a"), (3, "c")]
    appending = sink(DeltaSink, tmp_path, delta=f"{s3.url}/more", storage=s3.options)
    for number in (0, 1, 1):
        appending.write(spark.range(number * 5, number * 5 + 5), batch(number))
    assert _rows(Location(f"{s3.url}/more", s3.options)) == [(n,) for n in range(10)]


def test_a_store_that_is_away_is_an_error_with_its_name(spark: Any, tmp_path: Path) -> None:
    away = {
        "aws_endpoint": "http://127.0.0.1:9",
        "aws_region": "x",
        "aws_access_key_id": "a",
        "aws_secret_access_key": "b",
    }
    out = sink(DeltaSink, tmp_path, delta="s3://lake/t", storage=away | {"client_timeout": "1s", "max_retries": "0"})
    with pytest.raises(OttlaError, match="s3://lake/t"):
        out.write(spark.range(3), batch(0))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("delta: /x\nwrite: merge", "write is append or upsert, not 'merge'"),
        ("delta: /x\nwrite: upsert", "write: upsert needs a key"),
        ("delta: /x\nkey: id", "key is for write: upsert"),
        ("delta: /x\npartitoin-by: [a]", "did you mean partition-by?"),
        ("write: append", "lacks `delta`"),
        ("delta: /x\ncompact-every: -1", "compact-every is a number"),
    ],
)
def test_options_that_are_wrong(text: str, told: str) -> None:
    (problem,) = problems_of(DeltaSink, text)
    assert told in problem.message


def test_columns_that_options_name_must_be_there(spark: Any, tmp_path: Path) -> None:
    out = sink(DeltaSink, tmp_path, delta="t", write="upsert", key=("custmer",))
    (problem,) = out.check_rows(spark.createDataFrame([("a",)], "customer STRING").schema)
    assert problem.message == "key names the column custmer, which rows do not have; did you mean customer?"
