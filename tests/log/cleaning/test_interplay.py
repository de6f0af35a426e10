"""A log that is cleaned while something else happens to it."""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from tests.log.cleaning.given import NEWCOMER, SMALL, TABLE, Tables, offsets, read_on
from tests.log.given import LOGS, NOW, Machine, check_finding, check_indexes, everything, producer_state

from ottla.env.ports import Env
from ottla.log import manager
from ottla.log.checkpoints import read_offsets, write_offsets
from ottla.log.cleaning.cleaner import LogCleaner
from ottla.log.cleaning.contract import Contract, Limits
from ottla.log.cleaning.planning import Plan, plan
from ottla.log.fetched_batches import fetched_batches
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import CLEANER_CHECKPOINT
from ottla.log.truncation import truncate_to
from ottla.model.names import TopicPartition
from ottla.sim.faults import Operation


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def dirty(machine: Machine, **overrides: Any) -> Tables:
    tables = Tables(machine, segment_bytes=300, **overrides)
    for n in range(20):
        tables.put([(b"k%d" % (n % 4), b"%d" % n)])
    tables.roll()
    return tables


def during_cleaning(tables: Tables, what: "object", pause_s: float) -> object:
    """Begins to clean, waits a little, does something, waits for the end."""

    async def story() -> object:
        tables.cleaner.wake()
        await asyncio.sleep(pause_s)
        result = what()  # type: ignore[operator]
        if asyncio.iscoroutine(result):
            result = await result
        while tables.cleaner._looking is not None:
            await asyncio.sleep(0.01)
        return result

    return tables.machine.wait_for(story)


PAUSES = [0.0, 0.001, 0.005, 0.01, 0.02, 0.03, 0.05, 0.1]


@pytest.mark.parametrize("pause_s", PAUSES)
def test_a_cut_gives_it_up(machine: Machine, pause_s: float) -> None:
    tables = dirty(machine, high_watermark=14)
    cut = during_cleaning(tables, lambda: tables.manager.cut(tables.log, 18, lambda: True), pause_s)
    assert cut is True
    assert tables.log.end_offset == 18
    assert read_on(tables.log, NEWCOMER).table == {b"k%d" % (n % 4): b"%d" % n for n in range(14, 18)}
    assert (tables.cleaned_offset or 0) <= 18
    tables.put([(b"new", b"1")])
    tables.compact()
    tables.reopen()
    assert read_on(tables.log, NEWCOMER).table == {b"k%d" % (n % 4): b"%d" % n for n in range(14, 18)} | {b"new": b"1"}


@pytest.mark.parametrize("pause_s", PAUSES)
def test_a_deletion_gives_it_up(machine: Machine, pause_s: float) -> None:
    tables = dirty(machine)

    def delete_and_create() -> None:
        tables.manager.delete(TABLE)
        tables.log = tables.manager.get_or_create(TABLE, tables.log.topic_id.__class__(int=5), tables.config)

    during_cleaning(tables, delete_and_create, pause_s)
    tables.put([(b"a", b"1")])
    machine.pass_time(120)
    assert offsets(tables.log) == [0]
    assert tables.log.failed is None
    names = machine.names(tables.log.folder)
    assert not [name for name in names if "cleaned" in name or "swap" in name or "deleted" in name]


@pytest.mark.parametrize("pause_s", PAUSES)
def test_a_stop_in_the_middle_leaves_everything_in_order(machine: Machine, pause_s: float) -> None:
    tables = dirty(machine)

    async def stop() -> None:
        tables.cleaner.wake()
        await asyncio.sleep(pause_s)
        await tables.manager.stop(1)

    machine.wait_for(stop)
    tables.manager = tables.start()
    tables.log = tables.manager.all_logs()[0]
    assert tables.manager.dirs[0].was_clean
    assert read_on(tables.log, NEWCOMER).table == {b"k%d" % (n % 4): b"%d" % n for n in range(16, 20)}


@pytest.mark.parametrize("operations", [("read",), ("write",), ("sync", "sync_dir"), ("create",), ("rename",)])
@pytest.mark.parametrize("pause_s", PAUSES[:5])
def test_a_disk_that_fails_in_the_middle_leaves_nothing_wrong_behind(
    machine: Machine, pause_s: float, operations: tuple[Operation, ...]
) -> None:
    tables = dirty(machine)
    newest = {b"k%d" % (n % 4): b"%d" % n for n in range(16, 20)}

    during_cleaning(tables, lambda: machine.disk.fail("*/table-0/*", operations=operations), pause_s)

    assert (tables.log.failed is None) == (len(tables.manager.dirs) == 1), "a log dir fails as a whole"
    machine.disk.heal()
    machine.host.crash()  # one that failed is looked at anew by the next process
    tables.manager = tables.start()
    (tables.log,) = tables.manager.all_logs()
    assert read_on(tables.log, NEWCOMER).table == newest
    tables.clean()
    assert read_on(tables.log, NEWCOMER).table == newest
    assert not [name for name in machine.names(tables.log.folder) if "cleaned" in name or "swap" in name]


