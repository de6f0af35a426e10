"""The configs of a group: its own, else the broker's, else the default; within what the broker allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, cast

from ottla.model.config.broker import BrokerConfig
from ottla.model.config.definition import Value
from ottla.model.config.tables.broker import BROKER_CONFIGS
from ottla.model.config.tables.group import GROUP_CONFIGS
from ottla.model.config_error import ConfigError


def group_values(broker: BrokerConfig | None, overrides: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, definition in GROUP_CONFIGS.items():
        if name in overrides:
            values[name] = definition.parse(overrides[name])
        elif broker is not None and definition.synonyms:
            values[name] = broker.get(definition.synonyms[0].name)
        else:
            values[name] = definition.default_value
    return values


def validate_group_configs(overrides: Mapping[str, str], broker: BrokerConfig | None = None) -> None:
    """Raises ConfigError for an unknown name, a value that is not allowed, or one beyond the broker's bounds."""
    for name in overrides:
        if name not in GROUP_CONFIGS:
            raise ConfigError("", None, f"Unknown group config name: {name}")
    values = group_values(broker, overrides)
    for name in overrides:
        _check_bounds(name, values[name], broker)
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        if cast(int, values[session]) <= cast(int, values[heartbeat]):
            raise ConfigError("", None, f"{session} must be greater than {heartbeat}")


def _check_bounds(name: str, value: Value, broker: BrokerConfig | None) -> None:
    kind, _, rest = name.partition(".")
    low = _bound(f"group.{kind}.min.{rest}", broker)
    # the one config whose limit leaves out a word of its name
    high = _bound(f"group.{kind}.max.{rest.removeprefix('num.')}", broker)
    if low is not None and cast(int, value) < low.value:
        raise ConfigError("", None, f"{name} must be greater than or equal to {low.name} ({low.value})")
    if high is not None and cast(int, value) > high.value:
        raise ConfigError("", None, f"{name} must be less than or equal to {high.name} ({high.value})")


class _Bound(NamedTuple):
    name: str
    value: int


def _bound(name: str, broker: BrokerConfig | None) -> _Bound | None:
    definition = BROKER_CONFIGS.get(name)
    if definition is None:
        return None
    return _Bound(name, cast(int, definition.default_value if broker is None else broker.get(name)))
