"""Mistakes in what keeps a cluster in order: cleaning, retention, upgrades."""

from __future__ import annotations

from typing import Any

import pytest
from tests.sim.planted_cluster_bugs import Plant

from ottla.log import recovery, retention
from ottla.log.cleaning import cleaner, planning
from ottla.log.paths import SWAP_SUFFIX
from ottla.metadata.controller import update_features

__all__ = ["Plant"]


def clean_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    """A value that nobody committed replaces one that is, and may be cut off again."""
    plan = planning.plan

    def hasty(log: Any, cleaned_offset: Any, stable_offset: int, now_ms: int) -> Any:
        return plan(log, cleaned_offset, log.end_offset, now_ms)

    patch.setattr(cleaner, "plan", hasty)


def throw_swaps_away(patch: pytest.MonkeyPatch) -> None:
    """After a crash, cleaned segments whose originals are gone already."""

    def tidy(disk: Any, folder: str, names: list[str]) -> bool:
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
        for name in swaps:
            disk.remove(f"{folder}/{name}")
        return bool(swaps)

    patch.setattr(recovery, "finish_swaps", tidy)


def give_up_one_segment_too_many(patch: pytest.MonkeyPatch) -> None:
    deletable = retention.deletable_segments

    def generous(log: Any, high_watermark: int, now_ms: int) -> int:
        count = deletable(log, high_watermark, now_ms)
        return min(count + 1, len(log.segments) - 1) if count else 0

    patch.setattr(retention, "deletable_segments", generous)


def give_up_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    deletable = retention.deletable_segments
    patch.setattr(retention, "deletable_segments", lambda log, mark, now_ms: deletable(log, log.end_offset, now_ms))


def count_one_second_as_three(patch: pytest.MonkeyPatch) -> None:
    age = retention._age
    patch.setattr(retention, "_age", lambda segment, now_ms: 3 * age(segment, now_ms))


def grant_what_not_all_support(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(update_features, "_who_cannot", lambda *_: None)
