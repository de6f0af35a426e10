"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tests.corpus.scenarios.scenario import CONFIGURED, TIMED, Cases, Fixture, Scenario, Values, own

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, UNSET, APPEND, SUBTRACT = range(4)


# -- DescribeConfigs


def _describe(*resources: tuple[int, str], keys: list[str] | None = None, **values: Any) -> Values:
    rows = [{"resource_type": kind, "resource_name": name, "configuration_keys": keys} for kind, name in resources]
    return {"resources": rows, "include_synonyms": True, "include_documentation": False} | values


def _describe_cases(version: int) -> Cases:
    return {
        "some of a topic": _describe((TOPIC, CONFIGURED), keys=["retention.ms", "cleanup.policy", "no.such"]),
        "a topic": _describe((TOPIC, CONFIGURED)),
        "topics, documented": _describe((TOPIC, CONFIGURED), (TOPIC, TIMED), include_documentation=True),
        "without synonyms": _describe((TOPIC, CONFIGURED), include_synonyms=False),
        "none of a topic": _describe((TOPIC, TIMED), keys=[]),
        "no resources": _describe(),
        "a topic twice": _describe((TOPIC, TIMED), (TOPIC, TIMED), keys=["retention.ms"]),
        "absent": _describe((TOPIC, "absent")),
        "wrong names": _describe((TOPIC, ""), (TOPIC, "two words"), (TOPIC, "x" * 250)),
        "the broker": _describe((BROKER, "1"), include_documentation=True),
        "some of the broker": _describe((BROKER, "1"), keys=["num.partitions", "node.id", "log.retention.ms"]),
        "all brokers": _describe((BROKER, "")),
        "other brokers": _describe((BROKER, "2"), (BROKER, "x"), (BROKER, "-1"), (BROKER, "01")),
        "loggers": _describe((LOGGER, "1"), keys=["root"]),
        "loggers of others": _describe((LOGGER, ""), (LOGGER, "2"), (LOGGER, "x")),
        "metrics": _describe((METRICS, "m"), (METRICS, "")),
        "groups": _describe((GROUP, "g"), (GROUP, "")),
        **{f"type {kind}": _describe((TOPIC, TIMED), (kind, "x"), keys=["retention.ms"]) for kind in (0, 1, 3, 64, -1)},
    }


DESCRIBE_CONFIGS: Final = Scenario(32, "DescribeConfigs", 1, 4, _describe_cases)

# -- AlterConfigs


def _alter(*resources: tuple[int, str, Mapping[str, str | None]], check: bool = True) -> Values:
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "value": value} for key, value in configs.items()],
        }
        for kind, name, configs in resources
    ]
    return {"resources": rows, "validate_only": check}


def _alter_cases(version: int) -> Cases:
    topic = own(33, version, "plain")
    week: dict[str, str | None] = {"retention.ms": "1000"}
    return {
        "checked only": _alter((TOPIC, topic, week)),
        "changed": _alter((TOPIC, topic, week), check=False),
        "back to the defaults": _alter((TOPIC, topic, {}), check=False),
        "no resources": _alter(),
        "a topic twice": _alter((TOPIC, topic, week), (TOPIC, topic, {})),
        "absent": _alter((TOPIC, "absent", week)),
        "an empty name": _alter((TOPIC, "", week)),
        "a wrong value": _alter((TOPIC, topic, {"retention.ms": "x"})),
        "an unknown name": _alter((TOPIC, topic, {"no.such": "x"})),
        "an empty config": _alter((TOPIC, topic, {"": "x"})),
        "null": _alter((TOPIC, topic, {"retention.ms": None})),
        "the broker": _alter((BROKER, "1", {"log.cleaner.threads": "2"})),
        "the broker, wrongly": _alter((BROKER, "1", {"log.cleaner.threads": "x"})),
        "the broker, not dynamic": _alter((BROKER, "1", {"log.dirs": "x"})),
        "another broker": _alter((BROKER, "9", week)),
        "no broker": _alter((BROKER, "x", week)),
        "loggers": _alter((LOGGER, "1", {"root": "INFO"})),
        "metrics": _alter((METRICS, "m", {"interval.ms": "1000"})),
        "metrics, wrongly": _alter((METRICS, "m", {"interval.ms": "1"})),
        "a group": _alter((GROUP, "g", {"consumer.session.timeout.ms": "50000"})),
        **{f"type {kind}": _alter((kind, "x", {})) for kind in (0, 1, 3, 64, -1)},
    }


def _alter_is_harmless(request: Any) -> bool:
    """No configs of brokers; no resource twice, which Apache Kafka never answers (in AlterConfigs)."""
    named = {(row.resource_type, row.resource_name) for row in request.resources}
    if len(named) < len(request.resources):
        return False
    return all(row.resource_type == TOPIC for row in request.resources) or bool(request.validate_only)


ALTER_CONFIGS: Final = Scenario(
    33, "AlterConfigs", 0, 2, _alter_cases, lambda version: (Fixture(own(33, version, "plain")),), _alter_is_harmless
)

# -- IncrementalAlterConfigs

