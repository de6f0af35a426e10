"""Makes the topics of a simulated cluster."""

from __future__ import annotations

from datetime import timedelta

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import CREATE_TOPICS, KnownTopic, NoAnswer

_VERSION = 7


async def create(client: ClusterClient, shape: TopicShape, *, is_internal: bool = False) -> KnownTopic:
    """As often as it takes; the oracle watches it from then on."""
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
        if topic is not None:
            watch(client, topic, is_internal=is_internal)
            return topic
        await client.pause(0.05, 0.3)


def watch(client: ClusterClient, topic: KnownTopic, *, is_internal: bool = False) -> None:
    for number in range(topic.partitions):
        client.oracle.watch(
            PartitionId(topic.id, number), f"{topic.name}-{number}", is_internal=is_internal
        )  # fmt: skip
