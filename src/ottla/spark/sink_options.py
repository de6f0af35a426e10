"""The options of a write: those of the official Kafka sink, and how sure it is to be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.spark.client_settings import PREFIX, ClientSettings, Role, client_settings
from ottla.spark.formats.columns import ENCODE_OPTIONS, Column, encoded_columns

# the last two say nothing here
_NAMES: Final = ("topic", "delivery", *ENCODE_OPTIONS, "includeHeaders", "checkpointLocation")
_LOWER: Final = {name.lower(): name for name in _NAMES}
_COLUMNS: Final = {
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
}

_ENCODE: Final = {"value": "encode", "key": "encodeKey"}


class Delivery(Enum):
    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    client: ClientSettings
    topic: str | None
    delivery: Delivery
    encoded: tuple[Column, ...] = ()


def sink_options(options: Mapping[str, str], schema: Any, default: Delivery) -> SinkOptions:
    """OttlaError for options or columns that cannot be written."""
    for name in options:
        if name.lower() not in _LOWER and not name.lower().startswith(PREFIX):
            raise OttlaError(f"format ottla has no option {name} for writing{did_you_mean(name.lower(), _LOWER)}")
    given = {_LOWER[name.lower()]: value for name, value in options.items() if name.lower() in _LOWER}
    delivery = given.get("delivery", default.value).strip().lower()
    if delivery not in (ways := [way.value for way in Delivery]):
        raise OttlaError(f"delivery is {' or '.join(ways)}, not {delivery!r}{did_you_mean(delivery, ways)}")
    topic = given.get("topic", "").strip() or None
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    encoded = encoded_columns(given, found)
    _check_columns(found, topic, {column.name for column in encoded})
    return SinkOptions(client_settings(options, Role.PRODUCER), topic, Delivery(delivery), encoded)


def _check_columns(found: Mapping[str, str], topic: str | None, encoded: set[str]) -> None:
    if "value" not in found:
        near = did_you_mean("value", found)
        raise OttlaError(f"there is no column value to be written, only {', '.join(found) or 'none'}{near}")
    if topic is None and "topic" not in found:
        raise OttlaError("where to write must be said by the option topic, or by a column topic")
    for name, kinds in _COLUMNS.items():
        if name == "topic" and topic is not None:
            continue  # the option comes before the column
        if name in found and name not in encoded and found[name] not in kinds:
            hint = f"; the option {_ENCODE[name]}=json makes text of it" if name in _ENCODE else ""
            raise OttlaError(f"column {name} must be {' or '.join(kinds)}, not {found[name]}{hint}")


def transactional_id(options: SinkOptions, query_id: str) -> str:
    return options.client.transactional_id or f"ottla-spark-{query_id}"
