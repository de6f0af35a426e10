"""What a node says when its part of the metadata quorum cannot go on."""

from __future__ import annotations

import pytest

from ottla.broker.quorum_part import _why
from ottla.model.errors import OttlaError


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), "/data/log cannot be written: [Errno 28] No space left on device. "),
        (OttlaError("a majority of the voters lost committed records"), "a majority of the voters lost committed rec"),
        (TypeError("oh"), "the metadata quorum failed in this node, which is a bug: TypeError('oh'). The log has more"),
    ],
    ids=["disk", "told already", "bug"],
)
def test_the_cause_is_named_as_itself(error: Exception, told: str) -> None:
    assert _why(error, "/data/log").startswith(told)
