"""Changes of configs: answers and words were recorded from Apache Kafka 4.3.0."""

import dataclasses
from typing import Any

import pytest
from tests.metadata import given

from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.requests import (
    AlterConfigs,
    AlterOp,
    ConfigChange,
    CreateTopics,
    IncrementalAlterConfigs,
    NewTopic,
)
from ottla.metadata.controller.result import NO_ERROR, ApiError, Refused
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.model.config.broker import broker_config, standalone
from ottla.model.errors import ErrorCode

TOPIC = ConfigResource(ResourceType.TOPIC, "t")
BROKER = ConfigResource(ResourceType.BROKER, "1")
IMAGE = given.with_topics(given.cluster(1), NewTopic("t", 1, 1, configs=(("retention.ms", "5"),)))


def alter(
    resource: ConfigResource, *changes: ConfigChange, validate_only: bool = False
) -> tuple[ApiError, tuple[MetadataRecord, ...]]:
    request = IncrementalAlterConfigs(((resource, changes),), validate_only)
    result = given.accepted(given.handle(request, IMAGE, given.settings()))
    ((answered, error),) = result.reply
    assert answered == resource
    return error, result.records


def change(name: str, value: str | None, resource: ConfigResource = TOPIC) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def test_values_are_set_and_deleted() -> None:
    error, records = alter(
        TOPIC,
        ConfigChange("segment.ms", AlterOp.SET, "9"),
        ConfigChange("retention.ms", AlterOp.DELETE),
        ConfigChange("flush.ms", AlterOp.DELETE),
    )

    assert error == NO_ERROR
    assert records == (change("retention.ms", None), change("segment.ms", "9"))


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        (AlterOp.APPEND, "compact", "delete,compact"),
        (AlterOp.APPEND, "delete", "delete"),
        (AlterOp.SUBTRACT, "delete", ""),
    ],
)
def test_lists_are_edited_from_their_default_on(op: AlterOp, value: str, expected: str) -> None:
    _, records = alter(TOPIC, ConfigChange("cleanup.policy", op, value))

    assert records == (change("cleanup.policy", expected),)


@pytest.mark.parametrize(
    ("resource", "changes", "code", "message"),
    [
        (
            TOPIC,
            [ConfigChange("retention.ms", AlterOp.APPEND, "5")],
            ErrorCode.invalid_config,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            TOPIC,
            [ConfigChange("zzz", AlterOp.SET, "1")],
            ErrorCode.invalid_config,
            "Unknown topic config name: zzz",
        ),
        (
            ConfigResource(ResourceType.TOPIC, "nono"),
            [ConfigChange("retention.ms", AlterOp.SET, "1")],
            ErrorCode.unknown_topic_or_partition,
            "The topic 'nono' does not exist.",
        ),
        (
            TOPIC,
            [ConfigChange("retention.ms", AlterOp.SET, None)],
            ErrorCode.invalid_request,
            "Null value not supported for : retention.ms",
        ),
        (
            TOPIC,
            [ConfigChange("retention.ms", AlterOp.SET, "1"), ConfigChange("retention.ms", AlterOp.DELETE)],
            ErrorCode.invalid_request,
            "Error due to duplicate config keys",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(
    resource: ConfigResource, changes: list[ConfigChange], code: ErrorCode, message: str
) -> None:
    assert alter(resource, *changes) == (ApiError(code, message), ())


def test_an_unchanged_value_is_written_for_brokers_only() -> None:
    _, of_topic = alter(TOPIC, ConfigChange("retention.ms", AlterOp.SET, "5"))
    _, of_broker = alter(BROKER, ConfigChange("log.cleaner.threads", AlterOp.DELETE))

    assert of_topic == ()
    assert of_broker == (change("log.cleaner.threads", None, BROKER),)


def test_validate_only_writes_nothing() -> None:
    assert alter(TOPIC, ConfigChange("segment.ms", AlterOp.SET, "9"), validate_only=True) == (NO_ERROR, ())


def test_the_old_way_takes_away_what_is_not_named() -> None:
    request = AlterConfigs(((TOPIC, (("segment.ms", "9"),)),))

    result = given.accepted(given.handle(request, IMAGE, given.settings()))

    assert result.reply == ((TOPIC, NO_ERROR),)
    assert result.records == (change("retention.ms", None), change("segment.ms", "9"))


def test_too_many_changes_at_once_are_refused_as_a_whole() -> None:
    groups = (ConfigResource(ResourceType.GROUP, f"g{number}") for number in range(10_001))
    change = (ConfigChange("share.isolation.level", AlterOp.SET, "read_committed"),)

    outcome = given.handle(IncrementalAlterConfigs(tuple((group, change) for group in groups)), IMAGE, given.settings())

    message = "Unable to perform excessively large batch operation."
    assert outcome == Refused(ApiError(ErrorCode.policy_violation, message))


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ([ConfigChange("remote.storage.enable", AlterOp.SET, "false")], False),
        ([ConfigChange("remote.storage.enable", AlterOp.DELETE)], False),
        (
            [
                ConfigChange("remote.storage.enable", AlterOp.SET, "false"),
                ConfigChange("remote.log.delete.on.disable", AlterOp.SET, "true"),
            ],
            True,
        ),
        ([ConfigChange("remote.log.delete.on.disable", AlterOp.SET, "true")], True),
        ([ConfigChange("retention.ms", AlterOp.SET, "7")], True),
    ],
)
def test_the_remote_tier_of_a_topic_is_turned_off_only_with_what_is_there(
    changes: list[ConfigChange], allowed: bool
) -> None:
    broker = broker_config(standalone("/data", 9092) | {"remote.log.storage.system.enable": "true"})
    settings = dataclasses.replace(given.settings(), configs=config_rules(lambda: broker))
    tiered = given.after(IMAGE, change("remote.storage.enable", "true"))
    request = IncrementalAlterConfigs(((TOPIC, tuple(changes)),))
    ((_, error),) = given.accepted(given.handle(request, tiered, settings)).reply

    assert (error.code is ErrorCode.none) is allowed
    if not allowed:
        assert error.code is ErrorCode.invalid_config
        assert error.message is not None
        assert error.message.startswith("It is invalid to disable remote storage without deleting remote data.")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("abc", ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number."),
        ("99999999999", ErrorCode.invalid_request, "Unable to parse broker name as a base 10 number."),
        ("-1", ErrorCode.invalid_request, "Invalid negative broker ID."),
        ("2", ErrorCode.broker_id_not_registered, "No node with id 2 found."),
    ],
)
def test_configs_are_for_nodes_that_are_there(name: str, code: ErrorCode, message: str) -> None:
    """A controller may be asked directly. Kafka's own cannot even replay a broker's config under such a name."""
    resource = ConfigResource(ResourceType.BROKER, name)

    assert alter(resource, ConfigChange("log.cleaner.threads", AlterOp.SET, "2")) == (ApiError(code, message), ())


