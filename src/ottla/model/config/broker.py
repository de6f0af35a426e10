"""The configs of this node: read once, checked together, then plain attributes.

`BrokerConfig` has an attribute for each config that the node itself uses (its name with `_` for `.`), and `get` for all
others. Values come from three layers, as in Kafka: static (a file or --set), dynamic for the whole cluster, dynamic
for this broker; the later one wins, also over another name for the same setting (log.retention.ms over .hours).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Final, cast

from ottla.model.config.definition import ConfigDef, ConfigSource, Required, Value
from ottla.model.config.providers import resolved
from ottla.model.config.tables.broker import BROKER_CONFIGS, DYNAMIC_CONFIGS
from ottla.model.config.validators import split_host_port
from ottla.model.config_error import ConfigError, ConfigErrors, raise_any
from ottla.model.listeners import Listeners, parse_listeners


@dataclass(frozen=True, slots=True)
class Layers:
    """What was set, as text, by where it was set."""

    static: Mapping[str, str] = field(default_factory=dict)
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    dynamic_broker: Mapping[str, str] = field(default_factory=dict)

    def by_precedence(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        return (
            (ConfigSource.DYNAMIC_BROKER_CONFIG, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic_default),
            (ConfigSource.STATIC_BROKER_CONFIG, self.static),
        )

    def merged(self) -> dict[str, str]:
        """One value for each name; a higher layer's value also drops what other names for it say below."""
        merged = dict(self.static)
        for layer in (self.dynamic_default, self.dynamic_broker):
            for name in layer:
                for synonym in broker_synonyms(name):
                    merged.pop(synonym, None)
            merged.update(layer)
        return merged


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    # who this node is
    process_roles: tuple[str, ...]
    node_id: int
    broker_rack: str | None
    controller_quorum_voters: tuple[str, ...]
    inter_broker_listener_name: str | None
    # connections and requests
    socket_send_buffer_bytes: int
    socket_receive_buffer_bytes: int
    socket_request_max_bytes: int
    socket_listen_backlog_size: int
    connections_max_idle_ms: int
    max_connections: int
    max_connections_per_ip: int
    queued_max_requests: int
    queued_max_request_bytes: int
    request_timeout_ms: int
    message_max_bytes: int
    fetch_max_bytes: int
    max_incremental_fetch_session_cache_slots: int
    max_request_partition_size_limit: int
    # topics
    num_partitions: int
    default_replication_factor: int
    auto_create_topics_enable: bool
    delete_topic_enable: bool
    min_insync_replicas: int
    unclean_leader_election_enable: bool
    # the housekeeping of logs
    log_retention_check_interval_ms: int
    log_initial_task_delay_ms: int
    log_flush_scheduler_interval_ms: int
    log_flush_offset_checkpoint_interval_ms: int
    log_flush_start_offset_checkpoint_interval_ms: int
    log_dir_failure_timeout_ms: int
    log_cleaner_enable: bool
    log_cleaner_backoff_ms: int
    replica_high_watermark_checkpoint_interval_ms: int
    replica_lag_time_max_ms: int
    replica_fetch_max_bytes: int
    replica_fetch_wait_max_ms: int
    # producers and transactions
    producer_id_expiration_ms: int
    producer_id_expiration_check_interval_ms: int
    transactional_id_expiration_ms: int
    transaction_max_timeout_ms: int
    transaction_partition_verification_enable: bool
    # the quorum and the metadata log
    controller_quorum_election_timeout_ms: int
    controller_quorum_fetch_timeout_ms: int
    controller_quorum_append_linger_ms: int
    metadata_log_segment_bytes: int
    metadata_log_segment_ms: int
    metadata_max_retention_bytes: int
    metadata_max_retention_ms: int
    metadata_log_max_record_bytes_between_snapshots: int
    metadata_log_max_snapshot_interval_ms: int
    metadata_max_idle_interval_ms: int
    broker_heartbeat_interval_ms: int
    broker_session_timeout_ms: int
    controlled_shutdown_enable: bool
    # resolved from several configs
    log_dirs: tuple[str, ...]
    metadata_log_dir: str
    listeners: Listeners
    # everything, as given and as parsed
    layers: Layers
    values: Mapping[str, Value]

    @property
    def is_controller(self) -> bool:
        return "controller" in self.process_roles

    @property
    def is_broker(self) -> bool:
        return "broker" in self.process_roles

    @property
    def metrics_listener(self) -> tuple[str, int] | None:
        """Host and port."""
        return split_host_port(cast(str, self.values["ottla.metrics.listener"]))

    @property
    def host_label(self) -> str | None:
        """The machine that this broker says it runs on."""
        return cast(str | None, self.values["ottla.host"])

    def get(self, name: str) -> Value:
        """The value in force of any config in the table."""
        return self.values[name]

    def get_int(self, name: str) -> int:
        value = self.values[name]
        assert isinstance(value, int)
        return value

    def get_float(self, name: str) -> float:
        value = self.values[name]
        assert isinstance(value, int | float)
        return float(value)

    def is_cordoned(self, folder: str) -> bool:
        """Whether one of the log dirs gets no new partitions (KIP-1066)."""
        cordoned = cast("tuple[str, ...]", self.values["cordoned.log.dirs"])
        return folder in cordoned or cordoned == ("*",)

    def is_set(self, name: str) -> bool:
        return any(name in layer for _, layer in self.layers.by_precedence())

    @property
    def unknown(self) -> tuple[str, ...]:
        """Static names that no table knows: to be warned about, as Kafka does, not refused."""
        return tuple(name for name in self.layers.static if name not in BROKER_CONFIGS and not _is_plugin(name))

    def with_dynamic(self, *, cluster: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        return broker_config(Layers(self.layers.static, dict(cluster), dict(broker)))


def standalone(log_dir: str, port: int, host: str = "127.0.0.1") -> dict[str, str]:
    """What a node of its own needs when nobody said anything: both roles, loopback only."""
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{host}:{port}",
        "controller.listener.names": "",
        "log.dirs": log_dir,
        # a single node cannot have three replicas of anything
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.min.isr": "1",
    }


