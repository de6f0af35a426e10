from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from tests.broker.apis.asking import DESCRIBE_CONFIGS, ask
from tests.waiting import PATIENCE_S

from ottla.model.errors import ErrorCode
from ottla.testing.node import running_node

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32


def describe(
    address: str, kind: int, name: str, keys: list[str] | None = None, *, version: int = 4, synonyms: bool = False,
    documentation: bool = False,
) -> Any:  # fmt: skip
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}]
    answer = ask(
        address,
        DESCRIBE_CONFIGS,
        version,
        resources=resources,
        include_synonyms=synonyms,
        include_documentation=documentation,
    )
    return answer.results[0]


def test_a_topic_has_its_own_values_and_falls_back_to_the_brokers(tmp_path: Path) -> None:
    from tests.broker.apis.asking import create, topic_to_create

    with running_node(tmp_path, log_segment_bytes=2_000_000) as running:
        create(running.address, topic_to_create("own", configs={"retention.ms": "77"}))

        result = describe(running.address, TOPIC, "own", synonyms=True)

    configs = {config.name: config for config in result.configs}
    own, static, default = configs["retention.ms"], configs["segment.bytes"], configs["max.message.bytes"]
    assert (own.value, own.config_source) == ("77", 1)
    assert (static.value, static.config_source) == ("2000000", 4)
    assert (default.value, default.config_source) == ("1048588", 5)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in static.synonyms] == [
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert not any(config.read_only for config in result.configs)


def test_only_the_keys_asked_for_are_told(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    some = describe(address, TOPIC, topic, ["retention.ms", "no.such"])
    all_of_them = describe(address, TOPIC, topic, [])

    assert [config.name for config in some.configs] == ["retention.ms"]
    assert len(all_of_them.configs) > 30


def test_synonyms_and_documentation_are_told_only_if_asked_for(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    (bare,) = describe(address, TOPIC, topic, ["segment.bytes"]).configs
    (full,) = describe(address, TOPIC, topic, ["segment.bytes"], synonyms=True, documentation=True).configs

    assert (bare.synonyms, bare.documentation) == ((), None)
    assert full.synonyms and full.documentation
    assert bare.config_type == full.config_type == 3


def test_this_broker_tells_its_configs(address: str) -> None:
    result = describe(address, BROKER, "1", ["num.partitions", "message.max.bytes"], synonyms=True)

    configs = {config.name: config for config in result.configs}
    assert (configs["num.partitions"].value, configs["num.partitions"].config_source) == ("2", 4)
    assert configs["num.partitions"].read_only
    assert (configs["message.max.bytes"].config_source, configs["message.max.bytes"].read_only) == (5, False)
    # with eligible leader replicas the cluster always has one, and no other default is set
    assert [config.name for config in describe(address, BROKER, "").configs] == ["min.insync.replicas"]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "absent", ErrorCode.unknown_topic_or_partition),
        (TOPIC, "bad name", ErrorCode.invalid_topic_exception),
        (TOPIC, "", ErrorCode.invalid_topic_exception),
        (BROKER, "2", ErrorCode.invalid_request),
        (BROKER, "x", ErrorCode.invalid_request),
        (BROKER_LOGGER, "2", ErrorCode.invalid_request),
        (BROKER_LOGGER, "", ErrorCode.invalid_request),
        (CLIENT_METRICS, "", ErrorCode.invalid_request),
        (GROUP, "", ErrorCode.invalid_request),
        (0, "x", ErrorCode.invalid_request),
        (64, "x", ErrorCode.invalid_request),
    ],
)
def test_resources_without_configs(address: str, kind: int, name: str, code: ErrorCode) -> None:
    result = describe(address, kind, name)

    assert (result.error_code, result.configs) == (code, ())
    assert (result.resource_type, result.resource_name) == (kind, name)


def test_an_unknown_type_spoils_the_whole_request(address: str, new_topic: Callable[..., str]) -> None:
    rows = [(TOPIC, new_topic()), (77, "x")]
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in rows]

    answer = ask(address, DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False, include_documentation=False)

    assert [result.error_code for result in answer.results] == [ErrorCode.invalid_request] * 2


def test_what_need_not_exist_does_not_make_a_small_request_a_huge_answer(address: str) -> None:
    resources = [
        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
        for number in range(2000)
        for kind, name in ((GROUP, f"g{number}"), (BROKER, "0" * number + "1"))
    ]

    answer = ask(address, DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False, include_documentation=False)

    told = sum(len(result.configs) for result in answer.results)
    assert len(answer.results) == 4000
    assert 50_000 <= told < 51_000
    assert answer.results[0].error_code is ErrorCode.none
    assert answer.results[-1].error_code is ErrorCode.invalid_request


def test_librdkafka_describes_topics_and_brokers(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic(retention_ms="77")
    admin = AdminClient({"bootstrap.servers": address})
    resources = [ConfigResource(ConfigResource.Type.TOPIC, topic), ConfigResource(ConfigResource.Type.BROKER, "1")]

    of_topic, of_broker = (admin.describe_configs([resource])[resource].result(PATIENCE_S) for resource in resources)

    assert of_topic["retention.ms"].value == "77"
    assert of_broker["node.id"].value == "1"
