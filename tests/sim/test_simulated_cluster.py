"""Whole clusters with their clients on virtual time, and all that can go wrong: nothing promised is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from ottla.sim.cluster.many import Report, one
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.schedule import AT_LEAST
from ottla.sim.cluster.variation import AS_DRAWN, Variation
from ottla.sim.trace import first_difference

SEEDS = 8
SHORT = Variation(rage_s=8.0)
BLOCK = 10


@cache
def report(seed: int) -> Report:
    return one(seed)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_promised_is_broken(seed: int) -> None:
    assert not report(seed).violations, report(seed).text()
    assert report(seed).virtual_s >= AS_DRAWN.lasts_s
    assert report(seed).counts["faults"] >= AT_LEAST
    assert report(seed).counts["records acknowledged"] >= AS_DRAWN.records


def test_these_worlds_have_seen_what_clusters_go_through() -> None:
    """A run in which nothing happens proves nothing."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += report(seed).counts
    for what in ("elections", "ISR shrinks", "ISR expansions", "truncations", "snapshot loads", "records excused"):
        assert seen[what] > 0, what
    assert len({name for name in seen if name.startswith("fault: ")}) >= 15


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(1000, 2000, BLOCK))
def test_nothing_promised_is_broken_in_many_more_worlds(first: int) -> None:
    for seed in range(first, first + BLOCK):
        ended = run(seed)
        assert not ended.violations, ended.report()


class TestOneSeedIsOneStory:
    def test_twice_in_one_process(self) -> None:
        first, again = run(3, SHORT), run(3, SHORT)
        assert first_difference(first.trace, again.trace) is None
        assert first.digest == again.digest

    def test_in_processes_with_other_hash_seeds(self) -> None:
        code = (
            "from ottla.sim.cluster.scenario import run; from ottla.sim.cluster.variation import Variation;"
            "o = run(2, Variation(rage_s=8.0)); print(o.trace.hash(), o.digest)"
        )

        def told(hash_seed: str) -> str:
            environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "src"}
            cwd = Path(__file__).parents[2]
            command = [sys.executable, "-c", code]
            return subprocess.run(command, env=environment, cwd=cwd, capture_output=True, check=True, text=True).stdout

        assert told("0") == told("4242")
