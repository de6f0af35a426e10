"""The topic in which coordinators of groups keep their state, made and watched by the oracle."""

from __future__ import annotations

from collections.abc import Callable

from ottla.coordinator.group.hashing import group_hash
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.cleanup import COMPACTED
from ottla.sim.cluster.groups.coordinator import OFFSETS_TOPIC, Coordinator
from ottla.sim.cluster.topics import configure
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import NoAnswer


async def watched_offsets_topic(cast: Cast) -> Callable[[str], PartitionId]:
    """Gives the partition that a group's coordinator keeps it in."""
    client = cast.keeper
    while True:
        try:
            await Coordinator(client, "nobody's").find()  # the first who asks has the topic made
            topic = (await client.topics()).get(OFFSETS_TOPIC)
        except NoAnswer:
            topic = None
        if topic is not None:
            break
        await client.pause(0.05, 0.3)
    size = cast.random(OFFSETS_TOPIC).choice((3_000, 10_000, 1 << 20))
    await configure(client, OFFSETS_TOPIC, {"internal.segment.bytes": str(size)})
    for number in range(topic.partitions):
        key, name = PartitionId(topic.id, number), f"{topic.name}-{number}"
        cast.oracle.watch(key, name, is_internal=True, cleanup=COMPACTED)
    return lambda group: PartitionId(topic.id, group_hash(group) % topic.partitions)
