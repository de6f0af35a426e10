"""A folder that Apache Kafka's cleaner left half done."""

from collections.abc import Iterator

import pytest
from tests.log.given import FOLDER, NOW, Machine, append, batch

SUFFIXES = ("log", "index", "timeindex")


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def four_segments(machine: Machine) -> None:
    """Base offsets 0, 3, 6 and 9, left in order."""
    log = machine.open()
    for _ in range(4):
        for _ in range(3):
            append(log, batch())
        machine.call(log.roll, NOW)
    machine.pass_time()
    log.stop()


def rename(machine: Machine, base: int, old: str, new: str) -> None:
    for suffix in SUFFIXES:
        name = f"{FOLDER}/{base:020d}.{suffix}"
        machine.disk.rename(name + old, name + new)


def offsets(machine: Machine) -> list[int]:
    log = machine.open()
    bases = [segment.base_offset for segment in log.segments]
    assert not [name for name in machine.names() if name.endswith((".swap", ".cleaned", ".deleted"))]
    return bases


def test_a_whole_swap_takes_its_place(machine: Machine) -> None:
    four_segments(machine)
    rename(machine, 3, "", ".swap")

    assert offsets(machine)[:4] == [0, 3, 6, 9]


def test_what_a_whole_swap_covers_goes(machine: Machine) -> None:
    four_segments(machine)
    for suffix in SUFFIXES:
        content = machine.read(f"{FOLDER}/{3:020d}.{suffix}") + (
            machine.read(f"{FOLDER}/{6:020d}.log") if suffix == "log" else b""
        )
        machine.overwrite(f"{FOLDER}/{3:020d}.{suffix}.swap", content)

    log = machine.open()

    assert [segment.base_offset for segment in log.segments][:3] == [0, 3, 9]
    assert log.end_offset == 12
    assert log.segments[1].size == 2 * log.segments[0].size


def test_a_swap_of_an_unfinished_step_goes_with_what_was_not_finished(machine: Machine) -> None:
    four_segments(machine)
    for suffix in SUFFIXES:
        content = machine.read(f"{FOLDER}/{6:020d}.{suffix}")
        machine.overwrite(f"{FOLDER}/{6:020d}.{suffix}.swap", content[: len(content) // 2])
        machine.overwrite(f"{FOLDER}/{3:020d}.{suffix}.cleaned", b"")

    assert offsets(machine)[:4] == [0, 3, 6, 9]