def broker_config(given: Mapping[str, str] | Layers, where: Mapping[str, str] | None = None) -> BrokerConfig:
    """Parses and checks; ConfigError names the config, the value, what is allowed and, from `where`, file and line.

    With `where` all that is wrong is told at once, in the order of the file; without, the first of it, as to a client.
    """
    layers = given if isinstance(given, Layers) else Layers(static=dict(given))
    try:
        static = _with_node_id(resolved(layers.static))
        return _build(Layers(static, layers.dynamic_default, layers.dynamic_broker))
    except ConfigError as error:
        found = error.errors if isinstance(error, ConfigErrors) else (error,)
        if where is None:
            raise found[0] from None
        order = {place: number for number, place in enumerate(where.values())}
        told = [_placed(each, where) for each in _said_once(found, layers.static)]
        raise_any(sorted(told, key=lambda each: order.get(each.where or "", len(order))))
        raise


def _said_once(errors: Sequence[ConfigError], given: Mapping[str, str]) -> list[ConfigError]:
    """Of node.id and broker.id, one of which was given and stands for both, only that one."""
    names = {error.name for error in errors}
    copied = {"node.id", "broker.id"} - set(given) if {"node.id", "broker.id"} <= names else set()
    return [error for error in errors if error.name not in copied]


def _placed(error: ConfigError, where: Mapping[str, str]) -> ConfigError:
    place = _place(error.name, where)
    return error if error.where is not None or place is None else error.at(place)


def _place(name: str, where: Mapping[str, str]) -> str | None:
    """Where a config stands, under either name of the node's id."""
    if name == "node.id":
        return where.get(name, where.get("broker.id"))
    return where.get(name)


def broker_synonyms(name: str) -> tuple[str, ...]:
    """All names for the setting behind a broker config, in the order in which they count."""
    definition = BROKER_CONFIGS.get(name)
    if definition is None or not definition.synonyms:
        return (name,)
    return tuple(synonym.name for synonym in definition.synonyms)


def _is_plugin(name: str) -> bool:
    """Names that belong to listeners or plug-ins: any may be given."""
    return name.startswith(("listener.name.", "config.providers.", "rsm.config.", "rlmm.config.", "ottla."))


def _with_node_id(static: Mapping[str, str]) -> Mapping[str, str]:
    """node.id and broker.id stand for each other where only one is given."""
    if "node.id" in static and "broker.id" not in static:
        return {**static, "broker.id": static["node.id"]}
    if "broker.id" in static and "node.id" not in static:
        return {**static, "node.id": static["broker.id"]}
    return static


def parse_values(texts: Mapping[str, str], table: Mapping[str, ConfigDef]) -> dict[str, Value]:
    """Every config of a table, typed: what was given, otherwise its default."""
    values, wrong = _parsed(texts, table)
    raise_any(wrong[:1])
    return values


