from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, problems_of, sink, source
from tests.tier.s3 import S3

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors import files_reading, files_sink, storage
from ottla.pipeline.connectors.files_sink import FilesSink
from ottla.pipeline.connectors.files_source import FilesSource

_SCHEMA = "id BIGINT, name STRING, at TIMESTAMP"


def _rows(spark: Any, *rows: tuple[int, str | None]) -> Any:
    frame = spark.createDataFrame(list(rows), "id BIGINT, name STRING")
    return frame.selectExpr("*", "TIMESTAMP '2026-01-02 03:04:05' AS at")


def _found(frame: Any) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.selectExpr("id", "name", "CAST(at AS STRING)").collect()), key=repr)


def _want(*rows: tuple[int, str | None]) -> list[tuple[Any, ...]]:
    return sorted([(*row, "2026-01-02 03:04:05") for row in rows], key=repr)


def _visible(folder: Path) -> list[Path]:
    return [
        path for path in folder.rglob("*") if path.is_file() and not files_sink.is_own(str(path.relative_to(folder)))
    ]


@pytest.mark.parametrize(
    ("kind", "compression"),
    [("parquet", None), ("parquet", "snappy"), ("json", None), ("json", "gzip"), ("csv", None), ("csv", "zstd")],
)
def test_rows_come_back_and_a_repeated_batch_is_not_written(
    spark: Any, tmp_path: Path, kind: str, compression: str | None
) -> None:
    out = sink(FilesSink, tmp_path, files="out", format=kind, compression=compression)
    first, second = _rows(spark, (1, 'a,"b"\nc'), (2, "")), _rows(spark, (3, None))
    for rows, number in ((first, 0), (first, 0), (second, 1), (second, 1), (first, 0)):
        out.write(rows, batch(number))
    made = source(FilesSource, tmp_path, files="out", format=kind, schema=None if kind == "parquet" else _SCHEMA)
    assert _found(made.table(spark)) == _want((1, 'a,"b"\nc'), (2, ""), (3, None))
    # readers that know nothing of us see the same
    reader = spark.read.schema(_SCHEMA).options(header=True, escape='"', multiLine=kind == "csv")
    if compression != "zstd":
        assert reader.format(kind).load(str(tmp_path / "out")).count() == 3


