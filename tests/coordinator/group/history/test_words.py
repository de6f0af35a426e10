from __future__ import annotations

import pytest

from ottla.coordinator.group.history.entries import Who
from ottla.coordinator.group.history.likeness import is_alike
from ottla.coordinator.group.history.words import listed, seconds


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0 ms"), (999, "999 ms"), (1000, "1 s"), (1540, "1.5 s"), (9960, "10 s"), (45_000, "45 s"),
        (119_000, "119 s"), (120_000, "2 min"), (300_000, "5 min"), (3_600_000, "1 h"), (5_400_000, "1.5 h"),
        (172_800_000, "2 days"),
    ],
)  # fmt: skip
def test_spans_are_as_exact_as_is_useful(ms: int, told: str) -> None:
    assert seconds(ms) == told


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (list("abcd"), "a, b, c and d"),
        (list("abcdef"), "a, b, c and 3 more"),
    ],
)
def test_lists_end_with_and(names: list[str], told: str) -> None:
    assert listed(names) == told


@pytest.mark.parametrize(
    ("old", "new", "alike"),
    [
        ("worker", "worker", True),
        ("worker-1", "worker-2", False),
        ("billing-7d9f8c-x2k9q", "billing-5c6b7d-b4m8z", True),
        ("billing-7d9f8c-x2k9q", "orders-5c6b7d-b4m8z", False),
        ("consumer-orders-1", "consumer-payments-1", False),
        ("app-31337", "app-4711", True),
    ],
)
def test_who_may_be_the_same_started_anew(old: str, new: str, alike: bool) -> None:
    assert is_alike(Who("1", old), Who("2", new)) is alike


def test_instances_are_compared_by_nothing_else() -> None:
    assert is_alike(Who("1", "a", instance="pod"), Who("2", "b", instance="pod"))
    assert not is_alike(Who("1", "a", instance="pod"), Who("2", "a", instance="other"))
    assert not is_alike(Who("1", "a", instance="pod"), Who("2", "a"))
