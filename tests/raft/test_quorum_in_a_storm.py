"""Quorums of two to five voters, observers, changes of voters, snapshots; whatever fails, what was promised holds.

Every check is in ottla.sim.raft.checks. A failure names its seed: `run(seed)` repeats it.
"""

from collections import Counter

import pytest

from ottla.sim.raft.storm import Storm, run


def test_two_hundred_storms() -> None:
    seen: Counter[str] = Counter()
    for seed in range(200):
        seen += run(seed)

    rare = ("elections", "truncations", "snapshots loaded", "batches lost", "disks replaced", "messages lost")
    assert not [what for what in (*rare, "change none", "change request_timed_out") if not seen[what]], seen
    assert seen["committed"] > 20_000


@pytest.mark.slow
def test_a_thousand_storms_of_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    seen: Counter[str] = Counter()
    with_what: Counter[str] = Counter()
    for seed in range(1000):
        counts = run(seed, Storm(duration_ms=60_000, faults=20))
        seen += counts
        with_what += Counter({what: 1 for what, times in counts.items() if times})

    with capsys.disabled():
        print(f"\n1000 seeds: {dict(seen)}; seeds that saw it: {dict(with_what)}")


def test_a_seed_decides_everything() -> None:
    assert run(7) == run(7)
