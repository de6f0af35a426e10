"""`.txnindex`: what readers of committed data must skip."""

from collections.abc import Iterator

import pytest
from tests.log.given import FOLDER, NOW, Machine, append, batch, marker

from ottla.log.partition_log import PartitionLog
from ottla.log.retention import delete_given_up
from ottla.log.txn_index import AbortedTxn


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def write(log: PartitionLog, producer: int, sequence: int, count: int = 1) -> int:
    return append(log, batch(count, producer_id=producer, sequence=sequence, transactional=True))


def aborted(log: PartitionLog) -> list[AbortedTxn]:
    """All entries there are; a reader stops at the last stable offset and would not see one too many."""
    return [txn for segment in log.segments for txn in segment.txn_index.aborted]


def test_an_aborted_transaction_is_entered_a_committed_one_is_not(machine: Machine) -> None:
    log = machine.open()
    write(log, 1, 0, 3)
    append(log, marker(1, commit=True))
    write(log, 1, 3, 2)
    append(log, marker(1, commit=False))
    assert aborted(log) == [AbortedTxn(1, 4, 6, 7)]


def test_the_file_is_kafkas(machine: Machine) -> None:
    log = machine.open()
    write(log, 258, 0, 2)
    append(log, marker(258, commit=False))
    assert machine.read(f"{FOLDER}/{0:020d}.txnindex").hex() == (
        "0000" + "0000000000000102" + "0000000000000000" + "0000000000000002" + "0000000000000003"
    )


def test_there_is_no_file_where_there_is_nothing_to_say(machine: Machine) -> None:
    log = machine.open()
    write(log, 1, 0)
    append(log, marker(1, commit=True))
    machine.reopen(log)
    assert not [name for name in machine.names() if name.endswith(".txnindex")]


def test_the_entry_is_in_the_segment_of_the_marker(machine: Machine) -> None:
    log = machine.open()
    write(log, 1, 0)
    log.roll(NOW)
    append(log, marker(1, commit=False))
    assert [len(segment.txn_index.aborted) for segment in log.segments] == [0, 1]
    assert log.aborted_between(0, 1) == [AbortedTxn(1, 0, 1, 2)], "found from the segment of its first record too"


def test_only_those_that_touch_the_range(machine: Machine) -> None:
    log = machine.open()
    for n in range(5):
        write(log, 1, 2 * n, 2)  # offsets 3n, 3n + 1
        append(log, marker(1, commit=False))  # offset 3n + 2
    firsts = [txn.first_offset for txn in log.aborted_between(4, 10)]
    assert firsts == [3, 6, 9]
    assert [txn.first_offset for txn in log.aborted_between(5, 6)] == [3]


def test_overlapping_ones(machine: Machine) -> None:
    log = machine.open()
    write(log, 1, 0)
    write(log, 2, 0)
    append(log, marker(2, commit=False))
    write(log, 1, 1)
    append(log, marker(1, commit=False))
    assert aborted(log) == [AbortedTxn(2, 1, 2, 0), AbortedTxn(1, 0, 4, 5)]


@pytest.mark.parametrize("how", ["stop", "crash"])
def test_they_survive_a_restart(machine: Machine, how: str) -> None:
    log = machine.open(segment_bytes=400)
    for n in range(10):
        write(log, n % 3, n // 3)
        if n % 3 == 2:
            append(log, marker(n % 2, commit=False))
    expected = aborted(log)
    assert len(expected) == 3
    log = machine.reopen(log) if how == "stop" else machine.after_crash(log)
    assert aborted(log) == expected


@pytest.mark.parametrize("recovery_point", [0, 3, 9, 15])
def test_recovery_enters_none_twice(machine: Machine, recovery_point: int) -> None:
    log = machine.open(index_interval_bytes=0)
    for n in range(5):
        write(log, 1, 2 * n, 2)
        append(log, marker(1, commit=False))
    expected = aborted(log)
    machine.flush(log)  # index entries are on disk, so that recovery begins in the middle of the segment
    machine.host.crash()
    log = machine.open(clean=False, recovery_point=recovery_point, settings=log.config)
    assert aborted(log) == expected
    log = machine.reopen(log)
    assert aborted(log) == expected


@pytest.mark.parametrize("flush_messages", [1, 2, 3])
@pytest.mark.parametrize("seed", range(15))
def test_what_is_synced_is_not_served_as_committed_after_losses_of_power(seed: int, flush_messages: int) -> None:
    """The name of the file and its entries are as durable as the markers, also when recovery has touched them."""
    with Machine(seed) as machine:
        log = machine.open(index_interval_bytes=0, flush_messages=flush_messages)
        for n in range(4):
            machine.call(write, log, 1, 2 * n, 2)
            machine.call(append, log, marker(1, commit=False))
            machine.pass_time()
        for _ in range(3):
            flushed = log.flushed_offset
            expected = [txn for txn in aborted(log) if txn.last_offset < flushed]
            assert len(expected) >= 3
            log = machine.after_power_loss(log)
            assert aborted(log)[: len(expected)] == expected


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["cut", "longer", "zeros", "version", "order"])
def test_a_damaged_index_is_made_again_by_a_replay(machine: Machine, clean: bool, damage: str) -> None:
    log = machine.open(segment_bytes=400)
    for n in range(24):
        write(log, n % 2, n // 2)
        if n % 3 == 2:
            append(log, marker(n % 2, commit=False))
    expected = aborted(log)
    log.stop()
    name = next(name for name in machine.names() if name.endswith(".txnindex") and not name.startswith(f"{0:020d}"))
    good = machine.read(f"{FOLDER}/{name}")
    bad = {
        "cut": good[:-1],
        "longer": good + b"x",
        "zeros": bytes(len(good)),
        "version": b"\x01\x01" + good[2:],
        "order": good[:18] + bytes(8) + good[26:],
    }[damage]
    machine.overwrite(f"{FOLDER}/{name}", bad)
    log = machine.open(clean=clean, recovery_point=log.end_offset, settings=log.config)
    assert aborted(log) == expected
    assert machine.read(f"{FOLDER}/{name}") == good


def test_retention_takes_them_with_their_segments(machine: Machine) -> None:
    log = machine.open()
    write(log, 1, 0)
    append(log, marker(1, commit=False))
    log.roll(NOW)
    write(log, 1, 1)
    append(log, marker(1, commit=False))
    log.advance_start(2)
    paths = delete_given_up(log)
    assert f"{FOLDER}/{0:020d}.txnindex.deleted" in paths
    assert aborted(log) == [AbortedTxn(1, 2, 3, 4)]
