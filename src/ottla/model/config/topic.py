"""The configs of a topic as its logs use them: the topic's own, else the broker's, else the default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from ottla.model.config.broker import BrokerConfig
from ottla.model.config.definition import ConfigDef, Value
from ottla.model.config.tables.topic import TOPIC_CONFIGS
from ottla.model.config_error import ConfigError
from ottla.model.names import INTERNAL_TOPICS, REMOTE_METADATA_TOPIC

AS_RETENTION: Final = -2  # of local.retention.*


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Each attribute is the topic config of that name, with `_` for `.`."""

    segment_bytes: int
    segment_ms: int
    segment_jitter_ms: int
    segment_index_bytes: int
    flush_messages: int
    flush_ms: int
    retention_bytes: int
    retention_ms: int
    max_message_bytes: int
    index_interval_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    file_delete_delay_ms: int
    min_cleanable_dirty_ratio: float
    cleanup_policy: frozenset[str]
    unclean_leader_election_enable: bool
    min_insync_replicas: int
    compression_type: str
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    preallocate: bool
    message_timestamp_type: str
    message_timestamp_before_max_ms: int
    message_timestamp_after_max_ms: int
    leader_replication_throttled_replicas: tuple[str, ...]
    follower_replication_throttled_replicas: tuple[str, ...]
    remote_storage_enable: bool
    local_retention_ms: int
    local_retention_bytes: int
    remote_log_copy_disable: bool
    remote_log_delete_on_disable: bool

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def copies_to_tier(self) -> bool:
        """Whether closed segments go to the remote tier, so that local retention is about copies only."""
        return self.remote_storage_enable and not self.remote_log_copy_disable

    @property
    def kept_locally_ms(self) -> int:
        local = self.local_retention_ms
        return self.retention_ms if local == AS_RETENTION or not self.copies_to_tier else local

    @property
    def kept_locally_bytes(self) -> int:
        local = self.local_retention_bytes
        return self.retention_bytes if local == AS_RETENTION or not self.copies_to_tier else local

    @property
    def max_segment_ms(self) -> int:
        """The age at which a segment rolls: a compacted log must let records get old enough to be compacted in time."""
        return min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms


def log_config(
    broker: BrokerConfig | None = None, overrides: Mapping[str, str] | None = None, topic: str = ""
) -> LogConfig:
    """The values in force for one topic. Overrides that are stored were validated when they were set.

    Internal topics never use the remote tier, whatever is configured: it could not be read without one of them.
    """
    values = topic_values(broker, overrides or {})
    taken: dict[str, Any] = {field.name: values[field.name.replace("_", ".")] for field in fields(LogConfig)}
    taken["cleanup_policy"] = frozenset(taken["cleanup_policy"])
    if values["internal.segment.bytes"] is not None:
        taken["segment_bytes"] = values["internal.segment.bytes"]
    if topic == REMOTE_METADATA_TOPIC or topic in INTERNAL_TOPICS:
        taken["remote_storage_enable"] = False
    return LogConfig(**taken)


def topic_values(broker: BrokerConfig | None, overrides: Mapping[str, str]) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for name, definition in TOPIC_CONFIGS.items():
        if name in overrides:
            values[name] = definition.parse(overrides[name])
        else:
            values[name] = definition.default_value if broker is None else _from_broker(definition, broker)
    return values


def _from_broker(definition: ConfigDef, broker: BrokerConfig) -> Value:
    for synonym in definition.synonyms:
        value = broker.get(synonym.name)
        if value is None:
            continue
        if synonym.name.startswith("log.retention.") and isinstance(value, int) and value < 0:
            return value if synonym.name == "log.retention.bytes" else -1  # -1 hours are no -3600000 ms
        return value * synonym.factor if synonym.factor != 1 and isinstance(value, int) else value
    return definition.default_value


def validate_topic_configs(overrides: Mapping[str, str | None], broker: BrokerConfig | None = None) -> None:
    """Raises ConfigError (INVALID_CONFIG to a client) for an unknown name or a value that is not allowed."""
    texts: dict[str, str] = {}
    for name, text in overrides.items():
        if name not in TOPIC_CONFIGS:
            raise ConfigError("", None, f"Unknown topic config name: {name}")
        if text is None:
            raise ConfigError("", None, f"Null value not supported for topic configs: {name}")
        texts[name] = text
    values = topic_values(broker, texts)
    shortest, longest = cast(int, values["min.compaction.lag.ms"]), cast(int, values["max.compaction.lag.ms"])
    if shortest > longest:
        raise ConfigError(
            "min.compaction.lag.ms", str(shortest), f"must not be above max.compaction.lag.ms ({longest})"
        )
    if values["remote.storage.enable"]:
        _check_remote(values, broker)


def _check_remote(values: Mapping[str, Value], broker: BrokerConfig | None) -> None:
    if broker is None or not broker.get("remote.log.storage.system.enable"):
        raise ConfigError(
            "", None,
            "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with remote log "
            "storage. Set remote.log.storage.system.enable on brokers and controllers.",
        )  # fmt: skip
    if "compact" in cast("tuple[str, ...]", values["cleanup.policy"]):
        raise ConfigError(
            "", None,
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        )  # fmt: skip
    for unit in ("bytes", "ms"):
        local, total = cast(int, values[f"local.retention.{unit}"]), cast(int, values[f"retention.{unit}"])
        if total < 0 or local == AS_RETENTION:
            continue
        name = f"local.retention.{unit}"
        if local == -1:
            raise ConfigError(name, "-1", f"Value must not be -1 as retention.{unit} value is set as {total}.")
        if local > total:
            raise ConfigError(
                name, str(local), f"Value must not be more than retention.{unit} property value: {total}"
            )  # fmt: skip
    for unit in ("bytes", "ms") if values["remote.log.copy.disable"] else ():
        if values[f"local.retention.{unit}"] not in (AS_RETENTION, values[f"retention.{unit}"]):
            raise ConfigError(
                "", None,
                f"When `remote.log.copy.disable` is set to true, the `local.retention.{unit}` and `retention.{unit}` "
                "must be set to the identical value because there will be no more logs copied to the remote storage.",
            )  # fmt: skip
