"""Throttles of replication: how much of what is being moved brokers may send and take in a second.

As kafka-reassign-partitions.sh sets them: the rate on every broker that takes part, and on each topic for which
replicas it counts, `partition:broker`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.cli.admin import configs
from ottla.cli.admin.configs import Change, Operation, Resource
from ottla.cli.admin.session import Session
from ottla.model.names import ResourceType, TopicPartition

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS: Final = "leader.replication.throttled.replicas"
FOLLOWERS: Final = "follower.replication.throttled.replicas"


async def set_throttles(
    session: Session,
    rate: int,
    sources: Mapping[TopicPartition, Sequence[int]],
    destinations: Mapping[TopicPartition, Sequence[int]],
) -> None:
    """What `sources` send and `destinations` take; a partition that takes nothing is not throttled."""
    of_topics: dict[str, dict[str, list[str]]] = defaultdict(lambda: {LEADERS: [], FOLLOWERS: []})
    for name, brokers in ((LEADERS, sources), (FOLLOWERS, destinations)):
        for (topic, number), replicas in brokers.items():
            of_topics[topic][name] += [f"{number}:{broker}" for broker in replicas]
    for topic, lists in of_topics.items():
        changes = [Change(name, Operation.SET, ",".join(entries)) for name, entries in lists.items() if entries]
        await configs.alter(session, configs.of_topic(topic), changes, check_only=False)
    involved = {broker for side in (sources, destinations) for replicas in side.values() for broker in replicas}
    for broker in sorted(involved & session.brokers.keys()):
        changes = [Change(name, Operation.SET, str(rate)) for name in RATES]
        await configs.alter(session, _broker(broker), changes, check_only=False)


async def remove_throttles(session: Session, topics: Iterable[str]) -> bool:
    """Of these topics and of all brokers that are up; False if there were none."""
    found = await configs.configs(session, [configs.of_topic(topic) for topic in topics], [LEADERS, FOLLOWERS])
    for broker in sorted(session.brokers):
        found |= await configs.configs(session, [_broker(broker)], RATES)
    any_removed = False
    for resource, entries in found.items():
        own = [Change(entry.name, Operation.DELETE) for entry in entries if entry.source == resource.own_source]
        if own:
            await configs.alter(session, resource, own, check_only=False)
            any_removed = True
    return any_removed


def _broker(number: int) -> Resource:
    return Resource(ResourceType.BROKER, str(number))