Change = tuple[str, int, str | None]


def _change(*resources: tuple[int, str, list[Change]], check: bool = True) -> Values:
    rows = [
        {
            "resource_type": kind,
            "resource_name": name,
            "configs": [{"name": key, "config_operation": how, "value": value} for key, how, value in changes],
        }
        for kind, name, changes in resources
    ]
    return {"resources": rows, "validate_only": check}


def _change_cases(version: int) -> Cases:
    topic = own(44, version, "plain")

    def one(*change: Change, check: bool = True) -> Values:
        return _change((TOPIC, topic, list(change)), check=check)

    return {
        "checked only": one(("retention.ms", SET, "1000")),
        "set": one(("retention.ms", SET, "1000"), check=False),
        "unset": one(("retention.ms", UNSET, None), check=False),
        "unset again": one(("retention.ms", UNSET, None), check=False),
        "appended": one(("cleanup.policy", APPEND, "compact"), check=False),
        "appended again": one(("cleanup.policy", APPEND, "compact"), check=False),
        "subtracted": one(("cleanup.policy", SUBTRACT, "compact"), check=False),
        "subtracted again": one(("cleanup.policy", SUBTRACT, "compact"), check=False),
        "appended to a number": one(("retention.ms", APPEND, "1")),
        "subtracted from a number": one(("retention.ms", SUBTRACT, "1")),
        "operation 4": one(("retention.ms", 4, "1")),
        "operation -1": one(("retention.ms", -1, "1")),
        "a wrong value": one(("retention.ms", SET, "x")),
        "an empty value": one(("retention.ms", SET, "")),
        "no value": one(("retention.ms", SET, None)),
        "no value, appended": one(("cleanup.policy", APPEND, None)),
        "an unknown name": one(("no.such", SET, "1")),
        "an unknown name, unset": one(("no.such", UNSET, None)),
        "an unknown name, appended": one(("no.such", APPEND, "1")),
        "no name": one(("", SET, "1")),
        "a name twice": one(("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
        "a topic twice": _change((TOPIC, topic, []), (TOPIC, topic, [])),
        "nothing": one(),
        "no resources": _change(),
        "absent": _change((TOPIC, "absent", [("retention.ms", SET, "1")])),
        "an empty topic": _change((TOPIC, "", [("retention.ms", SET, "1")])),
        "the broker": _change((BROKER, "1", [("log.cleaner.threads", SET, "2")])),
        "all brokers": _change((BROKER, "", [("log.cleaner.threads", SET, "2")])),
        "the broker, wrongly": _change((BROKER, "1", [("log.cleaner.threads", SET, "x")])),
        "the broker, not dynamic": _change((BROKER, "1", [("log.dirs", SET, "/x")])),
        "the broker, unknown": _change((BROKER, "1", [("no.such", SET, "x")])),
        "another broker": _change((BROKER, "9", [("log.cleaner.threads", SET, "2")])),
        "no broker": _change((BROKER, "x", [("log.cleaner.threads", SET, "2")])),
        "a logger": _change((LOGGER, "1", [("root", SET, "INFO")])),
        "a logger, wrongly": _change((LOGGER, "1", [("root", SET, "LOUD")])),
        "a logger that nobody knows": _change((LOGGER, "1", [("no.such.logger", SET, "INFO")])),
        "a logger of another": _change((LOGGER, "9", [("root", SET, "INFO")])),
        "a logger, appended": _change((LOGGER, "1", [("root", APPEND, "INFO")])),
        "metrics": _change((METRICS, "m", [("interval.ms", SET, "1000")])),
        "metrics, wrongly": _change((METRICS, "m", [("interval.ms", SET, "1")])),
        "a group": _change((GROUP, "g", [("consumer.session.timeout.ms", SET, "50000")])),
        "a group, wrongly": _change((GROUP, "g", [("consumer.session.timeout.ms", SET, "1")])),
        **{f"type {kind}": _change((kind, "x", [])) for kind in (0, 1, 3, 64, -1)},
    }


def _change_is_harmless(request: Any) -> bool:
    """And no operations that do not exist: Apache Kafka's controller resigns over them, which takes seconds."""
    operations = {change.config_operation for row in request.resources for change in row.configs}
    return _alter_is_harmless(request) and operations <= {SET, UNSET, APPEND, SUBTRACT}


INCREMENTAL_ALTER_CONFIGS: Final = Scenario(
    44,
    "IncrementalAlterConfigs",
    0,
    1,
    _change_cases,
    lambda version: (Fixture(own(44, version, "plain")),),
    _change_is_harmless,
)

# -- ListConfigResources


def _list_cases(version: int) -> Cases:
    return {
        "topics": {"resource_types": [TOPIC]},
        "all": {"resource_types": []},
        **{f"type {kind}": {"resource_types": [kind]} for kind in (BROKER, LOGGER, METRICS, GROUP, 0, 1, 64, -1)},
        "types": {"resource_types": [TOPIC, BROKER, TOPIC]},
    }


LIST_CONFIG_RESOURCES: Final = Scenario(74, "ListConfigResources", 0, 1, _list_cases)
