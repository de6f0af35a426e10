"""A failing run is made smaller as long as the same thing goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from ottla.sim.cluster import workloads
from ottla.sim.cluster.many import Report
from ottla.sim.cluster.shrink import kind_of, shrink
from ottla.sim.cluster.variation import AS_DRAWN, Intensity, Variation

FAULTS = 12
LOST = "at 12.300 s: orders-0: plain-0/7 at 31, which plain-0 had at 3.100 s, is lost; there is nothing"
STUCK = "at 99.000 s: no progress within 60 s: 1 serves"


def world(is_lost: Callable[[set[int], float, tuple[str, ...]], bool]) -> Callable[[int, Variation], Report]:
    """Loses a record if it is told so, by faults, length and workloads; gets stuck for another reason otherwise."""

    def run(seed: int, variation: Variation) -> Report:
        faults = set(range(FAULTS)) if variation.faults is None else set(variation.faults)
        names = workloads.drawn_by(seed) if variation.workloads is None else variation.workloads
        lost = is_lost(faults, variation.ends_s, names)
        violations = [LOST] if lost else [STUCK] if len(faults) % 2 else []
        return Report(seed, violations, Counter(faults=len(faults)), 60.0, "")

    return run


def test_what_is_needed_stays_and_the_rest_goes() -> None:
    seed = 3
    needed = {2, 9}

    shrunk = shrink(seed, AS_DRAWN, run=world(lambda faults, until_s, names: needed <= faults and until_s > 10))

    assert shrunk is not None
    assert (shrunk.variation.faults, shrunk.variation.workloads) == ((2, 9), ())
    assert shrunk.variation.until_s == 12.5
    assert shrunk.report.violations == [LOST]
    assert shrunk.report.replay(shrunk.variation) == "ottla sim replay 3 --faults 2,9 --workloads none --until 12.5"


def test_a_workload_that_is_needed_stays() -> None:
    shrunk = shrink(3, AS_DRAWN, run=world(lambda faults, until_s, names: "records" in names))

    assert shrunk is not None
    assert (shrunk.variation.faults, shrunk.variation.workloads) == ((), ("records",))


def test_a_seed_that_does_not_fail_is_left_alone() -> None:
    assert shrink(3, Variation(faults=()), run=world(lambda *_: False)) is None


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (LOST, "at 1.000 s: synced-2: plain-1/99 at 4, which consumer had at 0.500 s, is lost; there is x", True),
        (LOST, STUCK, False),
        (STUCK, "at 5.000 s: no progress within 60 s: 3 is down", True),
    ],
)
def test_violations_are_of_one_kind_whoever_they_are_about(one: str, other: str, same: bool) -> None:
    assert (kind_of(one) == kind_of(other)) is same


def test_the_command_repeats_all_that_was_asked_for() -> None:
    assert AS_DRAWN.arguments() == ""
    asked = Variation(Intensity.HOSTILE, 20.0, (), ("records", "commits"), 3.5)
    assert asked.arguments() == "--intensity hostile --storm 20 --faults none --workloads records,commits --until 3.5"
