"""What `ottla cluster status` says of a cluster that is not well."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.cluster.health import _problems

WELL: dict[str, Any] = {
    "controller": 1,
    "voters": {"all": [1, 2, 3], "level": [1, 2, 3]},
    "brokers": {"registered": [1, 2, 3], "up": [1, 2, 3]},
    "without_leader": 0,
    "under_min_isr": 0,
    "under_replicated": 0,
}


@pytest.mark.parametrize(
    ("change", "wanted", "told"),
    [
        ({}, 3, []),
        ({"brokers": {"registered": [1, 2], "up": [1]}}, None,
         ["broker 2 is fenced: down, or without a way to the controller"]),
        ({"brokers": {"registered": [1, 2, 3], "up": [1]}}, None,
         ["brokers 2, 3 are fenced: down, or without a way to the controller"]),
        ({"voters": {"all": [1, 2, 3], "level": [1, 3]}}, None,
         ["voter 2 is down or behind in the quorum: `ottla cluster quorum` shows how far"]),
        ({"controller": None, "voters": {"all": [1, 2, 3], "level": []}}, None,
         ["nobody leads the metadata quorum: topics and leaders cannot change; most voters must be up"]),
        ({}, 4, ["3 brokers up, 4 wanted"]),
        ({"without_leader": 1, "under_replicated": 2}, None,
         ["1 partition has no leader and can be neither read nor written: `ottla topic describe --unavailable`",
          "2 partitions have replicas that are not in sync: `ottla topic describe --under-replicated`"]),
    ],
)  # fmt: skip
def test_each_thing_that_is_wrong_is_told(change: dict[str, Any], wanted: int | None, told: list[str]) -> None:
    assert list(_problems(WELL | change, wanted)) == told
