"""Requests that were right until somebody changed a few bytes: every API, every version that the node offers."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from tests.broker.apis.test_every_version import question
from tests.hostile.conftest import MB, Bystander, memory
from tests.interop.conftest import create_topic
from tests.interop.raw import METADATA, PRODUCE, Raw, framed, produce_values

from ottla.broker.apis.registry import ALL
from ottla.broker.context import Api
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.process import NodeProcess
from ottla.wire.build import build, request_type
from ottla.wire.codec import encode_body
from ottla.wire.varint import uvarint

HUGE = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\x7f\xff",
    b"\xff\xfa",
)
VICTIM = "victim"


@pytest.fixture(scope="module")
def victim(node: NodeProcess) -> UUID:
    """A topic that mutated requests may hit; gives its id."""
    create_topic(node.address, VICTIM, 1)
    with Raw(node.port) as raw:
        answer = raw.ask(
            METADATA, 12, topics=[{"name": VICTIM, "topic_id": None}], allow_auto_topic_creation=False,
            include_topic_authorized_operations=False,
        )  # fmt: skip
    found: UUID = answer.topics[0].topic_id
    return found


def body_of(api: Api, version: int, topic_id: UUID) -> bytes:
    return encode_body(build(request_type(api.key, version), question(api.key, VICTIM, topic_id)))


def mutations(body: bytes, dice: random.Random, times: int) -> Iterator[bytes]:
    for _ in range(times):
        at = dice.randrange(len(body)) if body else 0
        yield body[:at]
        yield body[:at] + bytes((dice.randrange(256),)) + body[at + 1 :]
        yield body[:at] + dice.randbytes(4) + body[at + 4 :]
        yield body[:at] + dice.choice(HUGE) + body[at:]
        huge = dice.choice(HUGE)
        yield body[:at] + huge + body[at + len(huge) :]
    yield body + dice.randbytes(20)
    yield body + body


def harass(node: NodeProcess, bodies: Iterator[bytes], api: Api, version: int) -> None:
    for body in bodies:
        with Raw(node.port) as raw:
            raw.send(framed(api.key, version, body))
            raw.socket.shutdown(1)
            assert raw.is_closed_by_node(), f"{api.name} version {version} kept the node busy: {body.hex()}"


@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
def test_no_mutation_of_a_request_does_harm(node: NodeProcess, bystander: Bystander, victim: UUID, api: Api) -> None:
    dice = random.Random(api.key)
    begun_at, before = node.log_size(), memory(node)
    bystander.slowest_s = 0.0
    for version in range(api.oldest, api.newest + 1):
        harass(node, mutations(body_of(api, version, victim), dice, 5), api, version)
    bystander.check()
    strange = [line for line in node.log(since=begun_at).splitlines() if "closing the connection from" not in line]
    assert not [line for line in strange if " INFO " not in line], strange
    assert memory(node) < before + 30 * MB
    assert bystander.slowest_s < 2


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("api", ALL, ids=lambda api: api.name)
def test_no_mutation_at_any_place_does_harm(node: NodeProcess, bystander: Bystander, victim: UUID, api: Api) -> None:
    before = memory(node)
    bystander.slowest_s = 0.0
    for version in range(api.oldest, api.newest + 1):
        body = body_of(api, version, victim)

        def everywhere(body: bytes = body) -> Iterator[bytes]:
            for at in range(len(body)):
                yield body[:at]
                for huge in HUGE:
                    yield body[:at] + huge + body[at + len(huge) :]
                for value in (0, 1, 0x7F, 0x80, 0xFF, body[at] ^ 1):
                    yield body[:at] + bytes((value,)) + body[at + 1 :]

        harass(node, everywhere(), api, version)
    assert memory(node) < before + 60 * MB
    assert bystander.slowest_s < 2


def test_names_of_negative_length_do_not_send_the_reader_in_circles(node: NodeProcess, bystander: Bystander) -> None:
    """Produce is read by hand: a length of -6 would lead back to where the topic began, two thousand million times."""
    acks_timeout = b"\xff\xff" + b"\xff\xff" + b"\x00\x00\x10\x00"
    empty_topic = b"\x00\x00" + b"\x00\x00\x00\x00"
    body = acks_timeout + b"\x7f\xff\xff\xff" + empty_topic + b"\xff\xfa" + bytes(40)
    for version in range(3, 9):
        with Raw(node.port) as raw:
            raw.send(framed(PRODUCE, version, body))
            assert raw.is_closed_by_node()


@pytest.mark.parametrize("version", [8, 9])
def test_acks_that_do_not_exist_are_refused_every_time(node: NodeProcess, bystander: Bystander, version: int) -> None:
    batch = build_batch([Record(b"k", b"v", time.time_ns() // 1_000_000)])
    values: dict[str, Any] = produce_values(Bystander.TOPIC, batch) | {"acks": 2}
    with Raw(node.port) as raw:
        for _ in range(3):
            answer = raw.ask(PRODUCE, version, **values)
            assert answer.responses[0].partition_responses[0].error_code.name == "invalid_required_acks"


@pytest.mark.parametrize("version", range(2, 8))
def test_partitions_beyond_counting_are_refused(node: NodeProcess, bystander: Bystander, version: int) -> None:
    """Also when a negative number in the same request makes the sum small."""
    from datetime import timedelta

    def topic(name: str, partitions: int) -> dict[str, Any]:
        given = {"name": name, "num_partitions": partitions, "replication_factor": 1}
        return given | {"assignments": [], "configs": []}

    values: dict[str, Any] = {"timeout": timedelta(seconds=5), "validate_only": False}
    with Raw(node.port) as raw:
        for topics in (
            [topic("huge", 2**31 - 1)],
            [topic("negative", -(2**31)), topic("huge", 2**31 - 1)],
            [topic("negative", -5), topic("huge", 10_004)],
        ):
            answer = raw.ask(19, version, topics=topics, **values)
            assert all(one.error_code.name != "none" for one in answer.topics), answer


def test_a_produce_request_of_nothing_but_empty_partitions_is_refused_at_once(
    node: NodeProcess, bystander: Bystander
) -> None:
    bystander.slowest_s = 0.0
    many = 500_000
    legacy = b"\xff\xff\xff\xff\x00\x00\x10\x00" + many.to_bytes(4, "big") + b"\x00\x01a\x00\x00\x00\x00" * many
    rows = b"\x00\xff\xff\x00\x00\x10\x00" + b"\x02" + b"\x02a" + uvarint(many + 1) + bytes(6) * many + b"\x00\x00"
    for version, body in ((8, legacy), (9, rows)):
        with Raw(node.port) as raw:
            raw.send(framed(PRODUCE, version, body))
            assert raw.is_closed_by_node()
    assert bystander.slowest_s < 0.5


def test_one_resource_described_again_and_again_is_not_answered_again_and_again(
    node: NodeProcess, bystander: Bystander, victim: UUID
) -> None:
    resource = {"resource_type": 2, "resource_name": VICTIM, "configuration_keys": None}
    with Raw(node.port) as raw:
        answer = raw.ask(32, 4, resources=[resource] * 20_000, include_synonyms=True, include_documentation=True)
    assert len(answer.results) == 1


def test_a_question_of_many_megabytes_is_not_read(node: NodeProcess, bystander: Bystander) -> None:
    """Only Produce carries data; anything else of that size would keep the loop busy for a minute."""
    bystander.slowest_s = 0.0
    many = 1_000_000
    names = b"".join(b"\x08%07d\x00" % number for number in range(many))
    with Raw(node.port) as raw:
        raw.send(framed(METADATA, 9, uvarint(many + 1) + names + bytes(4)))
        assert raw.is_closed_by_node()
    assert bystander.slowest_s < 2
