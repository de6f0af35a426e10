"""What a running node takes: which broker configs can change, for whom, and what is checked before one does.

The order of the checks is Kafka's, since a client sees only the first that fails: what cannot change at all, what can
change for one listener only, the values, what cannot be set for all brokers at once, then the node as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, cast

from ottla.model.config.broker import BrokerConfig
from ottla.model.config.definition import ConfigDef, Update
from ottla.model.config.tables.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS
from ottla.model.config.tables.security import RELOADABLE
from ottla.model.config_error import ConfigError

_OF_LISTENER: Final = re.compile(r"listener\.name\.[^.]*\.(.*)")
_FOR_ALL_BROKERS: Final = ("max.connections", "max.connection.creation.rate", "num.network.threads")
_THREADS: Final = (
    "num.io.threads",
    "num.network.threads",
    "num.replica.fetchers",
    "num.recovery.threads.per.data.dir",
    "background.threads",
    "log.cleaner.threads",
)


def base_name(name: str) -> str:
    """The config that `listener.name.NAME.CONFIG` sets for one listener; any other name as it is."""
    found = _OF_LISTENER.fullmatch(name)
    return name if found is None else found[1]


def definition_of(name: str) -> ConfigDef | None:
    base = base_name(name)
    return BROKER_CONFIGS.get(base) or DYNAMIC_CONFIGS.get(base)


def checked_dynamic(now: BrokerConfig, values: Mapping[str, str], *, per_broker: bool) -> BrokerConfig:
    """The node as it would be if `values` were all that is set for it, or for all brokers. ConfigError if it may not.

    Names that are not known are no error: plug-ins have configs of their own.
    """
    _check_names(values, per_broker=per_broker)
    layers = now.layers
    changed = now.with_dynamic(
        cluster=layers.dynamic_default if per_broker else values,
        broker=values if per_broker else layers.dynamic_broker,
    )
    _check_change(now, changed)
    return changed


def usable(values: Mapping[str, str], *, per_broker: bool) -> tuple[dict[str, str], list[ConfigError]]:
    """What of the stored values can be used, and what is wrong with the rest: a node must start in spite of them."""
    good: dict[str, str] = {}
    wrong: list[ConfigError] = []
    for name, value in values.items():
        try:
            _check_names({name: value}, per_broker=per_broker)
        except ConfigError as error:
            wrong.append(error)
        else:
            good[name] = value
    return good, wrong


def _check_names(values: Mapping[str, str], *, per_broker: bool) -> None:
    _refuse(
        (name for name in values if name in BROKER_CONFIGS and name not in DYNAMIC_CONFIGS),
        "Cannot update these configs dynamically",
    )
    _refuse(
        (name for name in values if name in RELOADABLE),
        "These security configs can be dynamically updated only per-listener using the listener prefix",
    )
    for name, value in values.items():
        definition = DYNAMIC_CONFIGS.get(base_name(name))
        if definition is not None:
            definition.parse(value)
    if not per_broker:
        _refuse(
            (name for name in values if _is_per_broker(name)),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )


def _refuse(names: Iterable[str], reason: str) -> None:
    if found := sorted(names):
        raise ConfigError("", None, f"{reason}: [{', '.join(found)}]")


def _is_per_broker(name: str) -> bool:
    base = base_name(name)
    if base != name:
        return base not in _FOR_ALL_BROKERS
    return name in DYNAMIC_CONFIGS and DYNAMIC_CONFIGS[name].update is Update.PER_BROKER


def _check_change(now: BrokerConfig, then: BrokerConfig) -> None:
    for name in _THREADS:
        _check_threads(name, now.get_int(name), then.get_int(name))
    _check_reporters(now, then)
    for unit in ("ms", "bytes"):
        _check_local_retention(unit, then)
    if then.listeners.told != now.listeners.told:
        raise ConfigError(
            "", None,
            "Advertised listeners cannot be altered in a running node (unless advertised.listeners says otherwise, all "
            "listeners are): restart it with the new ones",
        )  # fmt: skip


def _check_reporters(now: BrokerConfig, then: BrokerConfig) -> None:
    """Kafka refuses a class that it cannot load. Here that is every class but the one of its default."""
    name = "metric.reporters"
    known = cast("tuple[str, ...]", BROKER_CONFIGS[name].default_value)
    classes = cast("tuple[str, ...]", then.get(name))
    strangers = [each for each in classes if each not in known]
    if strangers and then.get(name) != now.get(name):
        raise ConfigError(name, ",".join(classes), f"{', '.join(strangers)} cannot be loaded: there is no JVM here")


def _check_threads(name: str, now: int, then: int) -> None:
    reason = None
    if then < now // 2:
        reason = f"value should be at least half the current value {now}"
    elif then > now * 2:
        reason = f"value should not be greater than double the current value {now}"
    if then != now and reason is not None:
        raise ConfigError(name, str(then), f"Dynamic thread count update validation failed, {reason}")


def _check_local_retention(unit: str, then: BrokerConfig) -> None:
    name = f"log.local.retention.{unit}"
    local, total = then.get_int(name), _retention(unit, then)
    if total < 0 or local == -2:
        return
    if local == -1 or local > total:
        raise ConfigError(name, str(local), f"must not be above log.retention.{unit} ({total}); -2 follows it")


def _retention(unit: str, config: BrokerConfig) -> int:
    if unit == "bytes":
        return config.get_int("log.retention.bytes")
    for name, factor in (("ms", 1), ("minutes", 60_000), ("hours", 3_600_000)):
        value = cast("int | None", config.get(f"log.retention.{name}"))
        if value is not None:
            return value * factor if value >= 0 else -1
    return -1
