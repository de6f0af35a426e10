"""Asks for the election of a partition's leader."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.oracle import PartitionStory
from ottla.sim.workload.client import NoAnswer

ELECT_LEADERS: Final = 43
_VERSION: Final = 2
_PREFERRED, _UNCLEAN = 0, 1


async def elect(client: ClusterClient, story: PartitionStory, *, unclean: bool) -> ErrorCode | None:
    """None if there was no answer."""
    topic, _, number = story.name.rpartition("-")
    request = {
        "election_type": _UNCLEAN if unclean else _PREFERRED,
        "topic_partitions": [{"topic": topic, "partitions": [int(number)]}],
        "timeout": timedelta(seconds=3),
    }
    try:
        answer = await client.ask_any(ELECT_LEADERS, _VERSION, request)
    except NoAnswer:
        await client.refresh()
        return None
    code: ErrorCode = answer.error_code
    for topic_row in answer.replica_election_results:
        for row in topic_row.partition_result:
            code = row.error_code
    client.oracle.counts[f"{'unclean' if unclean else 'preferred'} election: {code.name}"] += 1
    return code
