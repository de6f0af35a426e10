from __future__ import annotations

from uuid import UUID

import pytest
from tests.tier.given import segment, update

from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.tier.remote_log import OutOfOrder, RemoteLog, belongs_to
from ottla.tier.remote_segment import RemoteSegment, SegmentState

STARTED, FINISHED = SegmentState.COPY_STARTED, SegmentState.COPY_FINISHED
DELETING, DELETED = SegmentState.DELETE_STARTED, SegmentState.DELETE_FINISHED


def lineage(*starts: tuple[int, int]) -> LeaderEpochs:
    return LeaderEpochs([EpochStart(*start) for start in starts])


def log_with(*segments: RemoteSegment) -> RemoteLog:
    log = RemoteLog()
    for each in segments:
        log.begin(each)
        log.update(update(each, FINISHED))
    return log


def at(log: RemoteLog, state: SegmentState | None) -> None:
    if state is None:
        return
    log.begin(segment(1, 0, 9))
    for step in {STARTED: [], FINISHED: [FINISHED], DELETING: [DELETING], DELETED: [DELETING, DELETED]}[state]:
        log.update(update(segment(1, 0, 9), step))


@pytest.mark.parametrize(
    ("before", "then", "allowed"),
    [
        (None, FINISHED, False),
        (None, DELETING, False),
        (STARTED, STARTED, True),
        (STARTED, FINISHED, True),
        (STARTED, DELETING, True),
        (STARTED, DELETED, False),
        (FINISHED, STARTED, False),
        (FINISHED, FINISHED, True),
        (FINISHED, DELETING, True),
        (FINISHED, DELETED, False),
        (DELETING, FINISHED, False),
        (DELETING, DELETING, True),
        (DELETING, DELETED, True),
        (DELETED, FINISHED, False),
        (DELETED, DELETING, False),
    ],
)
def test_states_follow_each_other_as_in_kafka(before: SegmentState | None, then: SegmentState, allowed: bool) -> None:
    log = RemoteLog()
    at(log, before)
    was = dict(log.segments)
    if allowed:
        log.update(update(segment(1, 0, 9), then))
    else:
        with pytest.raises(OutOfOrder):
            log.update(update(segment(1, 0, 9), then))
        assert log.segments == was


def test_only_what_is_wholly_copied_can_be_read() -> None:
    log = RemoteLog()
    first = segment(1, 0, 9)
    log.begin(first)
    assert log.find(0, 5) is None
    log.update(update(first, FINISHED, b"sum"))
    found = log.find(0, 5)
    assert found is not None and found.id == first.id and found.custom == b"sum"
    log.update(update(first, DELETING))
    assert log.find(0, 5) is None
    assert log.listed() == [log.segments[first.id]]
    log.update(update(first, DELETED))
    assert log.listed() == []


@pytest.mark.parametrize(
    ("epoch", "offset", "number"),
    [
        (0, 0, 1),
        (0, 9, 1),
        (0, 10, 2),
        (0, 14, 2),
        (0, 15, None),
        (2, 15, 2),
        (2, 19, 2),
        (2, 20, 3),
        (2, 30, None),
        (1, 12, None),
    ],
)
def test_a_segment_is_found_by_epoch_and_offset(epoch: int, offset: int, number: int | None) -> None:
    log = log_with(segment(1, 0, 9, (0, 0)), segment(2, 10, 19, (0, 10), (2, 15)), segment(3, 20, 29, (2, 20)))
    found = log.find(epoch, offset)
    assert (found and found.id) == (None if number is None else UUID(int=number))


def test_the_later_of_two_copies_is_read_and_the_other_still_listed() -> None:
    log = log_with(segment(1, 0, 9), segment(2, 0, 9))
    found = log.find(0, 3)
    assert found is not None and found.id == UUID(int=2)
    assert len(log.listed()) == 2
    log.update(update(segment(1, 0, 9), DELETING))
    assert log.find(0, 3) == found


@pytest.mark.parametrize("first_goes", [True, False])
def test_of_two_copies_the_one_that_is_left_is_read(first_goes: bool) -> None:
    """Whichever was told to be finished later: that of a leader of before may come after that of its successor."""
    one, other = segment(1, 0, 9), segment(2, 0, 9)
    log = log_with(one, other)
    log.update(update(one if first_goes else other, DELETING))
    found = log.find(0, 5)
    assert found is not None and found.id == (other if first_goes else one).id


def test_a_longer_copy_does_not_hide_behind_a_shorter_one_that_starts_later() -> None:
    log = log_with(segment(1, 0, 99), segment(2, 10, 19))
    found = log.find(0, 50)
    assert found is not None and found.id == UUID(int=1)


@pytest.mark.parametrize(
    ("epochs", "end", "expected"),
    [
        (lineage((0, 0)), 100, 14),
        (lineage((0, 0), (2, 15)), 100, 29),
        (lineage((0, 0), (2, 15), (5, 25)), 100, 24),  # epoch 2 ended earlier than the leader of then had it
        (lineage((7, 0)), 100, -1),
        (lineage((0, 0), (7, 12)), 100, 11),
        (lineage(), 0, -1),
    ],
)
def test_how_far_a_history_is_copied(epochs: LeaderEpochs, end: int, expected: int) -> None:
    log = log_with(segment(1, 0, 9), segment(2, 10, 19, (0, 10), (2, 15)), segment(3, 20, 29, (2, 20)))
    assert log.copied_to(epochs, end) == expected


def test_what_expired_counts_as_copied() -> None:
    log = log_with(segment(1, 0, 9))
    log.update(update(segment(1, 0, 9), DELETING))
    log.update(update(segment(1, 0, 9), DELETED))
    assert log.copied_to(lineage((0, 0)), 50) == 9


@pytest.mark.parametrize(
    ("epochs", "end", "expected"),
    [
        (lineage((0, 0), (2, 15)), 100, True),
        (lineage((2, 16)), 100, True),  # the log's start has moved into it
        (lineage((0, 0), (3, 15)), 100, False),  # another leader went on from there
        (lineage((0, 0), (2, 15), (3, 18)), 100, False),
        (lineage((0, 0), (2, 15)), 19, False),  # its end was cut off
        (lineage((0, 0), (2, 17)), 100, False),
    ],
)
def test_a_segment_of_another_history_is_told_apart(epochs: LeaderEpochs, end: int, expected: bool) -> None:
    assert belongs_to(segment(2, 10, 19, (0, 10), (2, 15)), epochs, end) is expected
