"""Where a new leader's log begins, if what it begins with has expired in the remote tier."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine, append, batch
from tests.tier.given import segment, update

from ottla.broker.tier.beginning import begin_where_the_tier_does, is_told_of
from ottla.log.retention import delete_oldest
from ottla.replica.partition import Partition
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemoteSegment, SegmentState

PARTS = [segment(1, 0, 1), segment(2, 2, 3), segment(3, 4, 5)]


@pytest.fixture
def leads() -> Iterator[Partition]:
    """The log from 0 to 7, on this disk from 6 on."""
    with Machine() as machine:
        log = machine.open(remote_storage_enable=True, segment_bytes=1)
        for _ in range(4):
            append(log, batch(2))
        log.tiered_to = 5
        for _ in range(3):
            assert delete_oldest(log)
        assert (log.start_offset, log.local_start_offset, log.end_offset) == (0, 6, 8)
        yield Partition(machine.env, 1, PARTITION, TOPIC_ID, log, 8)


def told(*copied: RemoteSegment, gone: int = 0) -> RemoteLog:
    remote = RemoteLog()
    for each in copied:
        remote.begin(each)
        remote.update(update(each, SegmentState.COPY_FINISHED))
    for each in copied[:gone]:
        remote.update(update(each, SegmentState.DELETE_STARTED))
    return remote


@pytest.mark.parametrize(("gone", "begins"), [(0, 0), (1, 2), (2, 4), (3, 6)])
def test_it_begins_with_what_is_left(leads: Partition, gone: int, begins: int) -> None:
    assert begin_where_the_tier_does(leads, told(*PARTS, gone=gone)) is None
    assert leads.log.start_offset == begins


@pytest.mark.parametrize("copied", [0, 1, 2])
def test_nothing_is_given_up_while_it_is_not_known_how_far_the_tier_goes(leads: Partition, copied: int) -> None:
    remote = told(*PARTS[:copied], gone=copied)
    assert begin_where_the_tier_does(leads, remote) is None
    assert leads.log.start_offset == 0
    assert not is_told_of(leads.log, remote, 5)


def test_what_is_of_another_history_is_not_what_is_left(leads: Partition) -> None:
    remote = told(*PARTS, gone=2)
    other = segment(9, 1, 3, (7, 1))
    remote.begin(other)
    remote.update(update(other, SegmentState.COPY_FINISHED))
    assert begin_where_the_tier_does(leads, remote) is None
    assert leads.log.start_offset == 4


@pytest.mark.parametrize(("gone", "begins"), [(0, 0), (1, 1), (3, 1)])
def test_where_the_epochs_of_the_start_are_lost_all_that_is_left_may_be_ours(
    leads: Partition, gone: int, begins: int
) -> None:
    leads.log.epochs.starts[:] = [leads.log.epochs.starts[0]._replace(start_offset=5)]
    remote = told(*PARTS, gone=gone)
    other = segment(9, 1, 3, (7, 1))
    remote.begin(other)
    remote.update(update(other, SegmentState.COPY_FINISHED))
    assert begin_where_the_tier_does(leads, remote) is None
    assert leads.log.start_offset == begins
