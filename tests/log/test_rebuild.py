"""Rebuilding an index while the log is in use must not harm the log, whatever goes wrong."""

from collections.abc import Iterator

import pytest
from tests.log.given import NOW, Machine, append, batch, check_indexes

from ottla.log.rebuild import rebuild_indexes


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def test_a_rebuild_that_fails_leaves_the_segment_as_it_was(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    for n in range(20):
        append(log, batch(timestamp=NOW + n))
    size, latest = log.active.size, log.active.max_timestamp
    machine.disk.fail("*.index*", operations=["create", "write", "rename"])

    with pytest.raises(OSError, match="Input/output"):
        rebuild_indexes(log.active, log.config)
    machine.disk.heal()
    append(log, batch(timestamp=NOW + 20))

    assert (log.active.size > size, latest) == (True, NOW + 19)
    check_indexes(log)
    assert log.end_offset == 21


def test_what_is_appended_after_a_rebuild_is_indexed_too(machine: Machine) -> None:
    log = machine.open(index_interval_bytes=0)
    for _ in range(5):
        append(log, batch())

    rebuild_indexes(log.active, log.config)
    for _ in range(5):
        append(log, batch())

    check_indexes(log)
    assert log.end_offset == 10
