"""Mistakes that a cleaner could have, planted one at a time: the checks of the other tests must see each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from tests.log.cleaning import test_crash, test_model
from tests.log.cleaning.given import Tables
from tests.log.given import Machine, producer_state

from ottla.env.ports import Env
from ottla.log.cleaning import cleaner, filtering, swap
from ottla.log.cleaning.contract import CleanedGroup, Contract
from ottla.log.cleaning.transactions import CleanedTransactions
from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.sim.faults import Moment

Plant = Callable[[pytest.MonkeyPatch], None]


def stories() -> None:
    """Some of the histories of `test_model`."""
    for seed in range(12):
        with Machine(seed) as machine:
            story = test_model.Story(seed, machine)
            story.live(100)
            story.check()
            story.check_restart()


def crashes() -> None:
    """Some of the crashes of `test_crash`, by loss of power."""
    for operation in range(1, test_crash.operations() + 1):
        disk, _ = test_crash.cleaned_until(operation, Moment.AFTER)
        for loss in range(4):
            test_crash.check(disk.power_loss(Random(f"{operation}/{loss}")), f"operation {operation}")


def producers() -> None:
    """What a replay of the cleaned log tells of a producer all of whose records were replaced."""
    with Machine(0) as machine:
        tables = Tables(machine)
        for sequence in range(3):
            tables.put([(b"a", b"%d" % sequence)], producer_id=7, sequence=sequence)
        tables.put([(b"a", b"3")])
        tables.compact()
        before = producer_state(tables.log.producers)
        for name in [name for name in machine.names(tables.log.folder) if name.endswith(".snapshot")]:
            machine.disk.remove(f"{tables.log.folder}/{name}")
        machine.host.crash()
        (found,) = machine.manager({tables.log.partition: (tables.log.topic_id, tables.config)}).all_logs()
        assert producer_state(found.producers) == before


def names_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    class Forgetful:
        def __init__(self, disk: Any) -> None:
            self._disk = disk

        def __getattr__(self, name: str) -> Any:
            return getattr(self._disk, name)

        def sync_dir(self, path: str) -> None: ...

    async def hasty(env: Env, log: PartitionLog, group: CleanedGroup) -> list[str] | None:
        return await swap.swap(replace(env, disk=Forgetful(env.disk)), log, group)

    patch.setattr(cleaner, "swap", hasty)


def open_transactions_are_cleaned(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LogManager, "stable_offset", lambda self, log: log.end_offset)
    patch.setattr(CleanedTransactions, "on_data", lambda self, *_: False)


def aborted_records_replace_others(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CleanedTransactions, "on_data", lambda self, *_: False)


def tombstones_go_at_once(patch: pytest.MonkeyPatch) -> None:
    whole = filtering.Filtering.__init__

    def forgetful(self: Any, place: Any, contract: Contract, *rest: Any) -> None:
        whole(self, place, contract, *rest)
        self._horizon = 0

    patch.setattr(filtering.Filtering, "__init__", forgetful)


def producers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    whole = cleaner.LogCleaner._contract
    patch.setattr(cleaner.LogCleaner, "_contract", lambda *given: replace(whole(*given), producers=()))


def clean_before_it_is(patch: pytest.MonkeyPatch) -> None:
    """The checkpoint tells of a cleaning that has only begun."""
    begin = cleaner.LogCleaner._begin

    def hasty(self: Any, log_dir: Any, log: Any, found: Any, settings: Any) -> None:
        log_dir.note_cleaned(log.partition, found.bound)
        begin(self, log_dir, log, found, settings)

    patch.setattr(cleaner.LogCleaner, "_begin", hasty)


@pytest.mark.parametrize(
    ("plant", "check"),
    [
        (names_are_not_synced, crashes),
        (clean_before_it_is, crashes),
        (aborted_records_replace_others, stories),
        (open_transactions_are_cleaned, stories),
        (tombstones_go_at_once, stories),
        (producers_are_forgotten, producers),
    ],
    ids=lambda value: value.__name__,
)
def test_a_planted_bug_is_seen(plant: Plant, check: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, OSError)):
        check()


def test_without_one_nothing_is_seen() -> None:
    producers()
