from __future__ import annotations

from typing import Any

import pytest
from tests.broker.apis.asking import FIND_COORDINATOR, ask

from ottla.model.errors import ErrorCode

GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_PARTITION = "group:AAAAAAAAAAAAAAAAAAAAAQ:0"


def find(address: str, version: int, key_type: int, *keys: str) -> Any:
    return ask(address, FIND_COORDINATOR, version, key=keys[0], key_type=key_type, coordinator_keys=keys)


@pytest.mark.parametrize("version", [0, 1, 3])
@pytest.mark.parametrize("key_type", [GROUP, TRANSACTION])
def test_there_is_no_coordinator_yet(address: str, version: int, key_type: int) -> None:
    answer = find(address, version, key_type, "key")

    assert (answer.error_code, answer.node_id) == (ErrorCode.coordinator_not_available, -1)


def test_many_keys_are_answered_one_by_one(address: str) -> None:
    answer = find(address, 6, SHARE, SHARE_PARTITION, "not a share partition")

    assert [(row.key, row.error_code) for row in answer.coordinators] == [
        (SHARE_PARTITION, ErrorCode.coordinator_not_available),
        ("not a share partition", ErrorCode.invalid_request),
    ]


@pytest.mark.parametrize(("version", "key_type"), [(3, SHARE), (5, SHARE), (6, 3), (6, -1), (1, 3)])
def test_types_of_keys_that_a_version_does_not_know_are_refused(address: str, version: int, key_type: int) -> None:
    answer = find(address, version, key_type, SHARE_PARTITION)

    rows = answer.coordinators if version >= 4 else [answer]
    assert [row.error_code for row in rows] == [ErrorCode.invalid_request]
