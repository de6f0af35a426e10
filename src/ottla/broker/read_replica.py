"""Reading from the nearest replica (KIP-392): a leader tells a consumer which of its followers is in the same rack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.context import Context

_BY_RACK: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
NOBODY: Final = -1


def selects_by_rack(context: Context) -> bool:
    return context.node.config.get("replica.selector.class") == _BY_RACK


def preferred_replica(context: Context, partition: Partition, rack: str, offset: int) -> int:
    """The follower that a consumer in a rack had better read from; NOBODY for the leader itself."""
    leading = partition.leading
    if leading is None or not rack:
        return NOBODY
    brokers = context.node.image.brokers
    listener = context.connection.listener
    here = brokers.get(context.node.config.node_id)
    if here is not None and here.rack == rack:
        return NOBODY
    near = []
    for follower in leading.followers.values():
        broker = brokers.get(follower.broker_id)
        if (
            broker is not None
            and not broker.fenced
            and broker.rack == rack
            and broker.endpoint(listener) is not None
            and follower.broker_id in leading.isr.committed
            and follower.start_offset <= offset <= follower.end_offset
        ):
            near.append(follower)
    if not near:
        return NOBODY
    # The one that has most, of those the one that caught up last, of those the highest number.
    return max(near, key=lambda each: (each.end_offset, each.caught_up_at, each.broker_id)).broker_id
