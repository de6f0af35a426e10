"""A real node and real clients on virtual time, with everything going wrong that can: nothing promised is broken."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from ottla.sim.outcome import Outcome
from ottla.sim.scenario import run
from ottla.sim.trace import first_difference

SEEDS = 30
BLOCK = 10


@cache
def outcome(seed: int) -> tuple[list[str], str, Counter[str]]:
    """Without the trace, so that many can be kept."""
    ended = run(seed)
    return ended.violations, ended.report(), ended.counts


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_promised_is_broken(seed: int) -> None:
    violations, report, _ = outcome(seed)
    assert not violations, report


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(1000, 1400, BLOCK))
def test_nothing_promised_is_broken_in_many_more_worlds(first: int) -> None:
    for seed in range(first, first + BLOCK):
        ended = run(seed)
        assert not ended.violations, ended.report()


def test_these_worlds_have_seen_everything_go_wrong() -> None:
    """A run in which nothing happens proves nothing."""
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += outcome(seed)[2]
    faults = {name for name in seen if name.startswith("fault: ")}
    assert len(faults) == 13, faults
    for what, at_least in {
        "kills": 20,
        "power losses": 20,
        "clean stops": 20,
        "starts that failed": 1,
        "disk operations that failed": 10,  # one takes its folder offline
        "segments made": 500,
        "segments deleted": 50,
        "topics created": 100,
        "topics deleted": 50,
        "acknowledged batches": 3000,
        "records read": 10_000,
        "produce requests without an answer": 50,
        "produce: kafka_storage_error": 10,
        "producers forgotten": 5,
        "positions out of range": 10,
        "offsets committed": 1000,
        "committed offsets found": 300,
        "committed offsets lost with the power": 5,
        "offset commit: not_coordinator": 50,
    }.items():
        assert seen[what] >= at_least, (what, seen[what])
    assert sum(seen[name] for name in faults) >= 10 * SEEDS


class TestOneSeedIsOneStory:
    def test_twice_in_one_process(self) -> None:
        one, again, other = run(7), run(7), run(8)
        assert first_difference(one.trace, again.trace) is None
        assert _fingerprint(one) == _fingerprint(again)
        assert one.counts == again.counts
        assert _fingerprint(one) != _fingerprint(other)

    def test_in_processes_with_other_hash_seeds(self) -> None:
        seed = 3
        program = (
            "import sys; from ottla.sim.scenario import run; "
            "ended = run(int(sys.argv[1])); print(ended.trace.hash(), ended.digest)"
        )

        def elsewhere(hash_seed: str) -> str:
            return subprocess.run(
                [sys.executable, "-c", program, str(seed)],
                env={**os.environ, "PYTHONHASHSEED": hash_seed},
                cwd=Path(__file__).parents[2],
                capture_output=True,
                check=True,
                text=True,
            ).stdout.strip()

        assert {elsewhere(hash_seed) for hash_seed in ("1", "4242")} == {_fingerprint(run(seed))}


def _fingerprint(ended: Outcome) -> str:
    return f"{ended.trace.hash()} {ended.digest}"
