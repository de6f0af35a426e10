"""The brokers of the cluster, as a client on one listener gets to see them."""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple

from ottla.env.ports import Randomness
from ottla.metadata.image import MetadataImage, PartitionImage

NO_BROKER = -1


class BrokerAddress(NamedTuple):
    id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


def brokers_on(image: MetadataImage, listener: str, fenced: Container[int] = ()) -> list[BrokerAddress]:
    """Those that have this listener: another one's address may not be reachable from where the client is.

    Of the fenced ones only these.
    """
    return [
        BrokerAddress(broker.id, endpoint.host, endpoint.port, broker.rack, broker.fenced)
        for broker in image.brokers.values()
        if (not broker.fenced or broker.id in fenced) and (endpoint := broker.endpoint(listener)) is not None
    ]


def any_controller(image: MetadataImage, random: Randomness) -> int:
    """Clients cannot reach the controller; any live broker passes on to it what they take there (KIP-590)."""
    alive = [broker.id for broker in image.brokers.values() if not broker.fenced]
    return alive[random.below(len(alive))] if alive else NO_BROKER


def offline_replicas(image: MetadataImage, partition: PartitionImage, listener: str) -> list[int]:
    return [
        replica
        for replica, directory in zip(partition.replicas, partition.directories, strict=True)
        if (broker := image.brokers.get(replica)) is None
        or broker.fenced
        or broker.endpoint(listener) is None
        or not broker.has_online(directory)
    ]
