"""Whole clusters with their clients on virtual time, and all that can go wrong: nothing promised is broken."""

from __future__ import annotations

import os
import shutil
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

ROOT = Path(__file__).parents[2]
OTHER_PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
SEEDS = 8
SHORT_SEEDS = range(100, 140)
SHORT = Variation(rage_s=5.0)
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


@pytest.mark.parametrize("first", range(SHORT_SEEDS.start, SHORT_SEEDS.stop, 5))
def test_nothing_promised_is_broken_in_short_storms(first: int) -> None:
    """About a second of CPU each, with as many faults as in long ones."""
    for seed in range(first, first + 5):
        ended = run(seed, SHORT)
        assert not ended.violations, f"{ended.timeline}\n{ended.report()}"


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
        assert _told(sys.executable, "0") == _told(sys.executable, "4242")

    @pytest.mark.parametrize("version", OTHER_PYTHONS)
    def test_under_other_pythons(self, version: str) -> None:
        """Those that are there and have what Ottla needs."""
        python = shutil.which(version)
        if python is None or not _has_ottlas_libraries(python):
            pytest.skip(f"no {version} with Ottla's libraries is here")
        assert _told(python, "1") == _told(sys.executable, "2")


def _told(python: str, hash_seed: str) -> str:
    """The trace and the disks of a run, as another process has them."""
    code = (
        "from ottla.sim.cluster.scenario import run; from ottla.sim.cluster.variation import Variation;"
        "o = run(2, Variation(rage_s=5.0)); print(o.trace.hash(), o.digest)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": "src"}
    command = [python, "-c", code]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, check=True, text=True).stdout


def _has_ottlas_libraries(python: str) -> bool:
    return subprocess.run([python, "-c", "import kio, crc32c"], capture_output=True, check=False).returncode == 0