def _parsed(texts: Mapping[str, str], table: Mapping[str, ConfigDef]) -> tuple[dict[str, Value], list[ConfigError]]:
    values: dict[str, Value] = {}
    wrong: list[ConfigError] = []
    for name, definition in table.items():
        if name in texts:
            try:
                values[name] = definition.parse(texts[name])
            except ConfigError as error:
                wrong.append(error)
        elif isinstance(definition.default, Required):
            missing = f"Missing configuration {name}: it must be set ({definition.allowed})"
            wrong.append(ConfigError("", None, missing))
        else:
            values[name] = definition.default
    return values, wrong


def _build(layers: Layers) -> BrokerConfig:
    texts = layers.merged()
    if "controller.listener.names" not in texts and "controller" in texts.get("process.roles", ""):
        # Kafka demands it. A quorum of this one process needs no listener; that it is one is checked in _listeners.
        texts["controller.listener.names"] = ""
    values, wrong = _parsed(texts, {**BROKER_CONFIGS, **DYNAMIC_CONFIGS})
    try:
        voter_ids(cast("tuple[str, ...]", values.get("controller.quorum.voters", ())))
    except ConfigError as error:
        wrong.append(error)
    if not wrong:
        wrong += _wrong_together(values)
    listeners: Listeners | None = None
    if not _ABOUT_LISTENERS & {error.name for error in wrong}:
        try:
            listeners = _listeners(values, texts)
        except ConfigError as error:
            wrong.append(error)
    raise_any(wrong)
    assert listeners is not None
    taken: dict[str, Any] = {}
    for attribute in fields(BrokerConfig):
        name = attribute.name.replace("_", ".")
        if name in values:
            taken[attribute.name] = values[name]
    dirs = cast("tuple[str, ...]", values["log.dirs"] if values["log.dirs"] is not None else values["log.dir"])
    taken["log_dirs"] = dirs
    taken["metadata_log_dir"] = values["metadata.log.dir"] or dirs[0]
    taken["listeners"] = listeners
    taken["layers"] = layers
    taken["values"] = MappingProxyType(values)
    return BrokerConfig(**taken)


_ABOUT_LISTENERS: Final = frozenset(
    {
        "process.roles", "listeners", "advertised.listeners", "listener.security.protocol.map",
        "controller.listener.names", "inter.broker.listener.name", "security.inter.broker.protocol",
        "controller.quorum.voters", "controller.quorum.bootstrap.servers", "",
    }
)  # fmt: skip
"""What `_listeners` looks at: where one of them is wrong by itself, or a config has no name, no more can be said."""
_LOOPBACK: Final = ("PLAINTEXT://127.0.0.1:9092",)


def _listeners(values: Mapping[str, Value], texts: Mapping[str, str]) -> Listeners:
    roles = cast("tuple[str, ...]", values["process.roles"])
    names = cast("tuple[str, ...]", values["controller.listener.names"])
    # Kafka's default is every interface; here nobody is reached from outside who did not say so.
    given = cast("tuple[str, ...]", values["listeners"]) if "listeners" in texts else _LOOPBACK
    listeners = parse_listeners(
        given,
        cast("tuple[str, ...] | None", values["advertised.listeners"]),
        cast(str, values["listener.security.protocol.map"]),
        map_is_default="listener.security.protocol.map" not in texts,
        controller_names=names,
        inter_broker_name=cast("str | None", values["inter.broker.listener.name"]),
        inter_broker_protocol=cast(str, values["security.inter.broker.protocol"]),
        broker_role="broker" in roles,
    )
    bound = {end.name for end in listeners.bound}
    if "controller" not in roles and (taken := [name for name in listeners.controller_names if name in bound]):
        raise ConfigError(
            "listeners", ",".join(given), f"{', '.join(taken)} is for controllers, and this node is only a broker"
        )
    if "controller" in roles:
        missing = [name for name in listeners.controller_names if name not in bound]
        if missing:
            raise ConfigError(
                "controller.listener.names", ",".join(names), f"{', '.join(missing)} must stand in listeners too"
            )
        alone = not values["controller.quorum.voters"] and not values["controller.quorum.bootstrap.servers"]
        if not listeners.controller_names and not alone:
            raise ConfigError("controller.listener.names", "", "a controller with others needs a listener of its own")
    return listeners


