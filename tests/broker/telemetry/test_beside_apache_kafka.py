"""The same story of a client that pushes, told to Apache Kafka and to us: the same answers up to ids."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
from tests.broker.apis.altering import CLIENT_METRICS, set_config
from tests.broker.apis.asking import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from tests.interop.raw import Raw

from ottla.testing.apache_kafka import ApacheKafka, available, free_port
from ottla.testing.node import running_node

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(not available(), reason="Apache Kafka is not here")]


def get(raw: Raw, instance_id: UUID | None) -> Any:
    return raw.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=instance_id)


def push(raw: Raw, instance_id: UUID | None, subscription_id: int, **values: Any) -> str:
    given = {"terminating": False, "compression_type": 0, "metrics": b""} | values
    answer = raw.ask(PUSH_TELEMETRY, 0, client_instance_id=instance_id, subscription_id=subscription_id, **given)
    return str(answer.error_code.name)


def story(address: str) -> Iterator[object]:
    """Everything that is answered, without what differs by chance."""
    with Raw(int(address.rpartition(":")[2])) as raw:
        told = get(raw, None)
        me, mine = told.client_instance_id, told.subscription_id
        yield (
            told.error_code, told.accepted_compression_types, told.push_interval, told.telemetry_max_bytes,
            told.delta_temporality, told.requested_metrics,
        )  # fmt: skip
        yield get(raw, me)  # too early: nothing in it but the error
        for nobody in (None, UUID(int=1), UUID(int=50)):
            yield push(raw, nobody, 0)
        yield [push(raw, me, mine), push(raw, me, mine)]
        yield [push(raw, me, mine, terminating=last) for last in (True, False, True)]
        yield get(raw, me).error_code
    with Raw(int(address.rpartition(":")[2])) as raw:
        for wrong in ({"subscription_id": 1}, {"compression_type": 77}, {"metrics": bytes((1 << 20) + 1)}):
            me = uuid4()
            values = {"subscription_id": get(raw, me).subscription_id} | wrong
            yield push(raw, me, **values)
            yield get(raw, me).error_code
            yield push(raw, me, **values | {"metrics": b""})
        me = uuid4()
        yield push(raw, me, get(raw, me).subscription_id, metrics=b"")
        set_config(address, CLIENT_METRICS, "some", metrics="b.,a.", interval_ms="1000")
        deadline = time.monotonic() + 10
        while not (told := get(raw, uuid4())).requested_metrics:
            assert time.monotonic() < deadline
        yield sorted(told.requested_metrics), told.push_interval
        yield push(raw, me, 1)
        yield get(raw, me).error_code


@pytest.mark.timeout(180)
def test_a_story_of_pushes_is_answered_alike(tmp_path: Path) -> None:
    port = free_port()
    kafka = ApacheKafka.start(tmp_path / "kafka", port)
    try:
        theirs = list(story(f"127.0.0.1:{port}"))
    finally:
        kafka.stop()
    with running_node(tmp_path / "ottla", ottla_metrics_listener="127.0.0.1:0") as node:
        ours = list(story(node.address))
    assert ours == theirs
