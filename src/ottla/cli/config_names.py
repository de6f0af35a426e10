"""Names and values of configs as people type them: with typing errors, and with units."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.model.config import ConfigDef

_MS: Final = {"ms": 1, "s": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_BYTES: Final = {"b": 1} | {  # as in GNU's tools and in what is printed here: 1 MB is a million bytes, 1 MiB is 2**20
    f"{letter}{rest}": base**power
    for power, letter in enumerate("kmgt", start=1)
    for rest, base in (("", 1024), ("ib", 1024), ("b", 1000))
}
_WITH_UNIT: Final = re.compile(r"([0-9]+)\s*([A-Za-z]+)")


def plain_value(name: str, value: str) -> str:
    """`7d` for what is counted in milliseconds, `64MiB` for what is counted in bytes; anything else as it is."""
    units = _MS if name.endswith(".ms") else _BYTES if name.endswith(".bytes") else None
    match = _WITH_UNIT.fullmatch(value.strip())
    if units is None or match is None or match[2].lower() not in units:
        return value
    return str(int(match[1]) * units[match[2].lower()])


_SHOWN: Final = {
    "ms": ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")),
}
_UNLIMITED: Final = ((1 << 31) - 1, (1 << 63) - 1)


def in_words(name: str, value: str | None) -> str:
    """`7 d` for 604800000 milliseconds; empty where there is nothing to say."""
    if value is None or not value.isdecimal():
        return ""
    number = int(value)
    if number in _UNLIMITED:
        return "no limit"
    for unit, word in _SHOWN.get(name.rpartition(".")[2], ()):
        if number >= unit and number % unit == 0:
            return f"{number // unit} {word}"
    return ""


def tables() -> dict[str, Mapping[str, ConfigDef]]:
    """The configs that are known, by the kind of what has them."""
    from ottla.model.config import BROKER_CONFIGS, TOPIC_CONFIGS
    from ottla.model.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
    from ottla.model.config.tables.group import GROUP_CONFIGS

    return {
        "topic": TOPIC_CONFIGS,
        "broker": BROKER_CONFIGS,
        "group": GROUP_CONFIGS,
        "client-metrics": CLIENT_METRICS_CONFIGS,
    }


def all_names() -> set[str]:
    return {name for table in tables().values() for name in table}


def hint(name: str, known: Iterable[str]) -> str:
    """`; did you mean ...?` for a name that is not known."""
    from ottla.model.near_miss import did_you_mean

    return "" if name in known else did_you_mean(name, known, cutoff=0.75)


@contextmanager
def with_hint(names: Iterable[str]) -> Iterator[None]:
    """A refusal that may be due to a mistyped name tells the right one."""
    from ottla.model.errors import OttlaError

    try:
        yield
    except OttlaError as error:
        known = all_names() if (given := list(names)) else set()
        hints = [found for name in given if name in str(error) and (found := hint(name, known))]
        raise OttlaError(f"{error}{hints[0]}" if hints else str(error)) from None