def _wrong_together(values: Mapping[str, Value]) -> list[ConfigError]:
    """What no single row can tell."""
    wrong: list[ConfigError] = []

    def number(name: str) -> int:
        value = values[name]
        assert isinstance(value, int), name
        return value

    def need(holds: bool, name: str, reason: str) -> None:
        if not holds:
            wrong.append(ConfigError(name, BROKER_CONFIGS[name].format(values[name]), reason))

    node_id, roles = number("node.id"), cast("tuple[str, ...]", values["process.roles"])
    need(number("broker.id") == node_id, "broker.id", f"must be the same as node.id ({node_id})")
    voters = voter_ids(cast("tuple[str, ...]", values["controller.quorum.voters"]))
    if "controller" in roles:
        need(not voters or node_id in voters, "controller.quorum.voters", f"node.id {node_id} must be among the voters")
    else:
        need(node_id not in voters, "controller.quorum.voters", f"node.id {node_id} is no controller, but a voter")
        asked = bool(voters or values["controller.quorum.bootstrap.servers"])
        need(asked, "controller.quorum.voters", "a broker must be told where the controllers are")
    for name, low in (("log.roll.ms", 1), ("log.roll.jitter.ms", 0)):
        need(values[name] is None or number(name) >= low, name, f"must be at least {low}")
    for name in ("log.retention.ms", "log.retention.minutes", "log.retention.hours"):
        need(values[name] is None or number(name) != 0, name, "must be at least 1, or -1 for no limit")
    need(
        number("replica.fetch.wait.max.ms")
        <= min(number("replica.socket.timeout.ms"), number("replica.lag.time.max.ms")),
        "replica.fetch.wait.max.ms",
        "must not be longer than replica.socket.timeout.ms or replica.lag.time.max.ms",
    )
    limit = number("queued.max.request.bytes")
    need(
        limit <= 0 or limit >= number("socket.request.max.bytes"),
        "queued.max.request.bytes",
        "must be at least socket.request.max.bytes, or -1",
    )
    need(
        number("max.connections.per.ip") != 0 or bool(values["max.connections.per.ip.overrides"]),
        "max.connections.per.ip",
        "can be 0 only if max.connections.per.ip.overrides is set",
    )
    for name in ("create.topic.policy.class.name", "alter.config.policy.class.name", "client.quota.callback.class"):
        need(not values[name], name, "there is no JVM here to load a class: take the line out")
    need(
        not values["authorizer.class.name"],
        "authorizer.class.name",
        "there are no ACLs yet, everyone may do everything: take the line out, and keep this node away from networks "
        "that you do not trust",
    )
    _check_overrides(cast(str, values["max.connections.per.ip.overrides"]))
    cleaners = number("log.cleaner.threads")
    need(cleaners >= 1 or not values["log.cleaner.enable"], "log.cleaner.threads", "must be at least 1")
    need(
        not values["log.cleaner.enable"] or number("log.cleaner.dedupe.buffer.size") // max(cleaners, 1) > 1 << 20,
        "log.cleaner.dedupe.buffer.size",
        "must be more than 1 MiB for each cleaner thread",
    )
    cordoned = cast("tuple[str, ...]", values["cordoned.log.dirs"])
    dirs = cast("tuple[str, ...]", values["log.dirs"] if values["log.dirs"] is not None else values["log.dir"])
    need("*" not in cordoned or len(cordoned) == 1, "cordoned.log.dirs", "* stands for all, and must stand alone")
    strangers = [folder for folder in cordoned if folder not in dirs and folder != "*"]
    need(not strangers, "cordoned.log.dirs", f"{', '.join(strangers)} must be in log.dirs too")
    lags = number("log.cleaner.min.compaction.lag.ms"), number("log.cleaner.max.compaction.lag.ms")
    need(lags[0] <= lags[1], "log.cleaner.min.compaction.lag.ms", "must not be above log.cleaner.max.compaction.lag.ms")
    protocols = cast("tuple[str, ...]", values["group.coordinator.rebalance.protocols"])
    need("classic" in protocols, "group.coordinator.rebalance.protocols", "classic cannot be left out")
    return wrong


def _check_overrides(text: str) -> None:
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, colon, count = entry.rpartition(":")
        if not (colon and host.strip() and count.strip().isdecimal()):
            raise ConfigError("max.connections.per.ip.overrides", text, f"{entry!r} is not host:count")


def voter_ids(voters: tuple[str, ...]) -> tuple[int, ...]:
    """The ids out of controller.quorum.voters: id@host:port."""
    found = []
    for voter in voters:
        number, at, address = voter.partition("@")
        host, colon, port = address.rpartition(":")
        if not (at and colon and host and number.isdecimal() and port.isdecimal()):
            raise ConfigError("controller.quorum.voters", ",".join(voters), f"{voter!r} is not id@host:port")
        found.append(int(number))
    return tuple(found)
