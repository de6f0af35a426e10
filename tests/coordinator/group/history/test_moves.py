"""Which partitions went from whom to whom."""

from __future__ import annotations

import pytest
from tests.coordinator.group.history.given import assignment

from ottla.coordinator.group.history.entries import KEPT_NAMES, Move
from ottla.coordinator.group.history.moves import Owned, moved, owned_by


def owns(**topics: range | tuple[int, ...]) -> Owned:
    return {topic: frozenset(numbers) for topic, numbers in topics.items()}


def test_what_a_leader_wrote_is_read() -> None:
    assert owned_by(assignment({"orders": [0, 2], "payments": [1]})) == owns(orders=(0, 2), payments=(1,))
    assert owned_by(b"") == {}


@pytest.mark.parametrize("data", [b"x", b"client-id", b"\x00\x00\x00\x00\x00\x09", assignment({"orders": [0, 1]})[:-6]])
def test_what_others_than_consumers_wrote_is_nothing(data: bytes) -> None:
    assert owned_by(data) == {}


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ({}, {"a": owns(t=(0,))}, [Move("t", 0, None, "A")]),
        ({"a": owns(t=(0, 1))}, {"a": owns(t=(0,)), "b": owns(t=(1,))}, [Move("t", 1, "A", "B")]),
        ({"a": owns(t=(0,)), "b": owns(t=(1,))}, {"a": owns(t=(0, 1))}, [Move("t", 1, "B", "A")]),
        ({"a": owns(t=(0,), u=(0,))}, {"a": owns(t=(0,))}, [Move("u", 0, "A", None)]),
        ({"a": owns(t=(0,)), "b": owns(t=(1,))}, {"a": owns(t=(0,)), "b": owns(t=(1,))}, []),
    ],
)
def test_moves(before: dict[str, Owned], after: dict[str, Owned], moves: list[Move]) -> None:
    assert moved(before, after, str.upper) == (len(moves), moves)


def test_of_many_the_first_are_named_and_of_very_many_none() -> None:
    many = moved({"a": owns(t=range(100))}, {"b": owns(t=range(100))}, str)
    assert many.total == 100
    assert len(many.first) == KEPT_NAMES
    very_many = moved({"a": owns(t=range(20_000))}, {"b": owns(t=range(20_000))}, str)
    assert very_many == (20_000, [])
