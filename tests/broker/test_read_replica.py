"""Which replica a consumer is sent to (KIP-392)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine
from tests.replica.test_leading import THREE, Around

from ottla.broker.context import Context
from ottla.broker.read_replica import preferred_replica
from ottla.metadata.image import BrokerImage, Endpoint
from ottla.replica.partition import Partition


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def a_broker(number: int, rack: str) -> BrokerImage:
    endpoints = (Endpoint("PLAINTEXT", "h", 9092, 0),)
    return BrokerImage(number, number * 10, UUID(int=number), endpoints, {}, rack, False, False, ())


def preferred(partition: Partition, racks: dict[int, str], rack: str) -> int:
    brokers = {number: a_broker(number, where) for number, where in racks.items()}
    node: Any = SimpleNamespace(image=SimpleNamespace(brokers=brokers), config=SimpleNamespace(node_id=1))
    context = SimpleNamespace(node=node, connection=SimpleNamespace(listener="PLAINTEXT"))
    return preferred_replica(cast("Context", context), partition, rack, 0)


def test_of_two_that_are_level_the_one_with_the_higher_number_as_in_kafka(machine: Machine) -> None:
    partition = Partition(machine.env, 1, PARTITION, TOPIC_ID, machine.open(), 0, Around())
    partition.lead_or_follow(THREE)
    for follower in (3, 2):
        partition.follower_fetched(follower, 0, 0, follower * 10)
    racks = {1: "a", 2: "b", 3: "b"}
    assert preferred(partition, racks, "b") == 3
    assert preferred(partition, racks, "a") == -1, "the leader itself"
    assert preferred(partition, racks, "c") == -1, "nobody"
