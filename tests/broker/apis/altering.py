"""Asks a broker to change configs, and what they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.broker.apis.asking import ALTER_CONFIGS, DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, ask

from ottla.model.errors import ErrorCode

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
Change = tuple[str, int, str | None]
Outcome = tuple[ErrorCode, str | None]


def changed(kind: int, name: str, *changes: Change) -> dict[str, Any]:
    configs = [{"name": key, "config_operation": op, "value": value} for key, op, value in changes]
    return {"resource_type": kind, "resource_name": name, "configs": configs}


def change(address: str, *resources: dict[str, Any], validate_only: bool = False, version: int = 1) -> list[Outcome]:
    answer = ask(
        address, INCREMENTAL_ALTER_CONFIGS, version, resources=list(resources), validate_only=validate_only
    )  # fmt: skip
    return [(row.error_code, row.error_message) for row in answer.responses]


def set_config(address: str, kind: int, name: str, **values: str | None) -> None:
    """Values with `_` for `.`; None unsets. Must succeed."""
    changes = [(key.replace("_", "."), DELETE if value is None else SET, value) for key, value in values.items()]
    assert change(address, changed(kind, name, *changes)) == [(ErrorCode.none, None)]


def replaced(kind: int, name: str, configs: Mapping[str, str | None]) -> dict[str, Any]:
    rows = [{"name": key, "value": value} for key, value in configs.items()]
    return {"resource_type": kind, "resource_name": name, "configs": rows}


def replace(address: str, *resources: dict[str, Any], validate_only: bool = False, version: int = 2) -> list[Outcome]:
    answer = ask(address, ALTER_CONFIGS, version, resources=list(resources), validate_only=validate_only)
    return [(row.error_code, row.error_message) for row in answer.responses]


def described(address: str, kind: int, name: str, *keys: str) -> dict[str, Any]:
    """The entries by name, with synonyms."""
    resources = [{"resource_type": kind, "resource_name": name, "configuration_keys": list(keys) or None}]
    answer = ask(
        address, DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=True, include_documentation=True
    )  # fmt: skip
    (result,) = answer.results
    assert result.error_code is ErrorCode.none, result
    return {config.name: config for config in result.configs}


def value(address: str, kind: int, name: str, key: str) -> str | None:
    text: str | None = described(address, kind, name, key)[key].value
    return text
