"""The disk of the checkpoint is full: the query says so, and when there is room again nothing is lost or doubled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.spark.small_disk import small_disk_at
from tests.spark.test_write import copying
from tests.spark.topics import committed, new_topic, write

from ottla.testing.node import RunningNode

VALUES = [b"%04d" % n for n in range(2000)]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk_at(tmp_path / "disk", "400k") as folder:
        yield folder


def test_a_full_checkpoint_disk(spark: Any, node: RunningNode, small_disk: Path) -> None:
    source, target = new_topic(node), new_topic(node)
    write(node, source, VALUES[:1000])
    copying(spark, node, source, target, small_disk / "checkpoint").awaitTermination()
    write(node, source, VALUES[1000:])
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"):
        _fill(ballast)
    with pytest.raises(Exception, match="No space left on device"):
        copying(spark, node, source, target, small_disk / "checkpoint").awaitTermination()
    ballast.unlink()
    copying(spark, node, source, target, small_disk / "checkpoint").awaitTermination()
    assert sorted(committed(node, target)) == VALUES


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
