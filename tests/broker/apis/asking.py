"""Asks a broker one thing, in any version, and gives the answer as kio's entity."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from tests.waiting import PATIENCE_S

from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection

PRODUCE, FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR, API_VERSIONS = 0, 1, 2, 3, 10, 18
OFFSET_COMMIT, OFFSET_FETCH, OFFSET_DELETE = 8, 9, 47
CREATE_TOPICS, DELETE_TOPICS, INIT_PRODUCER_ID, OFFSET_FOR_LEADER_EPOCH = 19, 20, 22, 23
DESCRIBE_CONFIGS, DESCRIBE_CLUSTER = 32, 60
DELETE_RECORDS, ALTER_REPLICA_LOG_DIRS, DESCRIBE_LOG_DIRS = 21, 34, 35
ALTER_CONFIGS, INCREMENTAL_ALTER_CONFIGS, LIST_CONFIG_RESOURCES = 33, 44, 74
CREATE_PARTITIONS, DESCRIBE_TOPIC_PARTITIONS, ELECT_LEADERS, DESCRIBE_QUORUM = 37, 75, 43, 55
UPDATE_FEATURES, UNREGISTER_BROKER, ADD_RAFT_VOTER, REMOVE_RAFT_VOTER = 57, 64, 80, 81
ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS = 45, 46
GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72
JOIN_GROUP, HEARTBEAT, LEAVE_GROUP, SYNC_GROUP, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = 11, 12, 13, 14, 15, 16, 42
CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69


def ask(address: str, api: int, version: int, **values: Any) -> Any:
    """Values are those of the newest version; older ones take what they know. Raises ConnectionFailed if hung up on."""
    return asyncio.run(_ask(address, build(request_type(api, version), values)))


async def _ask(address: str, request: Any) -> Any:
    host, _, port = address.rpartition(":")
    nothing = cast(Any, None)
    env = Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)
    async with await Connection.open(env, host, int(port)) as connection:
        return await connection.call(request, within=PATIENCE_S)


def metadata(address: str, *names: str | UUID, version: int = 13, create: bool = False, **values: Any) -> Any:
    """Without names: of all topics."""
    topics = [
        {"name": None if isinstance(name, UUID) else name, "topic_id": name if isinstance(name, UUID) else None}
        for name in names
    ]
    given: dict[str, Any] = {
        "topics": topics if names or version == 0 else None,
        "allow_auto_topic_creation": create,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    return ask(address, METADATA, version, **given | values)


def topic_to_create(name: str, partitions: int = 1, replicas: int = 1, **values: Any) -> dict[str, Any]:
    given = {"name": name, "num_partitions": partitions, "replication_factor": replicas}
    configs = [{"name": key, "value": value} for key, value in values.pop("configs", {}).items()]
    return {**given, "assignments": [], "configs": configs, **values}


def create(address: str, *topics: dict[str, Any], version: int = 7, **values: Any) -> Any:
    given = {"topics": topics, "timeout": timedelta(seconds=PATIENCE_S), "validate_only": False}
    return ask(address, CREATE_TOPICS, version, **given | values)


def list_offset(
    address: str, topic: str, timestamp: int, *, partition: int = 0, epoch: int = -1, version: int = 11, **values: Any
) -> Any:
    """The answer for one partition."""
    row = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
    given = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [{"name": topic, "partitions": [row]}],
        "timeout": timedelta(seconds=PATIENCE_S),
    }
    (answered,) = ask(address, LIST_OFFSETS, version, **given | values).topics
    assert answered.name == topic
    return answered.partitions[0]
