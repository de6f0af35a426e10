"""What a config is: its name, type, default, what is allowed, what it does here.

The tables (ottla.model.config.tables) are rows of `ConfigDef`; everything else (parsing, answers to DescribeConfigs,
the reference page) is made from them, so a new config is a new row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Final, NamedTuple

from ottla.model.config.validators import ANY, Validator, Value
from ottla.model.config_error import ConfigError

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigError",
    "ConfigSource",
    "ConfigType",
    "Importance",
    "Synonym",
    "Update",
    "Value",
    "format_value",
    "table",
]


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs' answer."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class ConfigSource(IntEnum):
    """Where a value comes from; the numbers are those of DescribeConfigs' answer, lower ones win."""

    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    CLIENT_METRICS_CONFIG = 7
    GROUP_CONFIG = 8


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class Update(Enum):
    """Whether a running node takes a new value, and for whom it can be set."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Required(Enum):
    REQUIRED = "required"


REQUIRED: Final = Required.REQUIRED


class Synonym(NamedTuple):
    """A broker config that a topic config falls back to; `factor` turns hours or minutes into milliseconds."""

    name: str
    factor: int = 1


_SPACE: Final = "".join(map(chr, range(33)))  # what Java's trim() takes off


@dataclass(frozen=True, slots=True)
class ConfigDef:
    name: str
    type: ConfigType
    default: Value | Required
    doc: str
    validator: Validator = ANY
    update: Update = Update.READ_ONLY
    importance: Importance = Importance.MEDIUM
    synonyms: tuple[Synonym, ...] = ()  # in the order in which they are looked up
    internal: bool = False  # accepted, but not shown by DescribeConfigs unless set
    no_effect: bool = False  # about the JVM or its threads: taken, shown, and nothing else

    def parse(self, text: str) -> Value:
        """The typed value, or ConfigError."""
        value = _parse(self, text.strip(_SPACE))
        self.check(value, text)
        return value

    def check(self, value: Value, text: str) -> None:
        reason = self.validator.check(value)
        if reason is not None:
            raise ConfigError(self.name, None if self.is_sensitive else text, reason)

    def format(self, value: Value) -> str | None:
        return format_value(value)

    @property
    def is_sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    @property
    def default_value(self) -> Value:
        return None if isinstance(self.default, Required) else self.default

    @property
    def default_text(self) -> str | None:
        return format_value(self.default_value)

    @property
    def allowed(self) -> str:
        """What may be written, for people: the type, and the limits if there are any."""
        kind = _TYPE_NAMES[self.type]
        return f"{kind}, {self.validator.description}" if self.validator.description else kind


def table(rows: Iterable[ConfigDef]) -> Mapping[str, ConfigDef]:
    found: dict[str, ConfigDef] = {}
    for row in rows:
        assert row.name not in found, f"{row.name} is defined twice"
        found[row.name] = row
    return found


_TYPE_NAMES: Final = {
    ConfigType.UNKNOWN: "anything",
    ConfigType.BOOLEAN: "true or false",
    ConfigType.STRING: "text",
    ConfigType.INT: "a 32-bit whole number",
    ConfigType.SHORT: "a 16-bit whole number",
    ConfigType.LONG: "a 64-bit whole number",
    ConfigType.DOUBLE: "a number",
    ConfigType.LIST: "a list separated by commas",
    ConfigType.CLASS: "a class name",
    ConfigType.PASSWORD: "a secret",
}

_BITS: Final = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?[0-9]+\Z")
_MOST_DIGITS: Final = 20
_COMMA: Final = re.compile(r"\s*,\s*")


def whole_number(text: str) -> int | None:
    """What Java would read; None of something else, or too long to be a number of any use."""
    if _WHOLE_NUMBER.match(text) is None:
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MOST_DIGITS:
        return None
    return int(f"-{digits or 0}" if text[0] == "-" else digits or "0")


def _parse(definition: ConfigDef, text: str) -> Value:
    match definition.type:
        case ConfigType.BOOLEAN:
            lowered = text.lower()
            if lowered not in ("true", "false"):
                raise ConfigError(definition.name, text, "must be either true or false")
            return lowered == "true"
        case ConfigType.SHORT | ConfigType.INT | ConfigType.LONG:
            half = 1 << (_BITS[definition.type] - 1)
            if (number := whole_number(text)) is None or not -half <= number < half:
                reason = f"not a number of type {definition.type.name}"
                raise ConfigError(definition.name, text, f"{reason} ({definition.allowed})")
            return number
        case ConfigType.DOUBLE:
            if (real := _java_number(text)) is None:
                raise ConfigError(definition.name, text, f"not a number of type DOUBLE ({definition.allowed})")
            return real
        case ConfigType.LIST:
            return tuple(dict.fromkeys(_COMMA.split(text))) if text else ()  # repeated entries count once (KIP-1161)
        case _:
            return text


def format_value(value: Value) -> str | None:
    """As Kafka prints it."""
    match value:
        case None:
            return None
        case bool():
            return "true" if value else "false"
        case float():
            return _java_double(value)
        case tuple():
            return ",".join(value)
        case _:
            return str(value)


_DECIMAL: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
_HEXADECIMAL: Final = re.compile(r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+\Z")
_WORD: Final = re.compile(r"[+-]?(?:NaN|Infinity)\Z")


def _java_number(text: str) -> float | None:
    """What Java's Double.parseDouble takes: also 0.5d and 0x1p-1, but neither inf nor 1_0."""
    if _WORD.match(text):
        return float(text)
    plain = text[:-1] if text[-1:] in "dDfF" else text
    if _HEXADECIMAL.match(plain):
        return float.fromhex(plain)
    return float(plain) if _DECIMAL.match(plain) else None


def _java_double(value: float) -> str:
    """As Java prints it: 1.5E10 where Python writes 15000000000.0."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    if not math.isfinite(value):
        return str(value).replace("inf", "Infinity").replace("nan", "NaN")
    from decimal import Decimal  # for the few that are so large or small

    mantissa, _, exponent = f"{Decimal(repr(value)):E}".partition("E")
    whole, _, fraction = mantissa.partition(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}E{int(exponent)}"
