"""Parsing and checking single values, and whole topics, as Apache Kafka does."""

import json
from pathlib import Path

import pytest

from ottla.model.config import TOPIC_CONFIGS, ConfigError, broker_config, log_config, standalone, validate_topic_configs
from ottla.model.config.definition import format_value, whole_number

VERDICTS = json.loads((Path(__file__).parent / "data" / "kafka-4.3-topic-config-verdicts.json").read_text())
NODE = standalone("/data", 9092)


@pytest.mark.parametrize(("configs", "kafka_takes_it"), VERDICTS, ids=str)
def test_topic_configs_are_taken_or_refused_as_kafka_does(configs: dict[str, str], kafka_takes_it: bool) -> None:
    try:
        validate_topic_configs(configs, broker_config(NODE))
        taken = True
    except ConfigError:
        taken = False
    assert taken is kafka_takes_it


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-0012", -12), ("+3", 3), ("0" * 5000 + "1", 1), ("9" * 5000, None), ("1e3", None), ("", None)],
)
def test_whole_numbers_of_any_length(text: str, number: int | None) -> None:
    assert whole_number(text) == number


def test_a_refusal_tells_name_value_and_what_is_allowed() -> None:
    with pytest.raises(ConfigError, match=r"^Invalid value -2 for configuration retention.ms: must be at least -1$"):
        validate_topic_configs({"retention.ms": "-2"})
    with pytest.raises(ConfigError, match=r"^Unknown topic config name: retention\.msec$"):
        validate_topic_configs({"retention.msec": "1"})
    with pytest.raises(ConfigError, match=r"compression\.type: must be one of uncompressed, zstd"):
        validate_topic_configs({"compression.type": "rar"})


def test_a_null_value_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"retention\.ms"):
        validate_topic_configs({"retention.ms": None})


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (("a", "b"), "a,b"),
        ((), ""),
        (None, None),
        (7, "7"),
        (0.5, "0.5"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-123456789.5, "-1.234567895E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_values_are_written_as_java_writes_them(value: float | tuple[str, ...] | None, text: str | None) -> None:
    assert format_value(value) == text


def test_a_topics_own_value_wins_over_the_brokers_and_that_over_the_default() -> None:
    broker = broker_config(NODE | {"log.segment.bytes": "2097152", "log.retention.bytes": "77"})
    config = log_config(broker, {"retention.bytes": "5"})
    assert (config.retention_bytes, config.segment_bytes, config.max_message_bytes) == (5, 2097152, 1048588)


@pytest.mark.parametrize(
    ("given", "expected_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log.retention.hours": "2"}, 7_200_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.hours": "2", "log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.ms": "-5"}, -1),
    ],
)
def test_the_finer_unit_of_retention_wins(given: dict[str, str], expected_ms: int) -> None:
    assert log_config(broker_config(NODE | given)).retention_ms == expected_ms


def test_flush_ms_falls_back_to_the_schedulers_interval() -> None:
    assert log_config(broker_config(NODE | {"log.flush.scheduler.interval.ms": "9"})).flush_ms == 9
    both = {"log.flush.scheduler.interval.ms": "9", "log.flush.interval.ms": "8"}
    assert log_config(broker_config(NODE | both)).flush_ms == 8


def test_tests_may_have_segments_smaller_than_allowed() -> None:
    assert log_config(None, {"internal.segment.bytes": "100"}).segment_bytes == 100


def test_the_default_log_config_needs_no_broker() -> None:
    config = log_config()
    assert config == log_config(broker_config(NODE))
    assert config.delete and not config.compact and not config.log_append_time


@pytest.mark.parametrize(
    ("topic", "expected"),
    [("orders", True), ("__remote_log_metadata", False), ("__consumer_offsets", False), ("__transaction_state", False)],
)
def test_what_the_remote_tier_stands_on_is_not_in_it(topic: str, expected: bool) -> None:
    assert log_config(None, {"remote.storage.enable": "true"}, topic).remote_storage_enable is expected


def test_a_compacted_log_rolls_early_enough_for_its_compaction() -> None:
    lag = {"max.compaction.lag.ms": "1000"}
    assert log_config(None, lag).max_segment_ms == 604_800_000
    assert log_config(None, {**lag, "cleanup.policy": "compact"}).max_segment_ms == 1000


_NOT_COMPACTED = (
    "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list."
)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({}, None),
        ({"cleanup.policy": "compact"}, _NOT_COMPACTED),
        ({"cleanup.policy": "compact,delete"}, _NOT_COMPACTED),
        (
            {"local.retention.ms": "-1"},
            "Invalid value -1 for configuration local.retention.ms: Value must not be -1 as retention.ms value is set "
            "as 604800000.",
        ),
        ({"local.retention.ms": "-1", "retention.ms": "-1"}, None),
        ({"local.retention.bytes": "-1"}, None),
        (
            {"local.retention.bytes": "11", "retention.bytes": "10"},
            "Invalid value 11 for configuration local.retention.bytes: Value must not be more than retention.bytes "
            "property value: 10",
        ),
        ({"local.retention.bytes": "10", "retention.bytes": "10"}, None),
        ({"remote.log.copy.disable": "true"}, None),
        (
            {"remote.log.copy.disable": "true", "local.retention.ms": "5"},
            "When `remote.log.copy.disable` is set to true, the `local.retention.ms` and `retention.ms` must be set to "
            "the identical value because there will be no more logs copied to the remote storage.",
        ),
        ({"remote.log.copy.disable": "true", "local.retention.ms": "5", "retention.ms": "5"}, None),
    ],
)
def test_what_a_topic_in_the_remote_tier_may_have(configs: dict[str, str], message: str | None) -> None:
    broker = broker_config(NODE | {"remote.log.storage.system.enable": "true"})
    if message is None:
        validate_topic_configs({"remote.storage.enable": "true", **configs}, broker)
    else:
        with pytest.raises(ConfigError) as caught:
            validate_topic_configs({"remote.storage.enable": "true", **configs}, broker)
        assert str(caught.value) == message


def test_without_a_remote_tier_no_topic_can_use_it() -> None:
    with pytest.raises(ConfigError, match="Tiered Storage functionality is disabled in the broker"):
        validate_topic_configs({"remote.storage.enable": "true"}, broker_config(NODE))


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"local.retention.ms": "5"}, (60, -1)),
        ({"remote.storage.enable": "true"}, (60, -1)),
        ({"remote.storage.enable": "true", "local.retention.ms": "5", "local.retention.bytes": "7"}, (5, 7)),
        ({"remote.storage.enable": "true", "local.retention.ms": "5", "remote.log.copy.disable": "true"}, (60, -1)),
    ],
)
def test_what_is_kept_on_local_disk(configs: dict[str, str], expected: tuple[int, int]) -> None:
    config = log_config(None, {"retention.ms": "60", **configs})
    assert (config.kept_locally_ms, config.kept_locally_bytes) == expected


def test_brokers_say_what_is_kept_locally_by_default() -> None:
    config = log_config(broker_config(NODE | {"log.local.retention.ms": "7", "log.local.retention.bytes": "9"}))
    assert (config.local_retention_ms, config.local_retention_bytes) == (7, 9)


def test_a_definition_says_what_may_be_written() -> None:
    assert TOPIC_CONFIGS["min.cleanable.dirty.ratio"].allowed == "a number, between 0 and 1"
    assert TOPIC_CONFIGS["cleanup.policy"].allowed == "a list separated by commas, each one of compact, delete"
    assert TOPIC_CONFIGS["preallocate"].allowed == "true or false"
