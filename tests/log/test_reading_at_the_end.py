"""Those who wait at the end of a log find what comes without a look at index or file."""

from __future__ import annotations

import pytest
from tests.log.given import Machine, append, batch, everything, read_at, read_bytes

from ottla.log.partition_log import PartitionLog
from ottla.log.reading import LogRead
from ottla.log.truncation import truncate_to

SMALL, LARGE = b"v", b"v" * 2000


def read_on(log: PartitionLog, offset: int) -> LogRead:
    found = read_at(log, offset, 1 << 20, log.end_offset)
    assert found is not None
    return found


def test_every_reader_at_the_end_has_a_small_batch_at_once() -> None:
    with Machine() as machine:
        log = machine.open()
        machine.call(append, log, batch(1))
        read_on(log, 0)

        for offset in range(1, 50):
            machine.call(append, log, batch(1))
            found = [read_on(log, offset) for _ in range(3)]

            assert [one.data for one in found] == [read_bytes(found[0])] * 3


@pytest.mark.parametrize(
    "later",
    [[LARGE], [SMALL, SMALL], [LARGE, SMALL], [SMALL, LARGE]],
    ids=["large", "two", "large first", "small first"],
)
def test_what_is_not_one_small_batch_comes_from_the_file(later: list[bytes]) -> None:
    with Machine() as machine:
        log = machine.open()
        machine.call(append, log, batch(1))
        read_on(log, 0)
        for value in later:
            machine.call(append, log, batch(1, value=value))

        found = read_on(log, 1)

        assert found.data is None
        assert b"".join(everything(log)).endswith(read_bytes(found))


def test_readers_who_came_to_the_end_at_different_times_all_go_on_from_there() -> None:
    with Machine() as machine:
        log = machine.open(index_interval_bytes=1)
        for offset in range(20):
            machine.call(append, log, batch(1))
            read_on(log, offset)

        batches = everything(log)
        assert [read_bytes(read_on(log, offset)) for offset in range(20)] == [
            b"".join(batches[offset:]) for offset in range(20)
        ]


def test_what_was_cut_off_is_not_at_hand_any_more() -> None:
    with Machine() as machine:
        log = machine.open()
        for offset in range(3):
            machine.call(append, log, batch(1, value=b"old"))
            read_on(log, offset)
        machine.call(truncate_to, machine.env, log, 1)
        assert read_at(log, 1, 1 << 20, log.end_offset) is None

        machine.call(append, log, batch(1, value=b"newer"))

        assert b"newer" in read_bytes(read_on(log, 1))
