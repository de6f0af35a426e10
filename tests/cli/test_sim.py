"""`ottla sim`: short runs of real seeds."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import run_ottla

SHORT = ("--storm", "2", "--intensity", "calm")


def test_a_seed_is_run_again_with_what_is_left_of_it(tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    part = ("--faults", "0", "--workloads", "records", "--until", "1")
    done = run_ottla("sim", "replay", "5", *SHORT, *part, "--trace", str(trace), "-O", "json")

    told = json.loads(done.stdout)
    assert (told["seed"], told["violations"], done.returncode) == (5, [], 0)
    assert told["counts"]["faults"] <= 1
    assert told["counts"]["records acknowledged"] > 0
    assert " fault: 0: " in trace.read_text() or told["counts"]["faults"] == 0


def test_many_seeds_are_counted_and_covered() -> None:
    done = run_ottla("sim", "run", "--seeds", "2", "--first", "7", "--jobs", "1", *SHORT, "-O", "json")

    told = json.loads(done.stdout)
    assert (told["seeds"], told["failed"], done.returncode) == (2, [], 0)
    assert {"kind": "fault", "event": "kill", "seeds": 0, "times": 0}.keys() == told["coverage"][0].keys()
    assert told["least"]["faults"] >= 5


def test_what_does_not_exist_is_refused_in_words() -> None:
    done = run_ottla("sim", "replay", "5", "--workloads", "dreams")
    assert done.returncode == 2
    assert "no such workload: dreams; there are records" in done.stderr
    assert "--faults takes numbers" in run_ottla("sim", "replay", "5", "--faults", "kill").stderr
