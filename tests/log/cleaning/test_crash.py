"""A crash or a loss of power at every disk operation of a cleaning: a start finds the old segments or the new."""

from random import Random

import pytest
from tests.log.cleaning.given import NEWCOMER, TABLE, TABLE_ID, Tables, headers, offsets, read_on
from tests.log.given import Machine, check_finding, check_indexes, producer_state

from ottla.sim.disk import SimDisk
from ottla.sim.faults import Moment
from ottla.sim.host import HostCrashed

MOMENTS = tuple(Moment)
EXPECTED = {b"k%d" % n: b"second %d" % n for n in range(8) if n != 3} | {b"last": b"1"}


def written(machine: Machine) -> Tables:
    """Four segments of two groups that replace each other, all durable; an aborted transaction among them."""
    tables = Tables(machine, segment_bytes=700, index_interval_bytes=0, delete_retention_ms=0)
    for n in range(8):
        tables.put([(b"k%d" % n, b"first %d" % n)], producer_id=7, sequence=n)
    tables.put([(b"k1", b"aborted")], producer_id=8, transactional=True)
    tables.end(8, commit=False)
    for n in range(8):
        tables.put([(b"k%d" % n, None if n == 3 else b"second %d" % n)], producer_id=7, sequence=8 + n)
    tables.put([(b"last", b"1")])
    tables.roll()
    machine.wait_for(tables.manager.dirs[0].checkpoint_durably)
    return tables


def cleaned_until(operation: int, moment: Moment) -> tuple[SimDisk, bool]:
    """Cleans until a disk operation of it; whether it came to its end before."""
    with Machine(operation) as machine:
        tables = written(machine)
        disk = machine.disk
        if operation:
            machine.host.crash_at(operation, moment)
        try:
            tables.clean()
            machine.pass_time(120)  # old files are removed
        except HostCrashed:
            return disk, False
        return disk, True


def check(disk: SimDisk, note: str) -> None:
    with Machine("after", disk=disk) as machine:
        try:
            tables = Tables(machine, segment_bytes=700, index_interval_bytes=0, delete_retention_ms=0)
            log = tables.log
            assert read_on(log, NEWCOMER).table == EXPECTED
            assert log.end_offset == 19
            assert producer_state(log.producers)[7][1:3] == (15, 17)
            check_finding(log)
            check_indexes(log)
            names = machine.names(log.folder)
            assert not [name for name in names if name.endswith((".cleaned", ".swap", ".deleted"))]
            machine.pass_time(5)
            tables.put([(b"last", b"1")])
            tables.compact()
            assert read_on(log, NEWCOMER).table == EXPECTED
            assert len([h for h in headers(log) if h.record_count and not h.is_control]) <= 9
            tables.reopen()
            assert read_on(tables.log, NEWCOMER).table == EXPECTED
        except BaseException as error:
            error.add_note(note)
            raise


def operations() -> int:
    with Machine(0) as machine:
        tables = written(machine)
        before = machine.disk.operations
        tables.clean()
        machine.pass_time(120)
        return machine.disk.operations - before


def test_a_cleaning_without_a_crash() -> None:
    with Machine(0) as machine:
        tables = written(machine)
        assert len(tables.log.segments) >= 4
        tables.clean()
        assert len(offsets(tables.log)) < 13
        assert offsets(tables.log)[-1] == 18
    disk, finished = cleaned_until(0, Moment.BEFORE)
    assert finished
    check(disk.crash(), "no crash")


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.name.lower())
def test_a_crash_at_every_operation(moment: Moment) -> None:
    count = operations()
    assert count > 25
    for operation in range(1, count + 1):
        disk, _ = cleaned_until(operation, moment)
        check(disk.crash(), f"{moment} operation {operation}, killed")
        for loss in range(3):
            check(disk.power_loss(Random(f"{operation}/{loss}")), f"{moment} operation {operation}, power loss {loss}")


def test_a_partition_that_is_compacted_no_more_keeps_its_gaps_after_a_crash() -> None:
    """Offsets that compaction removed are no loss, though the topic's policy says that nothing was compacted."""
    disk, _ = cleaned_until(0, Moment.BEFORE)
    with Machine("after", disk=disk.crash()) as machine:
        tables = Tables(machine, cleanup_policy="delete", segment_bytes=700)
        assert tables.manager.all_logs()[0].partition == TABLE
        assert tables.log.topic_id == TABLE_ID
        assert read_on(tables.log, NEWCOMER).table == EXPECTED
