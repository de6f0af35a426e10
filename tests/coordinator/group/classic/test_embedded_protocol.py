"""Subscriptions and assignments are read and written as kio, which is made from Kafka's schemas, does."""

from __future__ import annotations

from importlib import import_module
from io import BytesIO
from typing import Any

import pytest
from kio.serial import entity_writer

from ottla.coordinator.group.classic.embedded_protocol import (
    EmbeddedAssignment,
    Subscription,
    Unreadable,
    read_assignment,
    read_subscription,
    write_assignment,
)

VERSIONS = [0, 1, 2, 3]


def encoded(kind: str, version: int, **fields: Any) -> bytes:
    module = import_module(f"kio.schema.consumer_protocol_{kind}.v{version}.data")
    entity = getattr(module, f"ConsumerProtocol{kind.title()}")
    known = entity.__dataclass_fields__
    places = {
        name: tuple(module.TopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in value.items())
        for name, value in fields.items()
        if isinstance(value, dict) and name in known
    }
    buffer = BytesIO()
    entity_writer(entity)(buffer, entity(**{name: value for name, value in fields.items() if name in known} | places))
    return version.to_bytes(2, "big") + buffer.getvalue()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_is_read(version: int) -> None:
    data = encoded(
        "subscription",
        version,
        topics=("orders", "bills"),
        user_data=b"mine",
        owned_partitions={"orders": [0, 2]},
        generation_id=7,
        rack_id="here",
    )

    assert read_subscription(data) == Subscription(
        version, ("orders", "bills"), {"orders": (0, 2)} if version >= 1 else {}, "here" if version >= 3 else None
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_is_read_and_written(version: int) -> None:
    places = {"orders": (0, 2), "bills": (1,)}
    data = encoded("assignment", version, assigned_partitions=places, user_data=None)

    assert read_assignment(data) == EmbeddedAssignment(places)
    assert write_assignment(version, places) == data


def test_what_an_assignor_of_ones_own_adds_is_seen() -> None:
    data = encoded("assignment", 1, assigned_partitions={}, user_data=b"mine")

    assert read_assignment(data) == EmbeddedAssignment({}, b"mine")


def test_nothing_was_assigned() -> None:
    assert read_assignment(b"") == EmbeddedAssignment({})


def test_a_newer_version_is_read_as_far_as_it_is_known() -> None:
    data = encoded("subscription", 3, topics=("orders",), owned_partitions={}, generation_id=7, rack_id=None)

    assert read_subscription(b"\x00\x09" + data[2:] + b"more") == Subscription(3, ("orders",), {})


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\x00", id="half a version"),
        pytest.param(b"\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", id="version -1"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x00\x06ord", id="a name that ends early"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff", id="no name"),
        pytest.param(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\xff\xff\xff\xff", id="not text"),
        pytest.param(b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff", id="no list"),
        pytest.param(b"\x00\x00\x7f\xff\xff\xff", id="a list that cannot be"),
        pytest.param(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05", id="user data that ends early"),
        pytest.param(b"\x00\x01\x00\x00\x00\x00\xff\xff\xff\xff", id="no owned partitions in 1"),
    ],
)
def test_what_does_not_follow_the_format(data: bytes) -> None:
    with pytest.raises(Unreadable):
        read_subscription(data)
