"""Every version that ApiVersions offers is answered, and without an error where nothing is wrong."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from tests.broker.apis import asking, transacting
from tests.broker.apis.asking import ask
from tests.broker.apis.committing import await_coordinator
from tests.waiting import PATIENCE_S

from ottla.broker.apis.registry import ALL
from ottla.broker.context import Api
from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.wire.client import ConnectionFailed

# Apache Kafka 4.3.0's broker: key, oldest and newest version that it offers.
OFFERED_BY_KAFKA = {
    0: (0, 13), 1: (4, 18), 2: (1, 11), 3: (0, 13), 8: (2, 10), 9: (1, 10), 10: (0, 6), 11: (0, 9), 12: (0, 4),
    13: (0, 5), 14: (0, 5), 15: (0, 6), 16: (0, 5), 18: (0, 4), 19: (2, 7), 20: (1, 6), 21: (0, 2), 22: (0, 5),
    23: (2, 4), 24: (0, 5), 25: (0, 4), 26: (0, 5), 27: (1, 2), 28: (0, 5),
    32: (1, 4), 33: (0, 2), 34: (1, 2), 35: (1, 5), 37: (0, 3), 42: (0, 2), 43: (0, 2), 44: (0, 1),
    45: (0, 1), 46: (0, 0), 47: (0, 0), 55: (0, 2), 57: (0, 2), 60: (0, 2),
    61: (0, 0), 64: (0, 0), 65: (0, 0), 66: (0, 2), 68: (0, 1), 69: (0, 1),
    74: (0, 1), 75: (0, 0), 80: (0, 1), 81: (0, 0),
}  # fmt: skip

EVERY_VERSION = [
    pytest.param(api, version, id=f"{api.name}-v{version}")
    for api in ALL
    for version in range(api.oldest, api.newest + 1)
]
EXPECTED = {
    asking.PUSH_TELEMETRY: {ErrorCode.unknown_subscription_id},
    asking.OFFSET_DELETE: {ErrorCode.none, ErrorCode.group_id_not_found},
    asking.UNREGISTER_BROKER: {ErrorCode.broker_id_not_registered},
    asking.ADD_RAFT_VOTER: {ErrorCode.unsupported_version},
    asking.REMOVE_RAFT_VOTER: {ErrorCode.unsupported_version},
    # What their own tests show is not repeated here: nobody has asked for a coordinator, or the group is not there.
    asking.JOIN_GROUP: {ErrorCode.not_coordinator, ErrorCode.unknown_member_id},
    asking.SYNC_GROUP: {ErrorCode.not_coordinator, ErrorCode.unknown_member_id},
    asking.HEARTBEAT: {ErrorCode.not_coordinator, ErrorCode.unknown_member_id, ErrorCode.none},
    asking.LEAVE_GROUP: {ErrorCode.not_coordinator, ErrorCode.unknown_member_id, ErrorCode.none},
    asking.DESCRIBE_GROUPS: {ErrorCode.not_coordinator, ErrorCode.group_id_not_found, ErrorCode.none},
    asking.DELETE_GROUPS: {ErrorCode.not_coordinator, ErrorCode.group_id_not_found},
    asking.CONSUMER_GROUP_HEARTBEAT: {ErrorCode.not_coordinator, ErrorCode.group_id_not_found},
    asking.CONSUMER_GROUP_DESCRIBE: {ErrorCode.not_coordinator, ErrorCode.group_id_not_found},
    transacting.ADD_OFFSETS: {ErrorCode.not_coordinator},
    transacting.END_TXN: {ErrorCode.not_coordinator},
    transacting.TXN_OFFSET_COMMIT: {ErrorCode.coordinator_not_available},
    transacting.DESCRIBE_TRANSACTIONS: {ErrorCode.not_coordinator},
}
_TRANSACTION = {"transactional_id": "mine", "producer_id": 7, "producer_epoch": 0}
Question = dict[str, Any]


def question(api: int, topic: str, topic_id: Any) -> Question:
    """The fields of all versions at once."""
    by_name = {"name": topic, "topic": topic}
    row = {"partition": 0, "partition_index": 0, "index": 0, "timestamp": -1, "current_leader_epoch": -1}
    batch = build_batch([Record(b"key", b"value", 1_700_000_000_000)])
    match api:
        case asking.PRODUCE:
            topics = [{**by_name, "topic_id": topic_id, "partition_data": [{**row, "records": batch}]}]
            return {"acks": -1, "timeout": timedelta(seconds=60), "transactional_id": None, "topic_data": topics}
        case asking.FETCH:
            partitions = [{**row, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
            return {
                "replica_id": -1, "max_wait": timedelta(0), "min_bytes": 0, "max_bytes": 1 << 20, "isolation_level": 0,
                "topics": [{**by_name, "topic_id": topic_id, "partitions": partitions}], "forgotten_topics_data": [],
            }  # fmt: skip
        case asking.LIST_OFFSETS:
            topics = [{**by_name, "partitions": [row]}]
            return {"replica_id": -1, "isolation_level": 0, "topics": topics, "timeout": timedelta(seconds=60)}
        case asking.METADATA:
            return {
                "topics": [{"name": topic, "topic_id": None}], "allow_auto_topic_creation": False,
                "include_topic_authorized_operations": True, "include_cluster_authorized_operations": True,
            }  # fmt: skip
        case asking.FIND_COORDINATOR:
            return {"key": "group", "key_type": 0, "coordinator_keys": ["group"]}
        case asking.JOIN_GROUP | asking.SYNC_GROUP | asking.HEARTBEAT | asking.LEAVE_GROUP:
            timeout = timedelta(seconds=60)
            return {
                "group_id": "nothing", "member_id": "nobody", "generation_id": 1, "members": [{"member_id": "nobody"}],
                "protocol_type": "consumer", "protocol_name": "range", "assignments": [],
                "protocols": [{"name": "range", "metadata": b""}],
                "session_timeout": timeout, "rebalance_timeout": timeout,
            }  # fmt: skip
        case asking.DESCRIBE_GROUPS | asking.DELETE_GROUPS:
            return {"groups": ["nothing"], "include_authorized_operations": True, "groups_names": ["nothing"]}
        case asking.CONSUMER_GROUP_HEARTBEAT:
            return {
                "group_id": "nothing", "member_id": "nobody", "member_epoch": 3, "topic_partitions": None,
                "rebalance_timeout": timedelta(milliseconds=-1), "subscribed_topic_names": None,
            }  # fmt: skip
        case asking.CONSUMER_GROUP_DESCRIBE:
            return {"group_ids": ["nothing"], "include_authorized_operations": True}
        case asking.LIST_GROUPS:
            return {"states_filter": [], "types_filter": []}
        case asking.OFFSET_COMMIT:
            committed = {"committed_offset": 5, "committed_leader_epoch": 0, "committed_metadata": None}
            return {
                "group_id": "group", "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None,
                "retention_time": timedelta(milliseconds=-1),
                "topics": [{**by_name, "topic_id": topic_id, "partitions": [{**row, **committed}]}],
            }  # fmt: skip
        case asking.OFFSET_FETCH:
            topics = [{**by_name, "topic_id": topic_id, "partition_indexes": [0]}]
            group: Question = {"group_id": "group", "member_id": None, "member_epoch": -1, "topics": topics}
            return {**group, "groups": [group], "require_stable": False}
        case asking.OFFSET_DELETE:
            return {"group_id": "group", "topics": [{**by_name, "partitions": [row]}]}
        case asking.API_VERSIONS:
            return {"client_software_name": "test", "client_software_version": "1.0"}
        case asking.CREATE_TOPICS:
            topics = [asking.topic_to_create("not-there-yet")]
            return {"topics": topics, "timeout": timedelta(seconds=60), "validate_only": True}
        case asking.DELETE_TOPICS:
            topics = [{"name": topic, "topic_id": None}]
            return {"topics": topics, "topic_names": [topic], "timeout": timedelta(seconds=60)}
        case asking.INIT_PRODUCER_ID:
            return {"transactional_id": None, "transaction_timeout": timedelta(seconds=60)}
        case asking.OFFSET_FOR_LEADER_EPOCH:
            return {"replica_id": -1, "topics": [{**by_name, "partitions": [{**row, "leader_epoch": 0}]}]}
        case asking.DESCRIBE_CONFIGS:
            resources = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
            return {"resources": resources, "include_synonyms": True, "include_documentation": True}
        case asking.DELETE_RECORDS:
            topics = [{**by_name, "partitions": [{**row, "offset": 0}]}]
            return {"topics": topics, "timeout": timedelta(seconds=60)}
        case asking.ALTER_REPLICA_LOG_DIRS:
            return {"dirs": []}
        case asking.DESCRIBE_LOG_DIRS:
            return {"topics": [{**by_name, "partitions": [0]}]}
        case asking.ALTER_CONFIGS | asking.INCREMENTAL_ALTER_CONFIGS:
            configs = [{"name": "retention.ms", "value": "77", "config_operation": 0}]
            resources = [{"resource_type": 2, "resource_name": topic, "configs": configs}]
            return {"resources": resources, "validate_only": False}
        case asking.CREATE_PARTITIONS:
            topics = [{"name": topic, "count": 3, "assignments": None}]
            return {"topics": topics, "timeout": timedelta(seconds=60), "validate_only": False}
        case asking.DESCRIBE_TOPIC_PARTITIONS:
            return {"topics": [{"name": topic}], "response_partition_limit": 100, "cursor": None}
        case asking.ELECT_LEADERS:
            return {"election_type": 0, "topic_partitions": None, "timeout": timedelta(seconds=60)}
        case asking.DESCRIBE_QUORUM:
            return {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
        case asking.UPDATE_FEATURES:
            level = {"feature": "metadata.version", "max_version_level": 30}
            updates = [{**level, "upgrade_type": 1, "allow_downgrade": False}]
            return {"feature_updates": updates, "timeout": timedelta(seconds=60), "validate_only": False}
        case asking.ADD_RAFT_VOTER | asking.REMOVE_RAFT_VOTER:
            listeners = [{"name": "CONTROLLER", "host": "localhost", "port": 9093}]
            return {
                "cluster_id": None, "timeout": timedelta(seconds=60), "voter_id": 9, "voter_directory_id": uuid4(),
                "listeners": listeners, "ack_when_committed": True,
            }  # fmt: skip
        case asking.UNREGISTER_BROKER:
            return {"broker_id": 99}
        case asking.ALTER_PARTITION_REASSIGNMENTS:
            topics = [{"name": topic, "partitions": [{"partition_index": 0, "replicas": [1]}]}]
            return {"topics": topics, "timeout": timedelta(seconds=60)}
        case asking.LIST_PARTITION_REASSIGNMENTS:
            return {"topics": None, "timeout": timedelta(seconds=60)}
        case asking.LIST_CONFIG_RESOURCES:
            return {"resource_types": []}
        case asking.GET_TELEMETRY_SUBSCRIPTIONS:
            return {"client_instance_id": None}
        case asking.PUSH_TELEMETRY:
            return {
                "client_instance_id": uuid4(), "subscription_id": 0, "terminating": True, "compression_type": 0,
                "metrics": b"",
            }  # fmt: skip
        case transacting.ADD_PARTITIONS:
            topics = [{**by_name, "partitions": [0]}]
            return {
                **{f"v3_and_below_{name}": value for name, value in _TRANSACTION.items()},
                "v3_and_below_topics": topics,
                "transactions": [{**_TRANSACTION, "verify_only": True, "topics": topics}],
            }  # fmt: skip
        case transacting.ADD_OFFSETS:
            return {**_TRANSACTION, "group_id": "group"}
        case transacting.END_TXN:
            return {**_TRANSACTION, "committed": True}
        case transacting.WRITE_TXN_MARKERS:
            topics = [{**by_name, "partition_indexes": [0]}]
            marker = {**_TRANSACTION, "transaction_result": True, "coordinator_epoch": 0, "topics": topics}
            return {"markers": [marker]}
        case transacting.TXN_OFFSET_COMMIT:
            commits = [{**row, "committed_offset": 7, "committed_leader_epoch": -1, "committed_metadata": None}]
            return {**_TRANSACTION, "group_id": "group", "topics": [{**by_name, "partitions": commits}]}
        case transacting.DESCRIBE_PRODUCERS:
            return {"topics": [{**by_name, "partition_indexes": [0]}]}
        case transacting.DESCRIBE_TRANSACTIONS:
            return {"transactional_ids": ["mine"]}
        case transacting.LIST_TRANSACTIONS:
            return {"state_filters": ["Ongoing"], "producer_id_filters": []}
        case asking.DESCRIBE_CLUSTER:
            return {"include_cluster_authorized_operations": True, "include_fenced_brokers": True}
    raise AssertionError(f"no question for API {api}")


def error_codes(entity: Any) -> list[ErrorCode]:
    """All error codes in an answer, wherever they stand."""
    if isinstance(entity, tuple):
        return [code for item in entity for code in error_codes(item)]
    if not hasattr(entity, "__dataclass_fields__"):
        return []
    own = [code for name in entity.__dataclass_fields__ for code in error_codes(getattr(entity, name))]
    return [entity.error_code, *own] if hasattr(entity, "error_code") else own


@pytest.fixture(scope="module", autouse=True)
def coordinator(address: str) -> None:
    await_coordinator(address)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION)
def test_a_version_that_is_offered_is_answered(
    api: Api, version: int, address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    (described,) = asking.metadata(address, topic).topics

    answer = ask(address, api.key, version, **question(api.key, topic, described.topic_id))

    assert set(error_codes(answer)) <= EXPECTED.get(api.key, {ErrorCode.none})


def test_the_versions_offered_are_those_of_apache_kafka(address: str) -> None:
    answer = ask(address, asking.API_VERSIONS, 4, **question(asking.API_VERSIONS, "", None))

    assert {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys} == OFFERED_BY_KAFKA


def test_an_api_that_is_not_offered_closes_the_connection(address: str) -> None:
    with pytest.raises(ConnectionFailed):
        ask(address, 50, 0, users=[])  # DescribeUserScramCredentials


def test_produce_below_version_3_is_offered_and_refused(address: str) -> None:
    import socket

    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_S) as client:
        frame = struct.pack(">hhih", 0, 2, 1, -1) + struct.pack(">hii", -1, 1000, 0)
        client.sendall(struct.pack(">i", len(frame)) + frame)

        assert client.recv(100) == b""
