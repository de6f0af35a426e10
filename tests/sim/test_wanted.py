"""What an admin of a simulated cluster may find of what it asked for."""

from __future__ import annotations

from ottla.sim.cluster.wanted import Wanted


def test_what_was_acknowledged_last_is_found_and_nothing_earlier() -> None:
    wanted = Wanted("a")
    for value in ("b", "c"):
        wanted.asks(value)
        wanted.acknowledged(value)

    assert wanted.allows("c")
    assert not wanted.allows("a")
    assert not wanted.allows("b")


def test_what_was_refused_may_be_found_until_something_is_acknowledged() -> None:
    wanted = Wanted("a")
    wanted.asks("b")
    assert wanted.allows("a")
    assert wanted.allows("b")

    wanted.asks("c")
    wanted.acknowledged("c")
    assert not wanted.allows("b")


def test_what_nobody_answered_may_be_carried_out_after_what_was_acknowledged() -> None:
    wanted = Wanted("a")
    wanted.asks("b")
    wanted.unanswered("b")
    wanted.asks("c")
    wanted.acknowledged("c")

    assert wanted.allows("b")
    assert wanted.allows("c")
    assert not wanted.allows("a")
