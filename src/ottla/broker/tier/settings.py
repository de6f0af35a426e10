"""The configs of the remote tier, as a node uses them.

Where the store is, and what else it needs, stands in configs of its own: `rsm.config.url` and other `rsm.config.*`,
such as `rsm.config.aws.region`. Those of the metadata topic begin with `rlmm.config.`. Both prefixes can be changed, by
remote.log.storage.manager.impl.prefix and remote.log.metadata.manager.impl.prefix.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla.metadata.controller.requests import NewTopic
from ottla.model.config import BrokerConfig
from ottla.model.config_error import ConfigError
from ottla.model.names import REMOTE_METADATA_TOPIC

_TOPIC: Final = "remote.log.metadata.topic."
_DEFAULTS: Final = {"num.partitions": 50, "min.isr": 2, "retention.ms": -1}
_NO_LIMIT: Final = {"retention.ms": -1}  # the others are at least 1


class StorePlace(NamedTuple):
    url: str
    options: dict[str, str]


def has_tier(config: BrokerConfig) -> bool:
    return bool(config.get("remote.log.storage.system.enable"))


def store_place(config: BrokerConfig) -> StorePlace:
    prefix = str(config.get("remote.log.storage.manager.impl.prefix"))
    options = {name.replace(".", "_"): value for name, value in _own(config, prefix).items()}
    url = options.pop("url", "")
    if not url:
        raise ConfigError(
            f"{prefix}url", None,
            "remote.log.storage.system.enable needs a store. Give its address, such as s3://bucket/folder or "
            "file:///mnt/tier.",
        )  # fmt: skip
    return StorePlace(url, options)


def metadata_topic(config: BrokerConfig) -> NewTopic:
    """Unless told otherwise on as many brokers as the other internal topics: three, or the only one."""
    prefix = str(config.get("remote.log.metadata.manager.impl.prefix"))
    given = _own(config, prefix)
    defaults = _DEFAULTS | {"replication.factor": config.get_int("offsets.topic.replication.factor")}
    values = {name: _number(prefix, given, name, default) for name, default in defaults.items()}
    return NewTopic(
        REMOTE_METADATA_TOPIC,
        values["num.partitions"],
        values["replication.factor"],
        configs=(
            ("cleanup.policy", "delete"),
            # What is gone from all disks stands here alone: a loss of power must not take what was acknowledged.
            ("flush.messages", "1"),
            ("min.insync.replicas", str(min(values["min.isr"], values["replication.factor"]))),
            ("remote.storage.enable", "false"),
            ("retention.ms", str(values["retention.ms"])),
        ),
    )


def _number(prefix: str, given: dict[str, str], name: str, default: int) -> int:
    text = given.get(_TOPIC + name)
    if text is None:
        return default
    at_least = _NO_LIMIT.get(name, 1)
    try:
        value = int(text)
    except ValueError:
        raise ConfigError(f"{prefix}{_TOPIC}{name}", text, "Not a number") from None
    if value < at_least:
        raise ConfigError(f"{prefix}{_TOPIC}{name}", text, f"Value must be at least {at_least}")
    return value


def _own(config: BrokerConfig, prefix: str) -> dict[str, str]:
    """Static configs that begin with a prefix, without it."""
    static = config.layers.static
    return {name[len(prefix) :]: value for name, value in static.items() if name.startswith(prefix)}
