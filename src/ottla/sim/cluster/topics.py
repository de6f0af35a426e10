"""Makes the topics of a simulated cluster."""

from __future__ import annotations

from collections.abc import Container, Mapping
from datetime import timedelta
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.cleanup import KEEPS_ALL, Cleanup
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import CREATE_TOPICS, KnownTopic, NoAnswer

ALTER_CONFIGS = 44
_VERSION = 7
_TOPIC, _SET = 2, 0


async def create(
    client: ClusterClient, shape: TopicShape, *, is_internal: bool = False, gone: Container[UUID] = ()
) -> KnownTopic:
    """As often as it takes; the oracle watches it from then on. A broker that is behind may tell of one `gone`."""
    wanted = {
        "name": shape.name,
        "num_partitions": shape.partitions,
        "replication_factor": shape.replicas,
        "assignments": [],
        "configs": [{"name": name, "value": value} for name, value in shape.configs.items()],
    }
    request = {"topics": [wanted], "timeout": timedelta(seconds=3), "validate_only": False}
    while True:
        try:
            answer = await client.ask_any(CREATE_TOPICS, _VERSION, request)
            code = answer.topics[0].error_code
            if code is not ErrorCode.none:
                client.oracle.counts[f"create: {code.name}"] += 1
            topic = (await client.topics()).get(shape.name)
        except NoAnswer:
            topic = None
        if topic is not None and topic.id not in gone:
            watch(client, topic, is_internal=is_internal, cleanup=Cleanup.by_configs(shape.configs))
            return topic
        await client.pause(0.05, 0.3)


async def configure(client: ClusterClient, topic: str, configs: Mapping[str, str]) -> None:
    """As often as it takes."""
    rows = [{"name": name, "config_operation": _SET, "value": value} for name, value in configs.items()]
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configs": rows}
    while True:
        try:
            answer = await client.ask_any(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
            if answer.responses[0].error_code is ErrorCode.none:
                return
        except NoAnswer:
            pass
        await client.pause(0.05, 0.3)


def watch(client: ClusterClient, topic: KnownTopic, *, is_internal: bool = False, cleanup: Cleanup = KEEPS_ALL) -> None:
    for number in range(topic.partitions):
        key, name = PartitionId(topic.id, number), f"{topic.name}-{number}"
        client.oracle.watch(key, name, is_internal=is_internal, cleanup=cleanup)
