"""The options of a read, with the names and the meaning that the official Kafka source gives them."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition
from ottla.model.near_miss import did_you_mean
from ottla.spark.client_settings import PREFIX, ClientSettings, boolean, client_settings
from ottla.spark.formats.columns import DECODE_OPTIONS, Column, decoded_columns
from ottla.spark.positions import Kind, Positions, by_partition, parsed_positions
from ottla.spark.tier_store import TierPlace

_log = logging.getLogger("ottla.spark")
_CHOICES: Final = ("subscribe", "subscribePattern", "assign")
_NAMES: Final = (
    *_CHOICES, "startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp",
    "failOnDataLoss", "includeHeaders", "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay",
    "minPartitions", "maxRecordsPerPartition", "isolation", "kafkaConsumer.pollTimeoutMs",
    *DECODE_OPTIONS,
    "groupIdPrefix", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs",
)  # fmt: skip
"""The last three are known, and nothing depends on them: there is no group to be named, and questions are repeated
until kafka.default.api.timeout.ms is over."""
_TIER: Final = "tier."
_TIER_URL: Final = "tier.url"
_LOWER: Final = {name.lower(): name for name in _NAMES}
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_STREAM_ONLY: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_ISOLATION: Final = {"read_committed": True, "read_uncommitted": False}
_DURATION: Final = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


@dataclass(frozen=True, slots=True)
class SourceOptions:
    client: ClientSettings
    starting: Positions
    ending: Positions
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[TopicPartition, ...] = ()
    later_than_all_is_latest: bool = False
    """What a starting time means that is later than all records; else it is an error."""
    fail_on_data_loss: bool = True
    headers: bool = False
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = 15 * 60.0
    min_partitions: int | None = None
    max_records: int | None = None
    poll_timeout_s: float = 120.0
    decoded: tuple[Column, ...] = ()
    tier: TierPlace | None = None
    """Where the brokers have their remote tier, if tasks are to read it themselves."""


def check_names(options: Mapping[str, str]) -> None:
    for name in options:
        if name.lower() not in _LOWER and not name.lower().startswith((PREFIX, _TIER)):
            near = did_you_mean(name.lower(), [*_LOWER, "kafka.bootstrap.servers", _TIER_URL])
            for lower in sorted(_LOWER, key=len, reverse=True):
                near = near.replace(lower, _LOWER[lower])
            raise OttlaError(f"format ottla has no option {name}{near}")


def by_name(options: Mapping[str, str]) -> dict[str, str]:
    """Under the names as they are written here; without those of Kafka's clients."""
    check_names(options)
    return {_LOWER[name.lower()]: value for name, value in options.items() if name.lower() in _LOWER}


def has_headers(given: Mapping[str, str]) -> bool:
    return boolean("includeHeaders", given.get("includeHeaders"), False)


