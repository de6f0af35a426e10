"""librdkafka pushes its metrics to a node that has somewhere to show them, and they are shown there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from confluent_kafka import Producer
from tests.broker.apis.asking import (
    API_VERSIONS,
    GET_TELEMETRY_SUBSCRIPTIONS,
    INCREMENTAL_ALTER_CONFIGS,
    PUSH_TELEMETRY,
    ask,
)
from tests.broker.telemetry.test_otlp import PUSH, field, gauge, pushed
from tests.broker.watching import scrape
from tests.waiting import PATIENCE_S, attempts

from ottla.broker.telemetry.subscriptions import Subscription
from ottla.broker.telemetry.telemetry import INLINE_BYTES
from ottla.model.errors import ErrorCode
from ottla.record.compression import compress
from ottla.testing.node import RunningNode, running_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(tmp_path_factory.mktemp("node"), ottla_metrics_listener="127.0.0.1:0") as running:
        yield running


def want(node: RunningNode, *subscriptions: Subscription) -> None:
    node.on_loop(lambda: node.node.telemetry.subscriptions.set(subscriptions))


def offered(node: RunningNode) -> set[int]:
    answer = ask(node.address, API_VERSIONS, 3, client_software_name="test", client_software_version="1")
    return {api.api_key for api in answer.api_keys}


def push(node: RunningNode, metrics: bytes, compression: int = 0) -> tuple[UUID, ErrorCode]:
    """As a client would: asks first."""
    told = ask(node.address, GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
    assert told.error_code is ErrorCode.none
    answer = ask(
        node.address, PUSH_TELEMETRY, 0, client_instance_id=told.client_instance_id,
        subscription_id=told.subscription_id, terminating=False, compression_type=compression, metrics=metrics,
    )  # fmt: skip
    return told.client_instance_id, answer.error_code


def test_it_is_offered_where_metrics_are_shown(node: RunningNode, tmp_path: Path) -> None:
    assert {GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY} <= offered(node)
    with running_node(tmp_path) as other:
        assert not {GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY} & offered(other)
        told = ask(other.address, GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
        assert told.error_code is ErrorCode.none  # Kafka answers too, and throws away what is pushed


def test_librdkafka_pushes_what_is_wanted_of_it(node: RunningNode) -> None:
    want(node, Subscription(("org.apache.kafka.producer.",), 100, {}))
    producer = Producer({"bootstrap.servers": node.address, "client.id": "a-producer", "enable.metrics.push": True})
    for _ in attempts("something is pushed"):
        found = scrape(node)
        if "ottla_client_producer" in found.text:
            break
        producer.produce("pushing", b"x")
        producer.poll(0.05)
    names = [name for name in found.families if name.startswith("ottla_client_producer")]
    assert names
    (sample, *_) = found.families[names[0]].samples
    assert sample.labels["client_id"] == "a-producer"
    assert len(sample.labels["client_instance_id"]) == 22
    assert found.value("kafka_server_client_metrics_instance_count") >= 1
    assert found.value("kafka_server_client_metrics_plugin_export_count") >= 1
    producer.flush(PATIENCE_S)
    want(node)


def test_who_wants_nothing_gets_nothing(node: RunningNode) -> None:
    want(node, Subscription(("org.apache.kafka.",), 100, {"client_id": re.compile("somebody else")}))
    told = ask(node.address, GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=uuid4())
    assert told.requested_metrics == ()
    assert told.push_interval.total_seconds() == 300
    assert (told.accepted_compression_types, told.telemetry_max_bytes, told.delta_temporality) == (
        (4, 3, 1, 2), 1 << 20, True,
    )  # fmt: skip
    want(node)


def test_subscriptions_come_from_configs_and_go_with_them(node: RunningNode) -> None:
    def alter(*changes: tuple[str, int, str | None]) -> None:
        configs = [{"name": name, "config_operation": op, "value": value} for name, op, value in changes]
        resource = {"resource_type": 16, "resource_name": "mine", "configs": configs}
        (answer,) = ask(node.address, INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
        assert answer.error_code == 0, answer.error_message

    def told() -> tuple[tuple[str, ...], float]:
        answer = ask(node.address, GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None)
        return answer.requested_metrics, answer.push_interval.total_seconds()

    alter(("metrics", 0, "b., a."), ("interval.ms", 0, "700"), ("match", 0, "client_source_address=127[.]0.*"))
    assert told() == (("a.", "b."), 0.7)
    alter(("match", 0, "client_source_address=10[.].*"))
    assert told() == ((), 300)
    alter(("match", 1, None))
    assert told() == (("a.", "b."), 0.7)
    alter(("metrics", 1, None), ("interval.ms", 1, None))
    assert told() == ((), 300)


def test_a_client_is_known_by_its_software(node: RunningNode) -> None:
    from tests.interop.raw import Raw

    want(node, Subscription(("a.",), 100, {"client_software_name": re.compile("mine"), "client_id": re.compile("raw")}))
    with Raw(node.port) as raw:
        raw.ask(API_VERSIONS, 3, client_software_name="mine", client_software_version="1")
        assert raw.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None).requested_metrics == ("a.",)
    with Raw(node.port) as raw:
        assert raw.ask(GET_TELEMETRY_SUBSCRIPTIONS, 0, client_instance_id=None).requested_metrics == ()
    want(node)


@pytest.mark.parametrize("compression", range(5))
def test_a_push_is_shown(node: RunningNode, compression: int) -> None:
    me, code = push(node, compress(compression, PUSH), compression)
    assert code is ErrorCode.none
    from ottla.metadata.meta_properties import uuid_text

    assert f'client_instance_id="{uuid_text(me)}"' in scrape(node).text


def test_a_long_push_is_read_elsewhere(node: RunningNode) -> None:
    large = pushed(*[gauge(f"level.{number}".encode(), field(4, 1.5)) for number in range(400)])
    assert len(large) > INLINE_BYTES
    _, code = push(node, compress(4, large), 4)
    assert code is ErrorCode.none
    assert "ottla_client_level_399" in scrape(node).text


@pytest.mark.parametrize(
    "metrics", [b"garbage", PUSH[:-3], compress(1, PUSH)], ids=["garbage", "cut", "another-compression"]
)
def test_what_is_not_metrics_is_an_invalid_record(node: RunningNode, metrics: bytes) -> None:
    before = scrape(node).text.count("ottla_client_")
    assert push(node, metrics)[1] is ErrorCode.invalid_record
    assert scrape(node).text.count("ottla_client_") == before


def test_a_bomb_is_an_invalid_record(node: RunningNode) -> None:
    bomb = compress(4, bytes(64 << 20))
    assert len(bomb) < 1 << 20
    assert push(node, bomb, 4)[1] is ErrorCode.invalid_record
