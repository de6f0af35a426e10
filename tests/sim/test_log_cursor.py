"""What checkers read of a log that grows, whatever has become of its files."""

from __future__ import annotations

from random import Random

import pytest

from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk
from ottla.sim.log_files import LogCursor

FOLDER = "/data/t-0"
SEGMENTS = (0, 3)


@pytest.fixture
def disk() -> SimDisk:
    """Two segments of a batch each, with three records and two."""
    disk = SimDisk(Random(1))
    disk.make_dirs(FOLDER)
    for base, count in zip(SEGMENTS, (3, 2), strict=True):
        file = disk.open(path(base), create=True)
        file.write([build_batch([Record(None, b"v", 5)] * count, base_offset=base)], 0)
        file.sync()
    return disk


def path(base: int) -> str:
    return f"{FOLDER}/{base:020d}.log"


def test_it_goes_on_where_it_was(disk: SimDisk) -> None:
    cursor = LogCursor(FOLDER)

    assert [batch.base_offset for batch in cursor.read(disk, 0, 3)] == [0]
    assert [batch.base_offset for batch in cursor.read(disk, 3, 5)] == [3]


@pytest.mark.parametrize(("rotten", "left"), [(0, []), (3, [0])])
def test_it_ends_at_rot_even_at_the_start_of_a_segment(disk: SimDisk, rotten: int, left: list[int]) -> None:
    disk.rot(path(rotten), 65, 1)

    assert [batch.base_offset for batch in LogCursor(FOLDER).read(disk, 0, 5)] == left
