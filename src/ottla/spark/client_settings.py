"""What `kafka.*` options say: the names and defaults of Kafka's own clients.

A job that comes from the official connector may bring any setting of the Java clients. Those that mean something here
are obeyed, those that only tune the Java client are known and left alone, and those that would change what a job does
are refused with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.record.batch import Codec

PREFIX: Final = "kafka."
DEFAULT_PORT: Final = 9092

_NUMBERS: Final = {
    "request.timeout.ms": 30_000,
    "default.api.timeout.ms": 60_000,
    "retry.backoff.ms": 100,
    "retry.backoff.max.ms": 1000,
    "socket.connection.setup.timeout.ms": 10_000,
    "fetch.min.bytes": 1,
    "fetch.max.wait.ms": 500,
    "max.partition.fetch.bytes": 4 << 20,  # Kafka: 1 MiB. An Arrow batch is made of each answer, and few are better
}
_BOOLEANS: Final = {"check.crcs": True}
_PRODUCER_NUMBERS: Final = {"transaction.timeout.ms": 60_000}
_TEXTS: Final = {"client.id": "ottla-spark", "client.rack": "", "isolation.level": "read_uncommitted"}
_OF_BOTH: Final = frozenset(
    {
        "client.dns.lookup", "connections.max.idle.ms", "enable.metrics.push", "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms", "metadata.recovery.strategy", "metric.reporters",
        "metrics.num.samples", "metrics.recording.level", "metrics.sample.window.ms", "receive.buffer.bytes",
        "reconnect.backoff.max.ms", "reconnect.backoff.ms", "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
    }
)  # fmt: skip
_OF_CONSUMERS: Final = frozenset(
    {
        "allow.auto.create.topics", "auto.commit.interval.ms", "exclude.internal.topics", "fetch.max.bytes",
        "group.instance.id", "group.protocol", "group.remote.assignor", "heartbeat.interval.ms",
        "max.poll.interval.ms", "max.poll.records", "partition.assignment.strategy", "session.timeout.ms",
    }
)  # fmt: skip
_OF_PRODUCERS: Final = frozenset(
    {
        "acks", "batch.size", "buffer.memory", "compression.gzip.level", "compression.lz4.level",
        "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "linger.ms", "max.block.ms",
        "max.in.flight.requests.per.connection", "max.request.size", "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable", "partitioner.availability.timeout.ms", "retries",
    }
)  # fmt: skip
"""Known, and without effect: they tune the Java clients. Records are always written with acks=all."""
_REFUSED: Final = {
    "auto.offset.reset": "where to begin is said by the option startingOffsets",
    "key.deserializer": "keys are binary; the option decodeKey decodes them",
    "value.deserializer": "values are binary; the option decode decodes them",
    "key.serializer": "keys are binary or strings; the option encodeKey encodes others",
    "value.serializer": "values are binary or strings; the option encode encodes others",
    "enable.auto.commit": "Spark's checkpoint has the offsets; kafka.group.id shows them in a consumer group",
    "interceptor.classes": "there is no Java client that could call them",
    "partitioner.class": "there is no Java client that could call it; a column named partition says where rows go",
    "partitioner.ignore.keys": "a column named partition says where rows go",
}
_SECURE: Final = ("sasl.", "ssl.", "security.")
_ISOLATION: Final = ("read_committed", "read_uncommitted")


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Role(Enum):
    CONSUMER = "consumers"
    PRODUCER = "producers"


class ClientSettings(NamedTuple):
    bootstrap: tuple[Address, ...]
    client_id: str
    group_id: str | None
    rack: str
    read_committed: bool
    check_crcs: bool
    request_timeout_s: float
    api_timeout_s: float
    connect_timeout_s: float
    backoff_ms: int
    backoff_max_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_bytes: int
    codec: Codec
    transactional_id: str | None
    transaction_timeout_ms: int


def client_settings(options: Mapping[str, str], role: Role = Role.CONSUMER) -> ClientSettings:
    """Of all options those that begin with `kafka.`; OttlaError for one that cannot be obeyed."""
    given = {name[len(PREFIX) :]: value.strip() for name, value in options.items() if name.lower().startswith(PREFIX)}
    for name, value in given.items():
        _check_name(name, value, role)
    numbers = {
        name: _number(name, given.get(name), default) for name, default in (_NUMBERS | _PRODUCER_NUMBERS).items()
    }
    texts = {name: given.get(name, default) for name, default in _TEXTS.items()}
    if texts["isolation.level"] not in _ISOLATION:
        raise OttlaError(f"kafka.isolation.level is {' or '.join(_ISOLATION)}, not {texts['isolation.level']!r}")
    return ClientSettings(
        bootstrap=_addresses(given.get("bootstrap.servers")),
        client_id=texts["client.id"],
        group_id=given.get("group.id"),
        rack=texts["client.rack"],
        read_committed=texts["isolation.level"] == "read_committed",
        check_crcs=boolean("kafka.check.crcs", given.get("check.crcs"), _BOOLEANS["check.crcs"]),
        request_timeout_s=numbers["request.timeout.ms"] / 1000,
        api_timeout_s=numbers["default.api.timeout.ms"] / 1000,
        connect_timeout_s=numbers["socket.connection.setup.timeout.ms"] / 1000,
        backoff_ms=numbers["retry.backoff.ms"],
        backoff_max_ms=numbers["retry.backoff.max.ms"],
        fetch_min_bytes=numbers["fetch.min.bytes"],
        fetch_max_wait_ms=numbers["fetch.max.wait.ms"],
        fetch_bytes=max(numbers["max.partition.fetch.bytes"], 1),
        codec=_codec(given.get("compression.type", "none")),
        transactional_id=given.get("transactional.id") or None,
        transaction_timeout_ms=numbers["transaction.timeout.ms"],
    )


def boolean(name: str, text: str | None, default: bool) -> bool:
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise OttlaError(f"{name} is true or false, not {text!r}")
    return text.strip().lower() == "true"


def _check_name(name: str, value: str, role: Role) -> None:
    if name == "security.protocol" and value.upper() == "PLAINTEXT":
        return
    if name.startswith(_SECURE):
        raise OttlaError(
            f"kafka.{name}: secured clusters cannot be used by format ottla yet, only listeners with PLAINTEXT. "
            'The official connector, format("kafka"), can'
        )
    if name in _REFUSED:
        raise OttlaError(f"kafka.{name} cannot be set: {_REFUSED[name]}")
    known = {*_NUMBERS, *_BOOLEANS, *_TEXTS, *_OF_BOTH, *_OF_CONSUMERS, "bootstrap.servers", "group.id"}
    if role is Role.PRODUCER:  # one set of options may serve the read and the write of a job
        known |= {*_PRODUCER_NUMBERS, *_OF_PRODUCERS, "compression.type", "transactional.id"}
    if name not in known:
        raise OttlaError(f"kafka.{name} is no setting of Kafka's {role.value}{did_you_mean(name, known)}")


def _codec(text: str) -> Codec:
    if text.upper() not in Codec.__members__:
        raise OttlaError(f"kafka.compression.type is none, gzip, snappy, lz4 or zstd, not {text!r}")
    return Codec[text.upper()]


def _number(name: str, text: str | None, default: int) -> int:
    if text is None:
        return default
    if not text.isdecimal():
        raise OttlaError(f"kafka.{name} is a number of 0 or more, not {text!r}")
    return int(text)


def _addresses(text: str | None) -> tuple[Address, ...]:
    parts = [part.strip() for part in (text or "").split(",") if part.strip()]
    if not parts:
        raise OttlaError("option kafka.bootstrap.servers is missing: the brokers to ask first, as host:port,host:port")
    return tuple(map(_address, parts))


def _address(text: str) -> Address:
    host, colon, port = text.rpartition(":")
    if not colon or text.endswith("]"):
        return Address(text.strip("[]"), DEFAULT_PORT)
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise OttlaError(f"kafka.bootstrap.servers: {text!r} is not host:port")
    return Address(host.strip("[]"), int(port))