def source_options(options: Mapping[str, str], *, batch: bool, schema: Any = None) -> SourceOptions:
    """OttlaError for what is wrong, missing, or for the other kind of query. `schema` is Spark's."""
    given = by_name(options)
    for name in _STREAM_ONLY if batch else _ENDS:
        if name in given and not batch:
            raise OttlaError(f"{name} is for batch queries, and this is a streaming query")
        if name in given:
            _log.warning("%s is for streaming queries, and has no effect on a batch query", name)
    client = client_settings(options)
    if (isolation := given.get("isolation")) is not None:
        if isolation.strip().lower() not in _ISOLATION:
            raise OttlaError(f"isolation is read_committed or read_uncommitted, not {isolation!r}")
        client = client._replace(read_committed=_ISOLATION[isolation.strip().lower()])
    strategy = given.get("startingOffsetsByTimestampStrategy", "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise OttlaError(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    topics, pattern, assigned = _chosen(given)
    minimum, maximum = _count(given, "minOffsetsPerTrigger"), _count(given, "maxOffsetsPerTrigger")
    if minimum is not None and maximum is not None and minimum > maximum:
        raise OttlaError(f"minOffsetsPerTrigger ({minimum}) is more than maxOffsetsPerTrigger ({maximum})")
    poll_ms = _count(given, "kafkaConsumer.pollTimeoutMs")
    return SourceOptions(
        client=client,
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        starting=_positions(given, batch=batch, ending=False),
        ending=_positions(given, batch=batch, ending=True),
        later_than_all_is_latest=strategy == "latest",
        fail_on_data_loss=boolean("failOnDataLoss", given.get("failOnDataLoss"), True),
        headers=has_headers(given),
        max_offsets=maximum,
        min_offsets=minimum,
        max_delay_s=_duration(given.get("maxTriggerDelay", "15m")),
        min_partitions=_count(given, "minPartitions"),
        max_records=_count(given, "maxRecordsPerPartition"),
        poll_timeout_s=120.0 if poll_ms is None else poll_ms / 1000,
        decoded=() if schema is None else decoded_columns(given, schema),
        tier=_tier(options),
    )


def _tier(options: Mapping[str, str]) -> TierPlace | None:
    """As brokers have it in rsm.config.*, under another prefix."""
    given = {name.lower(): value for name, value in options.items() if name.lower().startswith(_TIER)}
    url = given.pop(_TIER_URL, None)
    if url is None:
        if given:
            raise OttlaError(f"{sorted(given)[0]} needs {_TIER_URL}, the address of the remote tier")
        return None
    return TierPlace(url, tuple((name[len(_TIER) :].replace(".", "_"), value) for name, value in sorted(given.items())))


def _chosen(given: Mapping[str, str]) -> tuple[tuple[str, ...], str | None, tuple[TopicPartition, ...]]:
    said = [name for name in _CHOICES if name in given]
    if len(said) != 1:
        ways = "subscribe (topics), subscribePattern (a pattern of topics) or assign (partitions)"
        raise OttlaError(f"what to read must be said by one of {ways}, not by {' and '.join(said) or 'none'}")
    text = given[said[0]].strip()
    if not text:
        raise OttlaError(f"option {said[0]} is empty")
    match said[0]:
        case "subscribe":
            return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip())), None, ()
        case "subscribePattern":
            try:
                re.compile(text)
            except re.error as error:
                raise OttlaError(f"subscribePattern {text!r} is no pattern: {error}") from None
            return (), text, ()
        case _:
            return (), None, _assigned(text)


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    import json

    try:
        read = json.loads(text)
        places = [TopicPartition(topic, int(number)) for topic, numbers in read.items() for number in numbers]
    except (ValueError, TypeError, AttributeError):
        raise OttlaError(f'assign must be JSON like {{"events": [0, 1]}}, not {text!r}') from None
    if not places:
        raise OttlaError("assign names no partition")
    return tuple(sorted(set(places)))


def _positions(given: Mapping[str, str], *, batch: bool, ending: bool) -> Positions:
    """One time for all comes before times by partition, and those before offsets, as in the official source."""
    word = "ending" if ending else "starting"
    if (text := given.get(f"{word}Timestamp")) is not None:
        if not text.strip().isdecimal():
            raise OttlaError(f"{word}Timestamp is a time in milliseconds since 1970, not {text!r}")
        return Positions(f"{word}Timestamp", Kind.TIME, int(text))
    if (text := given.get(option := f"{word}OffsetsByTimestamp")) is not None:
        each = by_partition(option, text)
        if negative := next((place for place, time in each.items() if time < 0), None):
            raise OttlaError(f"{option}: the time for {negative} is negative")
        return Positions(option, Kind.TIMES, each=tuple(each.items()))
    default = "latest" if ending or not batch else "earliest"
    option = f"{word}Offsets"
    return parsed_positions(option, given.get(option, default), batch=batch, ending=ending)


def _count(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal() or int(text) == 0:
        raise OttlaError(f"{name} is a number of 1 or more, not {text!r}")
    return int(text)


def _duration(text: str) -> float:
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise OttlaError(f"maxTriggerDelay is a time like 15m, 30s or 500ms, not {text!r}")
    return int(found[1]) * _SECONDS[found[2] or "ms"]
