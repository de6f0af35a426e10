"""AlterConfigs and IncrementalAlterConfigs: what is taken, what is refused and how, and that it holds at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.broker.apis.altering import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    Change,
    change,
    changed,
    described,
    replace,
    replaced,
    set_config,
    value,
)
from tests.broker.apis.asking import LIST_CONFIG_RESOURCES, ask

from ottla.model.errors import ErrorCode

OK = (ErrorCode.none, None)


@pytest.mark.parametrize("version", [0, 1])
def test_configs_of_a_topic_are_set_and_unset(address: str, new_topic: Callable[..., str], version: int) -> None:
    topic = new_topic(segment_ms="1000")

    wanted = changed(TOPIC, topic, ("retention.ms", SET, "77"), ("segment.ms", DELETE, None))
    assert change(address, wanted, version=version) == [OK]

    configs = described(address, TOPIC, topic, "retention.ms", "segment.ms")
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("77", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)


def test_a_list_is_added_to_and_taken_from(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert change(address, changed(TOPIC, topic, ("cleanup.policy", APPEND, "compact"))) == [OK]
    assert value(address, TOPIC, topic, "cleanup.policy") == "delete,compact"
    assert change(address, changed(TOPIC, topic, ("cleanup.policy", SUBTRACT, "delete"))) == [OK]
    assert value(address, TOPIC, topic, "cleanup.policy") == "compact"


def test_validate_only_changes_nothing(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert change(address, changed(TOPIC, topic, ("retention.ms", SET, "5")), validate_only=True) == [OK]
    assert replace(address, replaced(TOPIC, topic, {"retention.ms": "5"}), validate_only=True) == [OK]
    wanted = changed(BROKER_LOGGER, "1", ("ottla.raft", SET, "FATAL"))
    assert change(address, wanted, validate_only=True) == [OK]

    assert value(address, TOPIC, topic, "retention.ms") == "604800000"
    assert value(address, BROKER_LOGGER, "1", "ottla.raft") != "FATAL"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_old_way_takes_away_what_is_not_named(address: str, new_topic: Callable[..., str], version: int) -> None:
    topic = new_topic(retention_ms="5")

    assert replace(address, replaced(TOPIC, topic, {"segment.ms": "9"}), version=version) == [OK]

    configs = described(address, TOPIC, topic, "retention.ms", "segment.ms")
    assert {name: config.config_source for name, config in configs.items()} == {"retention.ms": 5, "segment.ms": 1}


def test_resources_stand_or_fall_alone(address: str, new_topic: Callable[..., str]) -> None:
    good, bad = new_topic(), new_topic()

    outcomes = change(
        address,
        changed(TOPIC, bad, ("segment.ms", SET, "7"), ("retention.ms", SET, "x")),
        changed(BROKER, "1", ("message.max.bytes", SET, "x")),
        changed(TOPIC, good, ("retention.ms", SET, "7")),
    )

    assert [code for code, _ in outcomes] == [ErrorCode.invalid_config, ErrorCode.invalid_request, ErrorCode.none]
    assert value(address, TOPIC, bad, "segment.ms") == "604800000"
    assert value(address, TOPIC, good, "retention.ms") == "7"


INVALID_REQUEST, INVALID_CONFIG = ErrorCode.invalid_request, ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("kind", "name", "changes", "code", "words"),
    [
        (TOPIC, "absent", [("retention.ms", SET, "1")], ErrorCode.unknown_topic_or_partition, "does not exist"),
        (TOPIC, "absent", [], ErrorCode.unknown_topic_or_partition, "does not exist"),
        (TOPIC, "a b", [("retention.ms", SET, "1")], ErrorCode.invalid_topic_exception, "Topic name is invalid"),
        (TOPIC, "", [("retention.ms", SET, "1")], INVALID_REQUEST, "Default topic resources are not allowed."),
        (TOPIC, "t", [("retention.ms", SET, "x")], INVALID_CONFIG, "Invalid value x for configuration retention.ms"),
        (TOPIC, "t", [("retention.ms", SET, "-5")], INVALID_CONFIG, "must be at least -1"),
        (TOPIC, "t", [("no.such", SET, "1")], INVALID_CONFIG, "Unknown topic config name: no.such"),
        (TOPIC, "t", [("no.such", DELETE, None)], ErrorCode.none, None),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], INVALID_CONFIG, "because its type is not LIST"),
        (TOPIC, "t", [("retention.ms", SET, None)], INVALID_REQUEST, "Null value not supported for : retention.ms"),
        (TOPIC, "t", [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)], INVALID_REQUEST, "duplicate config keys"),
        (TOPIC, "t", [("retention.ms", 9, "1")], ErrorCode.unknown_server_error, None),
        (TOPIC, "t", [("remote.storage.enable", SET, "true")], INVALID_CONFIG, "Tiered Storage functionality is"),
        (BROKER, "1", [("num.partitions", SET, "4")], INVALID_REQUEST,
         "Cannot update these configs dynamically: [num.partitions]"),
        (BROKER, "", [("node.id", SET, "4"), ("log.dirs", SET, "/x")], INVALID_REQUEST, "[log.dirs, node.id]"),
        (BROKER, "1", [("log.retention.hours", SET, "4")], INVALID_REQUEST, "Cannot update these configs dynamically"),
        (BROKER, "", [("listeners", SET, "PLAINTEXT://:1")], INVALID_REQUEST, "must be specified: [listeners"),
        (BROKER, "1", [("listeners", SET, "PLAINTEXT://:1")], INVALID_REQUEST, "listeners cannot be altered"),
        (BROKER, "1", [("advertised.listeners", SET, "PLAINTEXT://a:1")], INVALID_REQUEST, "Cannot update"),
        (BROKER, "1", [("ssl.keystore.location", SET, "/x")], INVALID_REQUEST, "using the listener prefix"),
        (BROKER, "", [("listener.name.plaintext.ssl.key.password", SET, "x")], INVALID_REQUEST, "at default cluster"),
        (BROKER, "1", [("message.max.bytes", SET, "x")], INVALID_REQUEST, "Invalid value x for configuration message"),
        (BROKER, "", [("log.cleanup.policy", SET, "burn")], INVALID_REQUEST, "one of compact, delete"),
        (BROKER, "1", [("message.max.bytes", APPEND, "1")], INVALID_CONFIG, "append is not allowed for config key"),
        (BROKER, "1", [("no.such", SUBTRACT, "1")], INVALID_CONFIG, "Unknown config name: no.such"),
        (BROKER, "1", [("message.max.bytes", 9, "1")], INVALID_REQUEST, "Unknown operations type 9"),
        (BROKER, "2", [("message.max.bytes", SET, "1")], INVALID_REQUEST, "expected 1, but received 2"),
        (BROKER, "x", [("message.max.bytes", SET, "1")], INVALID_REQUEST, "Node id must be an integer"),
        (BROKER, "1", [("num.io.threads", SET, "100")], INVALID_REQUEST, "double the current value 8"),
        (BROKER, "1", [("num.io.threads", SET, "1")], INVALID_REQUEST, "half the current value 8"),
        (BROKER, "1", [("log.cleaner.threads", SET, "0")], INVALID_REQUEST, "must be at least 1"),
        (BROKER, "1", [("log.cleaner.dedupe.buffer.size", SET, "9")], INVALID_REQUEST, "1 MiB for each cleaner"),
        (BROKER, "1", [("log.retention.ms", SET, "0")], INVALID_REQUEST, "must be at least 1"),
        (BROKER, "1", [("log.local.retention.ms", SET, "-1")], INVALID_REQUEST, "must not be above log.retention.ms"),
        (BROKER, "1", [("max.connections.per.ip", SET, "0")], INVALID_REQUEST, "overrides is set"),
        (BROKER, "1", [("max.connections.per.ip.overrides", SET, "x")], INVALID_REQUEST, "'x' is not host:count"),
        (BROKER, "1", [("cordoned.log.dirs", SET, "/nowhere")], INVALID_REQUEST, "must be in log.dirs too"),
        (BROKER, "1", [("metric.reporters", SET, "no.such.Reporter")], INVALID_REQUEST, "cannot be loaded"),
        (GROUP, "", [("consumer.session.timeout.ms", SET, "50000")], INVALID_REQUEST, "Default group resources"),
        (GROUP, "g", [("no.such", SET, "1")], INVALID_CONFIG, "Unknown group config name: no.such"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], INVALID_CONFIG, "min.session.timeout.ms (45000)"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "x")], INVALID_CONFIG, "not a number"),
        (GROUP, "g", [("share.auto.offset.reset", SET, "by_duration:-PT1H")], INVALID_CONFIG, "PT1H"),
        (CLIENT_METRICS, "", [("interval.ms", SET, "5000")], INVALID_REQUEST, "Subscription name can't be empty"),
        (CLIENT_METRICS, "m", [("interval.ms", SET, "5")], INVALID_REQUEST, "between 100 and 3600000"),
        (CLIENT_METRICS, "m", [("interval.ms", SET, "x")], INVALID_CONFIG, "not a number"),
        (CLIENT_METRICS, "m", [("no.such", SET, "5")], INVALID_REQUEST, "Unknown client metrics configuration"),
        (CLIENT_METRICS, "m", [("match", SET, "foo=bar")], INVALID_CONFIG, "Illegal client matching pattern: foo=bar"),
        (CLIENT_METRICS, "m", [("match", SET, "client_id=[")], INVALID_CONFIG, "Illegal client matching pattern"),
        (CLIENT_METRICS, "m", [("metrics", APPEND, "a")], INVALID_CONFIG, "its type is not LIST"),
        (BROKER_LOGGER, "1", [("no.such", SET, "INFO")], INVALID_CONFIG, "Logger no.such does not exist!"),
        (BROKER_LOGGER, "1", [("root", SET, "LOUD")], INVALID_CONFIG, "DEBUG, ERROR, FATAL, INFO, TRACE, WARN"),
        (BROKER_LOGGER, "1", [("root", DELETE, None)], INVALID_REQUEST, "root logger is not allowed"),
        (BROKER_LOGGER, "1", [("root", APPEND, "INFO")], INVALID_REQUEST, "APPEND operation is not allowed"),
        (BROKER_LOGGER, "1", [("root", 9, "INFO")], ErrorCode.unknown_server_error, None),
        (BROKER_LOGGER, "2", [("root", SET, "INFO")], INVALID_REQUEST, "Expected 1, but received 2"),
        (BROKER_LOGGER, "", [("root", SET, "INFO")], INVALID_REQUEST, "Node id must be an integer"),
        (64, "x", [("a", SET, "1")], INVALID_REQUEST, "Unknown resource type 64"),
        (0, "x", [], INVALID_REQUEST, "Unknown resource type 0"),
    ],
)  # fmt: skip
def test_what_kafka_refuses_is_refused_and_the_reason_told(
    address: str, new_topic: Callable[..., str], kind: int, name: str, changes: list[Change], code: ErrorCode,
    words: str | None,
) -> None:  # fmt: skip
    name = new_topic() if name == "t" else name

    ((answered, message),) = change(address, changed(kind, name, *changes))

    assert answered is code, message
    assert (message is None) if words is None else (words in (message or "")), message


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "absent", {"retention.ms": "1"}, ErrorCode.unknown_topic_or_partition),
        (TOPIC, "t", {"retention.ms": "x"}, INVALID_CONFIG),
        (TOPIC, "t", {"no.such": "1"}, INVALID_CONFIG),
        (TOPIC, "t", {"retention.ms": None}, INVALID_REQUEST),
        (BROKER, "1", {"num.partitions": "1"}, INVALID_REQUEST),
        (BROKER, "2", {"message.max.bytes": "1"}, INVALID_REQUEST),
        (BROKER_LOGGER, "1", {"root": "INFO"}, INVALID_REQUEST),  # KIP-412 is for the other API
        (64, "x", {"a": "1"}, INVALID_REQUEST),
        (GROUP, "g", {"consumer.session.timeout.ms": "1"}, INVALID_CONFIG),
    ],
)
def test_the_old_way_refuses_the_same(
    address: str, new_topic: Callable[..., str], kind: int, name: str, configs: dict[str, str | None], code: ErrorCode
) -> None:
    name = new_topic() if name == "t" else name

    ((answered, message),) = replace(address, replaced(kind, name, configs))

    assert answered is code
    assert message


def test_a_resource_named_twice_is_refused_both_times(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    twice = [changed(TOPIC, topic, ("retention.ms", SET, number)) for number in ("1", "2")]

    outcomes = change(address, *twice, changed(BROKER, "1"))

    refused = (INVALID_REQUEST, "Each resource must appear at most once.")
    assert outcomes == [refused, refused, OK]


def test_one_operation_that_does_not_exist_spoils_what_goes_to_the_controller(
    address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()

    wrong = changed(TOPIC, topic, ("flush.ms", 9, "1"))
    right = changed(GROUP, "g", ("share.isolation.level", DELETE, None))
    outcomes = change(address, wrong, right)

    assert outcomes == [(ErrorCode.unknown_server_error, None)] * 2


# -- groups and subscriptions


def test_a_group_has_configs_before_it_has_members(address: str) -> None:
    set_config(address, GROUP, "readers", consumer_session_timeout_ms="50000")

    configs = described(address, GROUP, "readers")

    session, heartbeat = configs["consumer.session.timeout.ms"], configs["consumer.heartbeat.interval.ms"]
    assert (session.value, session.config_source, session.read_only) == ("50000", 8, False)
    assert [(each.name, each.value, each.source) for each in session.synonyms] == [
        ("consumer.session.timeout.ms", "50000", 8),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert (heartbeat.value, heartbeat.config_source) == ("5000", 5)
    reset = configs["share.auto.offset.reset"]
    assert [(each.name, each.value, each.source) for each in reset.synonyms] == [
        ("share.auto.offset.reset", "latest", 5)
    ]
    assert len(configs) == 17 and all(config.documentation for config in configs.values())


def test_a_subscription_to_metrics_is_told_with_its_defaults(address: str) -> None:
    set_config(address, CLIENT_METRICS, "all", metrics="*", match="client_id=a.*,client_software_name=x")

    configs = described(address, CLIENT_METRICS, "all")

    assert {name: (config.value, config.config_source) for name, config in configs.items()} == {
        "interval.ms": ("300000", 5), "match": ("client_id=a.*,client_software_name=x", 7), "metrics": ("*", 7),
    }  # fmt: skip


def test_what_has_configs_is_listed_by_type(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    set_config(address, GROUP, "listed", share_isolation_level="read_committed")
    set_config(address, CLIENT_METRICS, "listed-metrics", interval_ms="1000")

    def listed(*kinds: int, version: int = 1) -> Any:
        return ask(address, LIST_CONFIG_RESOURCES, version, resource_types=list(kinds))

    everything = {(row.resource_type, row.resource_name) for row in listed().config_resources}
    assert {(TOPIC, topic), (BROKER, "1"), (BROKER_LOGGER, "1"), (GROUP, "listed")} <= everything
    assert {row.resource_type for row in listed(GROUP, CLIENT_METRICS).config_resources} == {GROUP, CLIENT_METRICS}
    assert "listed-metrics" in [row.resource_name for row in listed(version=0).config_resources]
    assert "listed" not in [row.resource_name for row in listed(version=0).config_resources]
    unknown = listed(99, TOPIC)
    assert (unknown.error_code, unknown.config_resources) == (ErrorCode.unsupported_version, ())
    set_config(address, GROUP, "listed", share_isolation_level=None)
    assert "listed" not in [row.resource_name for row in listed(GROUP).config_resources]
