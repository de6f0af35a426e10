"""Reading what clients push: OpenTelemetry's protobuf, and anything else that comes instead."""

from __future__ import annotations

from struct import pack
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.telemetry import received as module
from ottla.broker.telemetry.otlp import MAX_POINTS, Point, read, read_pushed
from ottla.broker.telemetry.received import Received
from ottla.record.compression import compress
from ottla.record.records import BatchTooLarge


def field(number: int, value: bytes | int | float) -> bytes:
    """A message or text, a varint, or a double."""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    if isinstance(value, float):
        return varint(number << 3 | 1) + pack("<d", value)
    return varint(number << 3) + varint(value)


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def attribute(key: bytes, value: bytes) -> bytes:
    return field(1, key) + field(2, field(1, value))


def whole(number: int) -> bytes:
    return b"\x31" + pack("<q", number)


def gauge(name: bytes, *points: bytes) -> bytes:
    return field(1, name) + field(2, b"help") + field(5, b"".join(field(1, point) for point in points))


def total(name: bytes, *points: bytes, temporality: int = 1, monotonic: int = 1) -> bytes:
    inner = b"".join(field(1, point) for point in points) + field(2, temporality) + field(3, monotonic)
    return field(1, name) + field(7, inner)


def pushed(*metrics: bytes, resource: bytes = b"") -> bytes:
    scope = field(1, field(1, b"scope")) + b"".join(field(2, metric) for metric in metrics)
    return field(1, field(1, resource) + field(2, scope))


PUSH = pushed(
    gauge(b"org.apache.kafka.producer.connection.creation.rate", field(3, 7.5) + field(4, 0.25)),
    total(
        b"org.apache.kafka.producer.connection.creation.total",
        whole(3) + field(7, attribute(b"node id", b"1")),
        whole(2),
    ),
    resource=field(1, attribute(b"client_rack", b"r1")),
)  # fmt: skip


def test_levels_and_sums_are_read_with_their_attributes() -> None:
    rack = (("client_rack", "r1"),)
    assert read(memoryview(PUSH)) == [
        Point("org.apache.kafka.producer.connection.creation.rate", rack, 0.25, False, False),
        Point("org.apache.kafka.producer.connection.creation.total", (*rack, ("node id", "1")), 3, True, True),
        Point("org.apache.kafka.producer.connection.creation.total", rack, 2, True, True),
    ]


@pytest.mark.parametrize("codec", range(5))
def test_all_compressions_are_read(codec: int) -> None:
    assert read_pushed(compress(codec, PUSH), codec, 10_000) == read(memoryview(PUSH))


def test_a_bomb_is_not_unpacked() -> None:
    with pytest.raises(BatchTooLarge):
        read_pushed(compress(1, bytes(10_000_000)), 1, 100_000)


@pytest.mark.parametrize(
    "data",
    [
        b"\xff", b"\x0a\xff", b"\x0a\x05abc", b"\x0f", b"\x08" + b"\xff" * 11, b"\x09abc",
        field(1, field(2, field(2, field(1, 5)))), pushed(gauge(b"x", *[field(4, 1.0)] * (MAX_POINTS + 1))),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        read(memoryview(data))


@given(st.one_of(st.binary(max_size=200), st.tuples(st.integers(0, len(PUSH) - 1), st.integers(0, 255)).map(
    lambda change: PUSH[: change[0]] + bytes([change[1]]) + PUSH[change[0] + 1 :]
)))  # fmt: skip
def test_garbage_is_read_or_refused_and_nothing_else(data: bytes) -> None:
    try:
        points = read(memoryview(data))
    except ValueError:
        return
    received = Received()
    received.take(UUID(int=5), "c", points, 0)
    list(received.collect())


def rows(received: Received) -> dict[str, tuple[str, list[tuple[str, float]]]]:
    told = received.collect()
    return {family.name: (family.kind.value, [row for row in values if row is not None]) for family, values in told}


def test_deltas_add_up_and_levels_are_replaced() -> None:
    received = Received()
    for _ in range(2):
        received.take(UUID(int=1 << 100), 'my "client"', read(memoryview(PUSH)), expires_at=500)
    me = 'client_id="my \\"client\\"",client_instance_id="AAAAEAAAAAAAAAAAAAAAAA",client_rack="r1"'
    assert rows(received) == {
        "ottla_client_producer_connection_creation_rate": ("gauge", [(f"{{{me}}}", 0.25)]),
        "ottla_client_producer_connection_creation_total": (
            "counter", [(f'{{{me},node_id="1"}}', 6), (f"{{{me}}}", 4)],
        ),
    }  # fmt: skip
    received.expire(499)
    assert rows(received)
    received.expire(500)
    assert rows(received) == {}


def test_there_is_a_limit_to_what_one_and_all_may_push(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OF_A_CLIENT", 10)
    monkeypatch.setattr(module, "MAX_IN_ALL", 25)
    received = Received()
    for client in range(4):
        points = [Point(f"x{number}", (), 1.0, False, False) for number in range(50)]
        received.take(UUID(int=client), "c", points, client)
    assert sum(len(values) for _, values in rows(received).values()) == 25
    assert received.left_out == 200 - 25
    received.expire(10)
    assert received._count == 0
