"""Crashes at every single disk operation of a day's work, and of the recovery after it: nothing promised is lost."""

from random import Random

import pytest
from tests.log.crash_story import (
    LONG_DAY,
    SHORT_DAY,
    check_what_is_left,
    crash_while_loading,
    live_until,
    operations_of_a_day,
    outcomes,
    recovery_operations,
)

from ottla.sim.faults import Moment

MOMENTS = tuple(Moment)
PARTS = 4
"""The operations are dealt to so many tests, so that a failure is found fast and several cores can share the work."""


def test_a_day_without_a_crash() -> None:
    disk, histories, finished = live_until(0, Moment.BEFORE, 0, LONG_DAY)
    assert finished
    assert min(history.end for history in histories.values()) > 10
    check_what_is_left(disk.crash(), histories, power_lost=False)
    for seed in range(5):
        check_what_is_left(disk.power_loss(Random(seed)), histories, power_lost=True)


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_every_operation(part: int) -> None:
    """One moment for each operation, in turn, and a kill or a loss of power; the slow test has all."""
    for operation in range(1 + part, operations_of_a_day() + 1, PARTS):
        crash(operation, MOMENTS[operation // PARTS % 3], SHORT_DAY, [operation % 4])


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_every_operation_and_moment(part: int) -> None:
    for operation in range(1 + part, operations_of_a_day(LONG_DAY) + 1, PARTS):
        for moment in MOMENTS:
            crash(operation, moment, LONG_DAY, range(6))


def crash(operation: int, moment: Moment, turns: int, which: "list[int] | range") -> None:
    disk, histories, _ = live_until(operation, moment, operation, turns)
    for number in which:
        left, power_lost = outcomes(disk, max(which), operation)[number]
        try:
            check_what_is_left(left, histories, power_lost=power_lost)
        except BaseException as error:
            error.add_note(f"{moment.value} operation {operation} of {turns} turns, outcome {number}")
            raise


@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_operations_of_the_recovery(part: int) -> None:
    whole = operations_of_a_day()
    crash_twice(whole * (2 * part + 1) // (2 * PARTS), SHORT_DAY, stride=7)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(PARTS))
def test_a_crash_at_every_operation_of_many_recoveries(part: int) -> None:
    for operation in range(1 + part, operations_of_a_day() + 1, 10 * PARTS):
        crash_twice(operation, SHORT_DAY, stride=1)


def crash_twice(operation: int, turns: int, stride: int) -> None:
    disk, histories, _ = live_until(operation, MOMENTS[operation % 3], operation, turns)
    for first, (left, lost_first) in enumerate(outcomes(disk, 1, operation)):
        for again in range(1 + operation % stride, recovery_operations(left, histories) + 1, stride):
            dying = crash_while_loading(left.crash(), histories, again, MOMENTS[again % 3])
            for second, (found, lost_then) in enumerate(outcomes(dying, 1, again)):
                try:
                    check_what_is_left(found, histories, power_lost=lost_first or lost_then)
                except BaseException as error:
                    error.add_note(f"operation {operation}, outcome {first}; then {again}, outcome {second}")
                    raise