def test_folders_by_values(spark: Any, tmp_path: Path) -> None:
    out = sink(FilesSink, tmp_path, files="out", partition_by=("name",))
    values = [(1, "de"), (2, "a b/ü%=?"), (3, None)]
    out.write(_rows(spark, *values), batch(0))
    assert (tmp_path / "out" / "name=de").is_dir()
    made = source(FilesSource, tmp_path, files="out", schema=_SCHEMA)
    assert _found(made.table(spark)) == _want(*values)


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_driver_that_dies_while_it_moves_files_is_followed_by_one_that_goes_on(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moved: int
) -> None:
    out = sink(FilesSink, tmp_path, files="out", format="json")
    rows = _rows(spark, (1, "a"), (2, "b")).repartition(2)
    rename, times = storage.rename, 0

    def dies(*arguments: Any) -> None:
        nonlocal times
        times += 1
        if times > moved:
            raise KeyboardInterrupt
        rename(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(files_sink, "rename", dies)
        if moved < len(_staged_names(spark, rows)):
            with pytest.raises(KeyboardInterrupt):
                out.write(rows, batch(0))
        else:
            out.write(rows, batch(0))
    other = _rows(spark, (1, "again"))  # what was decided counts
    sink(FilesSink, tmp_path, files="out", format="json").write(other, batch(0))
    made = source(FilesSource, tmp_path, files="out", format="json", schema=_SCHEMA)
    assert _found(made.table(spark)) == _want((1, "a"), (2, "b"))


def _staged_names(spark: Any, rows: Any) -> list[int]:
    return [n for (n,) in rows.selectExpr("spark_partition_id()").distinct().collect()]


def test_a_driver_that_dies_before_it_has_decided_leaves_nothing_to_be_seen(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = sink(FilesSink, tmp_path, files="out")

    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files_sink, "create", dies)
        with pytest.raises(KeyboardInterrupt):
            out.write(_rows(spark, (1, "a")), batch(0))
    assert _visible(tmp_path / "out") == []
    assert list((tmp_path / "out").rglob("*.part"))
    out.write(_rows(spark, (2, "b")), batch(0))
    assert not list((tmp_path / "out").rglob("*.part"))
    assert _found(source(FilesSource, tmp_path, files="out").table(spark)) == _want((2, "b"))


def test_of_two_drivers_one_decides(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = sink(FilesSink, tmp_path, files="out")
    staged = FilesSink._staged

    def overtaken(self: FilesSink, rows: Any, mine: Any, folder: str) -> dict[str, str]:
        found = staged(self, rows, mine, folder)
        monkeypatch.setattr(FilesSink, "_staged", staged)
        monkeypatch.setattr(files_sink, "listed", lambda *_: [])  # the other does not tidy up after a live one
        sink(FilesSink, tmp_path, files="out").write(_rows(spark, (1, "first")), mine)
        monkeypatch.undo()
        return found

    monkeypatch.setattr(FilesSink, "_staged", overtaken)
    out.write(_rows(spark, (1, "second")), batch(0))
    assert _found(source(FilesSource, tmp_path, files="out").table(spark)) == _want((1, "first"))


def test_a_stream_reads_each_file_once(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = sink(FilesSink, tmp_path, files="out")
    out.write(_rows(spark, (1, "a")), batch(0))
    frame = source(FilesSource, tmp_path, files="out").stream(spark)
    found: list[Any] = []

    def run() -> list[Any]:
        found.clear()
        time.sleep(files_reading._YOUNG_S + 0.5)
        start = frame.writeStream.foreachBatch(lambda rows, _: found.extend(row.id for row in rows.collect()))
        query = start.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()
        query.stop()
        return sorted(found)

    assert run() == [1]
    out.write(_rows(spark, (2, "b"), (3, "c")), batch(1))
    assert run() == [2, 3]
    assert run() == []


def test_files_in_an_object_store(spark: Any, tmp_path: Path, s3: S3) -> None:
    for kind in ("parquet", "json", "csv"):
        address = {"files": f"{s3.url}/files-{kind}", "format": kind, "storage": s3.options}
        out = sink(FilesSink, tmp_path, **address, partition_by=("name",))
        out.write(_rows(spark, (1, "a"), (2, "b")), batch(0))
        out.write(_rows(spark, (1, "a"), (2, "b")), batch(0))
        out.write(_rows(spark, (3, "c")), batch(1))
        made = source(FilesSource, tmp_path, **address, schema=_SCHEMA)
        assert _found(made.table(spark)) == _want((1, "a"), (2, "b"), (3, "c"))


def test_a_full_disk_is_told(spark: Any) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full")
    with pytest.raises(OttlaError, match="cannot be"):
        sink(FilesSink, Path("/"), files="/dev/full/out").write(_rows(spark, (1, "a")), batch(0))


@pytest.mark.parametrize(
    ("kind", "text", "told"),
    [
        (FilesSink, "files: /x\nformat: parket", "did you mean parquet?"),
        (FilesSink, "files: /x\nformat: csv\ncompression: snappy", "snappy is for parquet"),
        (FilesSource, "files: /x\nformat: csv", "schema must"),
        (FilesSource, "files: /x\nmax-files: 0", "1 or more"),
    ],
)
def test_options_that_are_wrong(kind: Any, text: str, told: str) -> None:
    (problem,) = problems_of(kind, text)
    assert told in problem.message


def test_columns_that_cannot_be_written(spark: Any, tmp_path: Path) -> None:
    rows = spark.sql("SELECT 1 AS id, array(1) AS list")
    (problem,) = sink(FilesSink, tmp_path, files="x", format="csv").check_rows(rows.schema)
    assert problem.message == "column list (array) cannot be written as CSV: to_json() or base64() it"
