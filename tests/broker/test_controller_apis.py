"""What brokers ask of a controller over its listener, by real sockets, in every version that Kafka 4.3 offers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from tests.broker.apis.asking import ask

from ottla.broker.controller_apis.registry import ALL
from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.controller.requests import CreateTopics, NewTopic
from ottla.model.errors import ErrorCode
from ottla.testing.cluster import Cluster, running_cluster

REGISTRATION, HEARTBEAT, ALTER_PARTITION, PRODUCER_IDS, CONTROLLER, ASSIGN = 62, 63, 56, 67, 70, 73
FEATURES = [
    {"name": name, "min_supported_version": low, "max_supported_version": high}
    for name, (low, high) in SUPPORTED.items()
]
LISTENERS = [{"name": "PLAINTEXT", "host": "127.0.0.1", "port": 9, "security_protocol": 0}]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running_cluster(Path(tmp_path_factory.mktemp("controllers")), 1) as running:
        yield running


@pytest.fixture(scope="module")
def address(cluster: Cluster) -> str:
    return f"127.0.0.1:{cluster.controller_ports[1]}"


def register(cluster: Cluster, address: str, broker_id: int, version: int = 4, **values: Any) -> Any:
    values = {
        "broker_id": broker_id,
        "cluster_id": cluster.cluster_id,
        "incarnation_id": UUID(int=broker_id * 1000),
        "listeners": LISTENERS,
        "features": FEATURES,
        "rack": None,
        "is_migrating_zk_broker": False,
        "log_dirs": [UUID(int=broker_id * 1000 + 1)],
        "previous_broker_epoch": -1,
        **values,
    }
    return ask(address, REGISTRATION, version, **values)


def beat(address: str, broker_id: int, epoch: int, version: int = 2, **values: Any) -> Any:
    values = {
        "broker_id": broker_id,
        "broker_epoch": epoch,
        "current_metadata_offset": 1 << 40,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": (),
        "cordoned_log_dirs": None,
        **values,
    }
    return ask(address, HEARTBEAT, version, **values)


def living(cluster: Cluster, address: str, broker_id: int) -> int:
    answer = register(cluster, address, broker_id, incarnation_id=UUID(int=broker_id * 1000))
    assert answer.error_code is ErrorCode.none
    assert not beat(address, broker_id, answer.broker_epoch).is_fenced
    epoch: int = answer.broker_epoch
    return epoch


def test_every_api_is_offered_as_kafka_offers_it() -> None:
    offered = {api.key: (api.oldest, api.newest) for api in ALL}

    assert {key: offered[key] for key in (56, 62, 63, 67, 70, 73)} == {
        56: (2, 3), 62: (0, 4), 63: (0, 2), 67: (0, 0), 70: (0, 0), 73: (0, 0)
    }  # fmt: skip


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_broker_registers_and_lives(cluster: Cluster, address: str, version: int) -> None:
    answer = register(cluster, address, 20 + version, version)
    first = beat(address, 20 + version, answer.broker_epoch, version - 2, current_metadata_offset=0)
    second = beat(address, 20 + version, answer.broker_epoch, version - 2)

    assert answer.error_code is ErrorCode.none
    assert (first.error_code, first.is_caught_up, first.is_fenced) == (ErrorCode.none, False, True)
    assert (second.is_caught_up, second.is_fenced, second.should_shut_down) == (True, False, False)


@pytest.mark.parametrize("version", [0, 1])
def test_a_broker_that_names_no_log_dirs_is_too_old(cluster: Cluster, address: str, version: int) -> None:
    assert register(cluster, address, 30, version).error_code is ErrorCode.invalid_registration


def test_what_a_registration_is_refused_for(cluster: Cluster, address: str) -> None:
    living(cluster, address, 31)

    wrong: dict[ErrorCode, dict[str, Any]] = {
        ErrorCode.duplicate_broker_registration: {"incarnation_id": UUID(int=7), "log_dirs": [UUID(int=7)]},
        ErrorCode.inconsistent_cluster_id: {"cluster_id": "another"},
        ErrorCode.broker_id_not_registered: {"is_migrating_zk_broker": True},
        ErrorCode.unsupported_version: {"features": FEATURES[:1]},
    }
    for code, values in wrong.items():
        answer = register(cluster, address, 31, **values)
        assert (answer.error_code, answer.broker_epoch) == (code, -1)


def test_a_stale_heartbeat_is_told_so(cluster: Cluster, address: str) -> None:
    answer = beat(address, 99, 5)

    assert (answer.error_code, answer.is_fenced) == (ErrorCode.stale_broker_epoch, True)


def test_producer_ids_come_in_blocks(cluster: Cluster, address: str) -> None:
    epoch = living(cluster, address, 32)

    one, other = (ask(address, PRODUCER_IDS, 0, broker_id=32, broker_epoch=epoch) for _ in range(2))
    stale = ask(address, PRODUCER_IDS, 0, broker_id=32, broker_epoch=epoch + 1)

    assert (one.error_code, one.producer_id_len) == (ErrorCode.none, 1000)
    assert other.producer_id_start == one.producer_id_start + 1000
    assert stale.error_code is ErrorCode.stale_broker_epoch


@pytest.mark.parametrize("version", [2, 3])
def test_a_leader_proposes_another_isr(cluster: Cluster, address: str, version: int) -> None:
    leader, follower = 40 + version, 50 + version
    epochs = {broker_id: living(cluster, address, broker_id) for broker_id in (leader, follower)}
    topic = NewTopic(f"t{version}", assignments=((0, (leader, follower)),))
    controller = cluster.active_controller().local_controller
    (created,) = cluster.run(controller.submit(CreateTopics((topic,))))

    def propose(isr: list[int], partition_epoch: int) -> Any:
        row = {
            "partition_index": 0,
            "leader_epoch": 0,
            "new_isr": isr,
            "new_isr_with_epochs": [{"broker_id": member, "broker_epoch": epochs[member]} for member in isr],
            "leader_recovery_state": 0,
            "partition_epoch": partition_epoch,
        }
        topics = [{"topic_id": created.topic_id, "partitions": [row]}]
        return ask(address, ALTER_PARTITION, version, broker_id=leader, broker_epoch=epochs[leader], topics=topics)

    (topic_row,) = propose([leader], 0).topics
    (row,) = topic_row.partitions
    assert (row.error_code, row.isr, row.partition_epoch, row.leader_id) == (ErrorCode.none, (leader,), 1, leader)
    assert propose([leader], 0).topics[0].partitions[0].error_code is ErrorCode.invalid_update_version


def test_a_whole_request_of_a_stale_broker_is_refused(address: str) -> None:
    answer = ask(address, ALTER_PARTITION, 3, broker_id=98, broker_epoch=1, topics=[])

    assert answer.error_code is ErrorCode.stale_broker_epoch


def test_a_broker_tells_where_its_replicas_are(cluster: Cluster, address: str) -> None:
    epoch, here = living(cluster, address, 33), UUID(int=33001)
    controller = cluster.active_controller().local_controller
    (created,) = cluster.run(controller.submit(CreateTopics((NewTopic("dirs", assignments=((0, (33,)),)),))))
    topics = [{"topic_id": created.topic_id, "partitions": [{"partition_index": 0}, {"partition_index": 5}]}]

    answer = ask(address, ASSIGN, 0, broker_id=33, broker_epoch=epoch, directories=[{"id_": here, "topics": topics}])

    (directory,) = answer.directories
    assert (answer.error_code, directory.id_) == (ErrorCode.none, here)
    assert [(row.partition_index, row.error_code) for row in directory.topics[0].partitions] == [
        (0, ErrorCode.none),
        (5, ErrorCode.unknown_topic_or_partition),
    ]


def test_a_controller_registers(cluster: Cluster, address: str) -> None:
    answer = ask(
        address,
        CONTROLLER,
        0,
        controller_id=77,
        incarnation_id=UUID(int=770),
        zk_migration_ready=False,
        listeners=LISTENERS,
        features=FEATURES,
    )

    assert (answer.error_code, answer.error_message) == (ErrorCode.none, None)
    assert cluster.until(lambda: 77 in cluster.nodes[1].image.controllers)


@pytest.mark.parametrize(
    ("broker", "value", "code"),
    [
        ("1", "", ErrorCode.none),
        ("1", "/somewhere", ErrorCode.invalid_config),  # only the broker knows which dirs it has
        ("99", "", ErrorCode.broker_id_not_registered),
        ("one", "", ErrorCode.invalid_request),
    ],
)
@pytest.mark.parametrize(("key", "version"), [(33, 2), (44, 1)])
def test_a_controller_that_is_asked_directly_changes_only_what_it_can_judge(
    address: str, broker: str, value: str, code: ErrorCode, key: int, version: int
) -> None:
    config = {"name": "cordoned.log.dirs", "value": value, "config_operation": 0}
    resource = {"resource_type": 4, "resource_name": broker, "configs": [config]}

    (answer,) = ask(address, key, version, resources=[resource], validate_only=True).responses

    assert answer.error_code is code
