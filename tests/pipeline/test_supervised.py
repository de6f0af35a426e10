"""When a worker starts a pipeline again."""

from __future__ import annotations

from ottla.pipeline.service.supervised import LONGEST_S, QUIET_S, Supervised


def test_each_time_later_up_to_a_limit() -> None:
    one, now, waits = Supervised(0.0), 0.0, []
    for _ in range(10):
        assert one.should_start(now)
        one.has_started(now)
        assert not one.should_start(now + 1)
        waits.append(one.has_ended(now + 1))
        assert not one.should_start(now + 1)
        now = one.start_at
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, LONGEST_S, LONGEST_S]
    assert one.restarts == 10


def test_after_a_quiet_time_it_is_the_first_again() -> None:
    one = Supervised(0.0)
    for _ in range(3):
        one.has_started(0.0)
        one.has_ended(1.0)
    one.has_started(10.0)
    assert one.has_ended(10.0 + QUIET_S) == 2


def test_a_new_spec_is_started_at_once() -> None:
    one = Supervised(0.0)
    for _ in range(5):
        one.has_started(0.0)
        one.has_ended(1.0)
    one.is_new_now(2.0)
    assert one.should_start(2.0)