def test_records_that_are_appended_meanwhile_stay(machine: Machine) -> None:
    tables = dirty(machine)

    def write() -> None:
        for n in range(10):
            tables.put([(b"k0", b"new %d" % n)])

    during_cleaning(tables, write, 0.005)
    assert tables.log.end_offset == 30
    assert offsets(tables.log)[-1] == 29
    assert read_on(tables.log, NEWCOMER).table[b"k0"] == b"new 9"


def test_a_log_that_is_held_is_not_cleaned(machine: Machine) -> None:
    tables = dirty(machine)

    async def hold() -> None:
        async with tables.manager.uncleaned(tables.log):
            tables.cleaner.wake()
            await asyncio.sleep(1)

    machine.wait_for(hold)
    assert len(offsets(tables.log)) == 20
    tables.clean()
    assert len(offsets(tables.log)) < 20


def test_the_dirtiest_log_is_cleaned_first_and_all_in_turn(machine: Machine) -> None:
    tables = dirty(machine)
    other = TopicPartition("other", 0)
    log = machine.call(tables.manager.get_or_create, other, tables.log.topic_id.__class__(int=9), tables.config)
    first, tables.log = tables.log, log
    for n in range(9):
        tables.put([(b"k", b"%d" % n)])
    tables.roll()
    tables.clean()
    assert len(offsets(first)) < 20
    assert len(offsets(log)) < 9
    assert tables.manager.dirs[0].cleaned_offsets.keys() == {TABLE, other}


def test_new_retention_takes_effect_at_once(machine: Machine) -> None:
    tables = Tables(machine, cleanup_policy="delete", segment_bytes=300)
    for n in range(20):
        tables.put([(b"k", b"%d" % n)], timestamp=NOW - 1_000_000)
    tables.roll()
    assert tables.log.start_offset == 0

    async def change() -> None:
        tables.log.configure(replace(tables.config, retention_ms=1000))
        tables.manager.configured(tables.log)
        await asyncio.sleep(1)

    machine.wait_for(change)
    assert tables.log.start_offset == 20


@pytest.mark.parametrize("pause_s", PAUSES[1:5])
def test_a_topic_that_is_not_compacted_any_more_is_left_alone(machine: Machine, pause_s: float) -> None:
    tables = dirty(machine)

    def change() -> None:
        tables.log.configure(replace(tables.config, cleanup_policy=frozenset({"delete"})))
        tables.manager.configured(tables.log)

    during_cleaning(tables, change, pause_s)
    assert len(offsets(tables.log)) >= 12  # a swap that was begun is finished, and no other
    assert read_on(tables.log, NEWCOMER).table == {b"k%d" % (n % 4): b"%d" % n for n in range(16, 20)}
    assert not [name for name in machine.names(tables.log.folder) if "cleaned" in name or "swap" in name]
    machine.host.crash()
    tables.config = replace(tables.config, cleanup_policy=frozenset({"delete"}))
    tables.manager = tables.start()
    (tables.log,) = tables.manager.all_logs()
    assert tables.log.end_offset == 20  # that offsets are missing is no loss


