"""The disk that is written to is full: the sink says so, and when there is room again each row is there once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, sink, source
from tests.spark.small_disk import small_disk_at

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.delta_sink import DeltaSink
from ottla.pipeline.connectors.delta_source import DeltaSource
from ottla.pipeline.connectors.files_sink import FilesSink
from ottla.pipeline.connectors.files_source import FilesSource


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "2m") as folder:
        yield folder


@pytest.mark.parametrize("kind", ["delta", "files", "upsert"])
def test_a_full_disk(spark: Any, small_disk: Path, kind: str) -> None:
    made: dict[str, Any] = {
        "delta": (DeltaSink, {"delta": "t"}, DeltaSource, {"delta": "t"}),
        "upsert": (DeltaSink, {"delta": "t", "mode": "upsert", "key": ("id",)}, DeltaSource, {"delta": "t"}),
        "files": (FilesSink, {"files": "t"}, FilesSource, {"files": "t"}),
    }
    to, options, of, reading = made[kind]
    out = sink(to, small_disk, **options)
    few = spark.range(100).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS text")
    many = spark.range(100, 60_000).selectExpr("id", "sha2(CAST(id AS STRING), 512) AS text")
    out.write(few, batch(0))
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(1 << 20))
    with pytest.raises(OttlaError, match=r"(?i)cannot be written to.*(space|error)"):
        out.write(many, batch(1))
    assert source(of, small_disk, **reading).table(spark).count() == 100
    ballast.unlink()
    out.write(few.selectExpr("id + 100 AS id", "text"), batch(1))
    assert source(of, small_disk, **reading).table(spark).selectExpr("count(*)", "count(DISTINCT id)").first() == (
        200,
        200,
    )