def test_a_node_that_is_a_controller_alone_has_configs_too() -> None:
    of_seven = IncrementalAlterConfigs(
        ((ConfigResource(ResourceType.BROKER, "7"), (ConfigChange("background.threads", AlterOp.SET, "9"),)),)
    )

    def error(**settings: Any) -> ApiError:
        ((_, error),) = given.accepted(
            given.handle(of_seven, IMAGE, dataclasses.replace(given.settings(), **settings))
        ).reply
        return error

    assert error(static_voters=(7, 8)) == error(node_id=7) == NO_ERROR
    assert error().code is ErrorCode.broker_id_not_registered


@pytest.mark.parametrize("resource", [TOPIC, BROKER])
def test_a_value_is_no_longer_than_kafka_can_tell_it(resource: ConfigResource) -> None:
    name = "follower.replication.throttled.replicas" if resource is TOPIC else "log.cleaner.threads"
    too_long = ",".join(f"{number}:{number}" for number in range(10_000))

    error, records = alter(resource, ConfigChange(name, AlterOp.SET, too_long))

    message = "The configuration value cannot be added because it exceeds the maximum value size of 32767 bytes."
    assert (error, records) == (ApiError(ErrorCode.invalid_config, message), ())


def test_a_new_topic_has_no_longer_values_either() -> None:
    config = ("follower.replication.throttled.replicas", ",".join(f"{number}:{number}" for number in range(10_000)))
    request = CreateTopics((NewTopic("long", 1, 1, configs=(config,)),))

    (created,) = given.accepted(given.handle(request, IMAGE, given.settings())).reply

    assert created.error.code is ErrorCode.invalid_config


@pytest.mark.parametrize(
    ("value", "is_looked_at", "allowed"),
    [
        ("/a,/b,/c", True, True),
        ("/a,/b,/c", False, False),
        ("*", False, False),
        (" /b ", False, True),
        ("", False, True),
        (None, False, True),
    ],
)
def test_a_controller_that_is_asked_directly_cordons_no_further_dirs(
    value: str | None, is_looked_at: bool, allowed: bool
) -> None:
    image = given.after(IMAGE, change("cordoned.log.dirs", "/a, /b", BROKER))
    op = AlterOp.DELETE if value is None else AlterOp.SET
    request = IncrementalAlterConfigs(
        ((BROKER, (ConfigChange("cordoned.log.dirs", op, value),)),), is_looked_at=is_looked_at
    )

    ((_, error),) = given.accepted(given.handle(request, image, given.settings())).reply

    assert error.code is (ErrorCode.none if allowed else ErrorCode.invalid_config)


def test_dirs_are_cordoned_from_a_metadata_version_on() -> None:
    image = given.cluster(1, metadata_version=29)
    request = IncrementalAlterConfigs(((BROKER, (ConfigChange("cordoned.log.dirs", AlterOp.SET, "/a"),)),))

    ((_, error),) = given.accepted(given.handle(request, image, given.settings())).reply

    assert error.code is ErrorCode.invalid_config
    assert "requires metadata.version >= 4.3-IV0" in str(error.message)
