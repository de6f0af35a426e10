"""What a read is about, asked of the cluster: its partitions, and the offsets at which it begins and ends."""

from __future__ import annotations

import re

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.model.near_miss import did_you_mean
from ottla.spark.cluster import EARLIEST, LATEST, NO_OFFSET, Cluster, Topic
from ottla.spark.positions import Kind, Offsets, Positions
from ottla.spark.source_options import SourceOptions


async def wanted_topics(cluster: Cluster, options: SourceOptions, *, must_be_there: bool) -> dict[str, Topic]:
    """By name. Of a pattern, those that have it in their name now, and are not Kafka's own, as the official source."""
    if options.pattern is not None:
        pattern = re.compile(options.pattern)
        found = await cluster.topics()
        return {name: topic for name, topic in found.items() if pattern.search(name) and not topic.internal}
    names = options.topics or {place.topic for place in options.assigned}
    found = await cluster.topics(names)
    if must_be_there and (missing := sorted(set(names) - set(found))):
        hint = did_you_mean(missing[0], await cluster.topics())
        raise OttlaError(f"topic {missing[0]} is not there{hint}")
    for place in options.assigned:
        if must_be_there and place.partition not in found[place.topic].leaders:
            count = len(found[place.topic].leaders)
            raise OttlaError(f"assign names {place}, and topic {place.topic} has only {count} partitions")
    return found


def wanted_partitions(options: SourceOptions, topics: dict[str, Topic]) -> list[TopicPartition]:
    there = [TopicPartition(topic.name, number) for topic in topics.values() for number in topic.leaders]
    return sorted(place for place in there if not options.assigned or place in options.assigned)


async def resolved(
    cluster: Cluster, positions: Positions, places: list[TopicPartition], *, later_than_all: int | None
) -> Offsets:
    """Offsets of positions. `later_than_all` is what a time means that is later than all records; None: an error."""
    said = positions.of(places)
    if positions.kind is Kind.OFFSETS:
        named = {place: offset for place, offset in said.items() if offset >= 0}
        asked = {place: offset for place, offset in said.items() if offset < 0}
        return named | (await cluster.list_offsets(asked) if asked else {})
    found = await cluster.list_offsets(said)
    if positions.kind is Kind.EVERYWHERE:
        return found
    without = [place for place, offset in found.items() if offset == NO_OFFSET]
    if without and later_than_all is None:
        raise OttlaError(
            f"{positions.option}: {without[0]} has no record as late as {said[without[0]]}. With the option "
            "startingOffsetsByTimestampStrategy=latest, reading begins there with what is written next"
        )
    if without:
        found |= await cluster.list_offsets(dict.fromkeys(without, later_than_all or LATEST))
    return found


async def bounds(cluster: Cluster, places: list[TopicPartition]) -> tuple[Offsets, Offsets]:
    """Where partitions begin and end now."""
    if not places:
        return {}, {}
    return (
        await cluster.list_offsets(dict.fromkeys(places, EARLIEST)),
        await cluster.list_offsets(dict.fromkeys(places, LATEST)),
    )