@pytest.mark.parametrize("pause_s", PAUSES)
def test_new_limits_count_at_once(machine: Machine, pause_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka, what goes on under the old ones is begun anew."""
    tables = dirty(machine)
    used = []
    make = tables.cleaner._contract

    def contract(log: PartitionLog, found: Plan, limits: Limits) -> Contract:
        used.append(limits)
        return make(log, found, limits)

    monkeypatch.setattr(tables.cleaner, "_contract", contract)

    def change() -> bool:
        tables.settings = replace(SMALL, io_bytes_per_second=12_345.0)
        was_cleaning = tables.cleaner.is_cleaning(tables.log)
        tables.cleaner.reconfigure()
        return was_cleaning

    was_cleaning = during_cleaning(tables, change, pause_s)
    assert was_cleaning or pause_s in (0.0, *PAUSES[4:])
    assert offsets(tables.log) == [16, 17, 18, 19]
    assert tables.cleaned_offset == 20
    assert (used[-1].bytes_per_second == 12_345.0) == (was_cleaning or pause_s == 0.0)


def test_a_namesake_of_a_topic_that_is_gone_is_dirty_from_its_start(machine: Machine) -> None:
    tables = dirty(machine)
    tables.clean()
    machine.stop(tables.manager)
    known = {TABLE: (UUID(int=5), tables.config)}  # deleted and made anew while this node was away
    tables.manager = machine.manager(known)
    tables.manager.cleaner = LogCleaner(machine.env, tables.manager._timers, tables.manager, lambda: SMALL)
    assert tables.cleaned_offset is None
    tables.log = machine.call(tables.manager.get_or_create, TABLE, UUID(int=5), tables.config)
    for n in range(30):
        tables.put([(b"a" if n < 15 else b"b", b"%d" % n)])
    tables.compact()
    assert offsets(tables.log) == [14, 29]


def test_a_log_that_has_lost_its_end_is_dirty_before_it_grows_again(machine: Machine) -> None:
    tables = dirty(machine)
    machine.stop(tables.manager)
    machine.overwrite(f"{LOGS}/{CLEANER_CHECKPOINT}", write_offsets({TABLE: 25}))
    tables.manager = tables.start()
    (tables.log,) = tables.manager.all_logs()
    for n in range(20, 30):
        tables.put([(b"new", b"%d" % n)])
    tables.compact()
    assert offsets(tables.log) == [16, 17, 18, 19, 29]


def test_what_is_cut_is_not_said_to_be_clean_before_it_goes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash in between would leave a point that the log may grow beyond again."""
    tables = dirty(machine)
    tables.clean()
    told = []

    def look_and_cut(env: Env, log: PartitionLog, offset: int) -> list[str]:
        told.append(read_offsets(machine.disk, f"{LOGS}/{CLEANER_CHECKPOINT}")[TABLE])
        return truncate_to(env, log, offset)

    monkeypatch.setattr(manager, "truncate_to", look_and_cut)
    assert machine.wait_for(lambda: tables.manager.cut(tables.log, 17, lambda: True))
    assert told == [17]


def test_a_log_nobody_writes_to_is_compacted_by_max_compaction_lag(machine: Machine) -> None:
    """Kafka waits for the next append to roll the segment."""
    tables = Tables(machine, max_compaction_lag_ms=5_000, min_cleanable_dirty_ratio=1.0, segment_bytes=100_000)
    tables.put([(b"a", b"1"), (b"a", b"2")], timestamp=machine.env.clock.now_ms())
    tables.clean()
    assert offsets(tables.log) == [0, 1]
    machine.pass_time(6)
    tables.clean()
    assert offsets(tables.log) == [1]


def test_the_cleaner_looks_by_itself(machine: Machine) -> None:
    """After log.cleaner.backoff.ms, unless log.cleaner.enable says no."""
    tables = dirty(machine)
    machine.call(tables.manager.start)
    machine.pass_time(16)
    assert len(offsets(tables.log)) < 20
    tables.settings = replace(SMALL, enabled=False)
    for n in range(20):
        tables.put([(b"k", b"%d" % n)])
    tables.roll()
    count = len(offsets(tables.log))
    machine.pass_time(60)
    assert len(offsets(tables.log)) == count
    found = plan(tables.log, tables.cleaned_offset, tables.log.end_offset, NOW)
    assert found.dirty_bytes > 0


def test_a_follower_copies_a_cleaned_log(machine: Machine) -> None:
    """Offsets are missing, and batches are empty: it takes them as they are, and knows the same of producers."""
    tables = dirty(machine)
    for n in range(8):
        tables.put([(b"k%d" % (n % 2), b"%d" % n)], producer_id=7, sequence=n)
    tables.put([(b"k9", b"aborted")], producer_id=8, transactional=True)
    tables.end(8, commit=False)
    tables.put([(b"k0", b"end"), (b"k1", b"end")])
    tables.compact()
    leader = tables.log
    assert len(offsets(leader)) < 10
    other = TopicPartition("copy", 0)
    follower = machine.call(tables.manager.get_or_create, other, leader.topic_id.__class__(int=9), tables.config)

    def copy() -> None:
        while follower.end_offset < leader.end_offset:
            found = leader.read(follower.end_offset, 700, leader.end_offset, at_least_one=True)
            if found is None:
                break
            data = found.file.pread(found.size, found.position)
            headers = fetched_batches(data, follower.end_offset, 0)
            follower.append_as_is(data[: sum(header.size for header in headers)], headers, NOW)

    machine.call(copy)
    follower.producers.on_high_watermark(follower.end_offset)
    assert everything(follower) == everything(leader)
    assert read_on(follower, NEWCOMER).table == read_on(leader, NEWCOMER).table
    assert follower.aborted_between(0, 99) == leader.aborted_between(0, 99)
    theirs, ours = producer_state(follower.producers), producer_state(leader.producers)
    assert theirs[7][:3] == ours[7][:3]
    assert theirs[8][0] == ours[8][0]
    check_finding(follower)
    check_indexes(follower)
