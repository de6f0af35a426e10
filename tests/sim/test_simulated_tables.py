"""One simulated node that compacts all the time: no table is ever wrong; mistakes planted in the cleaner are found."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.log.cleaning.test_planted_bugs import names_are_not_synced

from ottla.log import recovery
from ottla.log.cleaning import kernels
from ottla.log.cleaning.cleaned_segment import CleanedSegment
from ottla.log.cleaning.filtering import Filtering
from ottla.log.partition_log import PartitionLog
from ottla.log.paths import SWAP_SUFFIX
from ottla.sim.tables import run

Plant = Callable[[pytest.MonkeyPatch], None]
WITHIN = 60
"""Worlds, at most, until a mistake shows."""


@pytest.mark.parametrize("seed", range(8))
def test_no_table_is_ever_wrong(seed: int) -> None:
    outcome = run(seed)
    assert not outcome.violations, outcome.report()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_no_table_is_ever_wrong_in_many_worlds() -> None:
    for seed in range(1000, 1500):
        outcome = run(seed)
        assert not outcome.violations, outcome.report()


def test_the_same_seed_is_the_same_world_and_much_is_cleaned_in_it() -> None:
    first, second = run(7), run(7)
    assert first.digest == second.digest
    assert first.counts == second.counts
    assert first.counts["names changed by swaps"] > 20


def content_is_not_synced(patch: pytest.MonkeyPatch) -> None:
    """Cleaned files take the place of others while they are in the page cache only."""
    whole = CleanedSegment.__init__

    def hasty(self: Any, *given: Any) -> None:
        whole(self, *given)
        self._file = _Unsynced(self._file)

    patch.setattr(CleanedSegment, "__init__", hasty)


class _Unsynced:
    def __init__(self, file: Any) -> None:
        self._file = file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def sync(self) -> None: ...


def a_start_forgets_swaps(patch: pytest.MonkeyPatch) -> None:
    def forget(disk: Any, folder: str, names: list[str]) -> bool:
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
        for name in swaps:
            disk.remove(f"{folder}/{name}")
        return bool(swaps)

    patch.setattr(recovery, "finish_swaps", forget)


def one_segment_too_many_is_replaced(patch: pytest.MonkeyPatch) -> None:
    whole = PartitionLog.replace_segments

    def greedy(self: PartitionLog, cleaned: Any, count: int) -> Any:
        first = self._bases.index(cleaned.base_offset)
        return whole(self, cleaned, min(count + 1, len(self.segments) - 1 - first))

    patch.setattr(PartitionLog, "replace_segments", greedy)


def what_is_left_in_the_buffer_is_not_written(patch: pytest.MonkeyPatch) -> None:
    whole = Filtering._flush

    def forgetful(self: Any) -> None:
        if self._numbers[kernels.OUT] < 300:
            self._numbers[kernels.OUT] = self._numbers[kernels.ROWS] = 0
        whole(self)

    patch.setattr(Filtering, "_flush", forgetful)


@pytest.mark.parametrize(
    "plant",
    [
        names_are_not_synced,
        content_is_not_synced,
        a_start_forgets_swaps,
        one_segment_too_many_is_replaced,
        what_is_left_in_the_buffer_is_not_written,
    ],
)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(run(seed).violations for seed in range(WITHIN))
