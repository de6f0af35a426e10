from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import FIND_COORDINATOR, ask
from tests.waiting import attempts, until

from ottla.model.errors import ErrorCode
from ottla.testing.node import running_node

GROUP, TRANSACTION, SHARE = 0, 1, 2
SHARE_PARTITION = "group:AAAAAAAAAAAAAAAAAAAAAQ:0"


def find(address: str, version: int, key_type: int, *keys: str) -> Any:
    return ask(address, FIND_COORDINATOR, version, key=keys[0], key_type=key_type, coordinator_keys=keys)


@pytest.mark.parametrize("version", range(7))
def test_a_groups_coordinator_is_found_once_its_topic_is_there(address: str, version: int) -> None:
    for _ in attempts():
        answer = find(address, version, GROUP, "key")
        (row,) = answer.coordinators if version >= 4 else [answer]
        if row.error_code is ErrorCode.none:
            break
        assert row.error_code is ErrorCode.coordinator_not_available
        assert (row.node_id, row.host, row.port) == (-1, "", -1)

    assert f"{row.host}:{row.port}" == address
    assert row.node_id == 1


def test_its_topic_is_as_kafka_has_it(address: str) -> None:
    find(address, 6, GROUP, "key")
    for _ in attempts():
        topic = asking.metadata(address, "__consumer_offsets").topics[0]
        if topic.error_code is ErrorCode.none:
            break
    resources = [{"resource_type": 2, "resource_name": "__consumer_offsets", "configuration_keys": None}]
    (described,) = ask(
        address, asking.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False, include_documentation=False
    ).results

    assert topic.is_internal
    assert len(topic.partitions) == 50
    own = {row.name: row.value for row in described.configs if row.config_source == 1}
    assert own == {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}


def test_without_enough_brokers_there_is_no_topic_and_no_coordinator(tmp_path: Path) -> None:
    with running_node(tmp_path, offsets_topic_replication_factor=3) as lonely:
        codes = []
        for _ in range(3):
            codes.append(find(lonely.address, 6, GROUP, "key").coordinators[0].error_code)
            time.sleep(0.05)

    assert codes == [ErrorCode.coordinator_not_available] * 3


@pytest.mark.parametrize("version", [1, 3])
def test_a_transactional_id_has_one_as_soon_as_the_topic_is_there(address: str, version: int) -> None:
    until(lambda: find(address, version, TRANSACTION, "key").error_code is ErrorCode.none)

    answer = find(address, version, TRANSACTION, "key")

    assert (answer.node_id, f"{answer.host}:{answer.port}") == (1, address)


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


def test_who_is_told_of_a_coordinator_is_not_sent_away_by_it(tmp_path: Path) -> None:
    """Also while the topic is new, and its partitions come to be one after the other."""
    with running_node(tmp_path) as node:
        for number in range(30):
            name = f"transfer-{number}"
            for _ in attempts(f"{name} has a coordinator"):
                if find(node.address, 6, TRANSACTION, name).coordinators[0].error_code is ErrorCode.none:
                    break
            (row,) = ask(node.address, 65, 0, transactional_ids=[name]).transaction_states
            assert row.error_code is not ErrorCode.not_coordinator
