"""Who leads a partition that was asked of the wrong node, and where that one listens (KIP-951).

The client goes there at once, without asking for metadata first.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.metadata.image import BrokerImage
from ottla.wire.pieces import count, text
from ottla.wire.varint import uvarint

if TYPE_CHECKING:
    from ottla.broker.context import Context

_LEADER: Final = Struct(">iib")  # who, in which epoch, no tagged fields
_NUMBER: Final = Struct(">i")


class CurrentLeader(NamedTuple):
    leader: int
    epoch: int

    def encoded(self) -> bytes:
        """As the value of a tagged field, its size before it."""
        return uvarint(_LEADER.size) + _LEADER.pack(self.leader, self.epoch, 0)


def current_leader(context: Context, topic: str, number: int) -> CurrentLeader:
    replicas = context.node.replicas
    partition = replicas.by_name.get((topic, number))
    if partition is not None:
        return CurrentLeader(partition.leadership.leader, partition.leader_epoch)
    known = replicas.image.topic(topic)
    image = known.partitions.get(number) if known is not None else None
    return CurrentLeader(image.leader, image.leader_epoch) if image is not None else CurrentLeader(-1, -1)


def endpoints_of(context: Context, leaders: Iterable[CurrentLeader]) -> bytes:
    """The tagged fields at an answer's end: where those leaders listen that live."""
    brokers = context.node.image.brokers
    found = {each.leader: brokers[each.leader] for each in leaders if each.leader in brokers}
    rows = [
        row
        for broker in found.values()
        if not broker.fenced and (row := _endpoint(broker, context.connection.listener)) is not None
    ]
    if not rows:
        return b"\x00"
    value = count(len(rows), flexible=True) + b"".join(rows)
    return b"\x01\x00" + uvarint(len(value)) + value


def _endpoint(broker: BrokerImage, listener: str) -> bytes | None:
    endpoint = broker.endpoint(listener)
    if endpoint is None:
        return None
    place = _NUMBER.pack(broker.id) + text(endpoint.host, flexible=True) + _NUMBER.pack(endpoint.port)
    return place + text(broker.rack, flexible=True) + b"\x00"
