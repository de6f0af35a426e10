"""Partitions that this node leads."""

from __future__ import annotations

import asyncio

from tests.log.given import PARTITION, TOPIC_ID, Machine

from ottla.replica.partition import Appended, Leadership, Partition

NODE = 1
ALONE = Leadership(NODE, 5, (NODE,), (NODE,))


def leader(machine: Machine, high_watermark: int = 0, leadership: Leadership = ALONE, **overrides: object) -> Partition:
    log = machine.open(**overrides)  # type: ignore[arg-type]
    partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, high_watermark)
    partition.lead_or_follow(leadership)
    return partition


def produce(machine: Machine, partition: Partition, data: bytes, acks: int = -1) -> Appended:
    """One whose fate is known at once."""
    result = machine.call(partition.append, data, acks)
    assert not isinstance(result, asyncio.Future)
    return result
