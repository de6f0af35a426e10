"""What checkers read of a log that grows, whatever has become of its files."""

from __future__ import annotations

import sys
from random import Random

import pytest

from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.disk import SimDisk
from ottla.sim.log_files import LogCursor, first_hole

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


@pytest.mark.parametrize("left", [b"", None])
def test_a_segment_lost_before_one_that_is_still_there_is_a_hole(disk: SimDisk, left: bytes | None) -> None:
    files = disk.snapshot()
    torn = files | {path(0): left}

    assert first_hole(files, torn, FOLDER) == 0
    assert first_hole(files, files, FOLDER) == sys.maxsize


def test_a_cleaned_segment_that_is_several_again_or_a_swap_has_no_hole(disk: SimDisk) -> None:
    files = disk.snapshot()
    of_both = (files[path(0)] or b"") + (files[path(3)] or b"")
    cleaned = {name: content for name, content in files.items() if name != path(3)} | {path(0): of_both}
    undone = {name: content for name, content in cleaned.items() if name != path(0)} | {f"{path(0)}.swap": of_both}

    assert first_hole(cleaned, files, FOLDER) == sys.maxsize
    assert first_hole(cleaned, undone, FOLDER) == sys.maxsize
