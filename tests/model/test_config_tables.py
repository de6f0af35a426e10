"""The tables against Apache Kafka 4.3's own definitions, read out of its classes."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.model.config import BROKER_CONFIGS, TOPIC_CONFIGS, ConfigDef
from ottla.model.config.definition import REQUIRED

DEFINITIONS = Path(__file__).parent / "data" / "kafka-4.3-config-definitions.jsonl"
KAFKA: list[dict[str, Any]] = [json.loads(line) for line in DEFINITIONS.read_text().splitlines()]
TABLES = {"topic": TOPIC_CONFIGS, "broker": BROKER_CONFIGS}
KNOWN = [row for row in KAFKA if row["name"] in TABLES[row["table"]]]


def definition(row: dict[str, Any]) -> ConfigDef:
    return TABLES[row["table"]][row["name"]]


@pytest.mark.parametrize("row", KNOWN, ids=lambda row: f"{row['table']}:{row['name']}")
def test_a_config_has_kafkas_type_default_importance_and_visibility(row: dict[str, Any]) -> None:
    ours = definition(row)
    default = "<none>" if ours.default is REQUIRED else ours.default_text
    assert (ours.type.name, default, ours.importance.name, ours.internal) == (
        row["type"],
        row["default"],
        row["importance"],
        row["internal"],
    )
    if row["table"] == "broker":
        assert ours.update.value == row["update"]


@pytest.mark.parametrize(
    "row",
    [row for row in KNOWN if str(row["validator"]).startswith("[") and "partitionId" not in row["validator"]],
    ids=lambda row: str(row["name"]),
)
def test_a_config_has_kafkas_limits(row: dict[str, Any]) -> None:
    check = definition(row).validator.check
    numbers = re.match(r"\[(-?[\d.]+?),\.\.\.(?:,(-?[\d.]+))?\]", row["validator"])
    if numbers is None:  # a list of words
        words = row["validator"].strip("[]").split(", ")
        as_value = (lambda word: (word,)) if row["type"] == "LIST" else (lambda word: word)
        assert [word for word in words if check(as_value(word)) is not None] == []
        assert check(as_value("no such thing")) is not None
        return
    number = float if row["type"] == "DOUBLE" else int
    low = number(numbers[1])
    assert check(low) is None
    assert check(low - 1) is not None
    if numbers[2] is None:
        assert check((1 << 31) - 1) is None
    else:
        high = number(numbers[2])
        assert check(high) is None
        assert check(high + 1) is not None


def test_all_topic_configs_are_there() -> None:
    assert {row["name"] for row in KAFKA if row["table"] == "topic"} == set(TOPIC_CONFIGS)


def test_all_broker_configs_are_there() -> None:
    missing = {row["name"] for row in KAFKA if row["table"] == "broker"} - set(BROKER_CONFIGS)
    assert missing == set()


def test_nothing_is_there_that_kafka_does_not_have_but_for_what_says_so_in_its_name() -> None:
    for table, ours in TABLES.items():
        added = set(ours) - {row["name"] for row in KAFKA if row["table"] == table}
        assert [name for name in added if not name.startswith("ottla.")] == []
        assert all(ours[name].internal for name in added), "Kafka's tools must not see them"


def test_every_default_is_allowed_and_can_be_read_back() -> None:
    for table in TABLES.values():
        for row in table.values():
            if row.default_text is not None:
                assert row.parse(row.default_text) == row.default, row.name


def test_what_a_topic_falls_back_to_has_the_same_default() -> None:
    for row in TOPIC_CONFIGS.values():
        fallbacks = [(BROKER_CONFIGS[each.name].default_value, each.factor) for each in row.synonyms]
        for value, factor in fallbacks:
            if value is not None:
                assert (value * factor if isinstance(value, int) and factor != 1 else value) == row.default, row.name
                break


def test_every_config_is_documented() -> None:
    for table in TABLES.values():
        for row in table.values():
            assert len(row.doc) > 10 and row.doc.endswith("."), row.name
