from __future__ import annotations

import pytest
from tests.tier.given import segment

from ottla.log.epochs import EpochStart, LeaderEpochs
from ottla.tier.expiry import Expired, Keep, expired
from ottla.tier.remote_segment import RemoteSegment

FOREVER = Keep(-1, -1)


def three() -> list[RemoteSegment]:
    """Of 100 bytes each, with timestamps 1000, 2000, 3000."""
    return [segment(n, 10 * n, 10 * n + 9, (0, 10 * n), max_timestamp=1000 * (n + 1)) for n in range(3)]


def going(found: Expired) -> list[int]:
    return [each.start_offset for each in found.segments]


@pytest.mark.parametrize(
    ("keep", "now", "local", "expected", "start"),
    [
        (FOREVER, 10**9, 10**9, [], 0),
        (Keep(500, -1), 1500, 0, [], 0),
        (Keep(500, -1), 1501, 0, [0], 10),
        (Keep(500, -1), 2501, 0, [0, 10], 20),
        (Keep(500, -1), 9999, 0, [0, 10, 20], 30),
        (Keep(-1, 300), 0, 0, [], 0),
        (Keep(-1, 201), 0, 0, [], 0),
        (Keep(-1, 200), 0, 0, [0], 10),
        (Keep(-1, 200), 0, 100, [0, 10], 20),  # what is only on the disk counts too
        (Keep(-1, 0), 0, 0, [0, 10, 20], 30),
    ],
)
def test_by_age_and_by_size(keep: Keep, now: int, local: int, expected: list[int], start: int) -> None:
    found = expired(three(), LeaderEpochs([EpochStart(0, 0)]), 0, 50, local, keep, now)
    assert (going(found), found.start_offset) == (expected, start)


def test_what_lies_before_the_start_goes() -> None:
    found = expired(three(), LeaderEpochs([EpochStart(0, 15)]), 15, 50, 0, FOREVER, 0)
    assert (going(found), found.start_offset) == ([0], 15)


def test_a_young_segment_protects_those_behind_it() -> None:
    segments = three()
    segments[0] = segments[0]._replace(max_timestamp=10**6)
    found = expired(segments, LeaderEpochs([EpochStart(0, 0)]), 0, 50, 0, Keep(500, -1), 10**6)
    assert (going(found), found.start_offset) == ([], 0)


def test_what_is_of_another_history_neither_goes_nor_counts() -> None:
    """A leader was elected uncleanly: epoch 0 ended at offset 5."""
    lineage = LeaderEpochs([EpochStart(0, 0), EpochStart(1, 5)])
    ours = segment(9, 0, 19, (0, 0), (1, 5), max_timestamp=5000)
    found = expired([*three(), ours], lineage, 0, 50, 0, Keep(-1, 100), 0)
    assert going(found) == []


def test_what_is_older_than_all_known_epochs_goes() -> None:
    found = expired(three(), LeaderEpochs([EpochStart(4, 0)]), 0, 50, 0, FOREVER, 0)
    assert (going(found), found.start_offset) == ([0, 10, 20], 0)


def test_but_not_if_the_epochs_of_the_start_are_not_known() -> None:
    found = expired(three(), LeaderEpochs([EpochStart(4, 40)]), 0, 50, 0, FOREVER, 0)
    assert going(found) == []
