"""How clean compacted topics are, as the leaders of their partitions tell. Brokers of Apache Kafka do not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from ottla.cli.admin.configs import of_topic
from ottla.cli.admin.moving import Moving
from ottla.cli.admin.session import NotAnswered
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo

STATE: Final = "ottla.compaction.state"


async def states(session: Session, topics: Sequence[TopicInfo]) -> dict[TopicPartition, Mapping[str, Any]]:
    """Of those partitions whose leader answers and knows."""
    found: dict[TopicPartition, Mapping[str, Any]] = {}
    leaders = {part.leader for topic in topics for part in topic.partitions if part.leader >= 0}
    for broker in sorted(leaders):
        led = {
            TopicPartition(topic.name, part.number)
            for topic in topics
            for part in topic.partitions
            if part.leader == broker
        }
        told: Mapping[str, Mapping[str, Any]] = {}
        with suppress(Moving, NotAnswered):
            told = await _told(session, topics, broker)
        for topic, states_of in told.items():
            for number, state in states_of.items():
                if (place := TopicPartition(topic, int(number))) in led:
                    found[place] = state
    return found


async def _told(session: Session, topics: Sequence[TopicInfo], broker: int) -> dict[str, Mapping[str, Any]]:
    from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource

    resources: Any = tuple(
        DescribeConfigsResource(
            resource_type=int(of_topic(topic.name).type),  # type: ignore[arg-type]
            resource_name=topic.name,
            configuration_keys=(STATE,),
        )
        for topic in topics
    )
    request = DescribeConfigsRequest(resources=resources, include_synonyms=False, include_documentation=False)
    answer = await session.call(request, broker=broker)
    return {
        result.resource_name: json.loads(config.value)
        for result in answer.results
        for config in result.configs
        if config.name == STATE and config.value is not None
    }
