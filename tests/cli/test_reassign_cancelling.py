"""What `ottla reassign cancel` says of a move that went another way meanwhile."""

from __future__ import annotations

import pytest

from ottla.cli.admin.reassignments import Move
from ottla.cli.admin.session import Refusal
from ottla.cli.reassign.cancel import _row
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition

MOVE = Move(replicas=(1, 2, 3), adding=(3,), removing=(1,))


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (None, {"replicas": [1, 2], "cancelled": True, "refused": False, "outcome": "cancelled"}),
        (
            Refusal(ErrorCode.no_reassignment_in_progress, None),
            {"replicas": [2, 3], "cancelled": False, "refused": False, "outcome": "it had ended before"},
        ),
        (
            Refusal(ErrorCode.unknown_server_error, "the disk is on fire"),
            {"replicas": [1, 2], "cancelled": False, "refused": True, "outcome": "the disk is on fire"},
        ),
    ],
    ids=["cancelled", "ended", "refused"],
)
def test_what_is_told_of_a_move(refusal: Refusal | None, told: dict[str, object]) -> None:
    assert _row(TopicPartition("t", 0), MOVE, refusal) == {"topic": "t", "partition": 0, **told}
