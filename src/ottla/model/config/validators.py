"""What a config's value may be: a check, and the words that tell a person what is allowed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple

Value = bool | int | float | str | tuple[str, ...] | None


class Validator(NamedTuple):
    """`check` gives None for a value that is fine, otherwise the reason why it is not."""

    description: str
    check: Callable[[Value], str | None]


ANY: Final = Validator("", lambda value: None)


def between(low: float | None, high: float | None) -> Validator:
    def check(value: Value) -> str | None:
        if not isinstance(value, int | float):
            return "a value is needed"
        if low is not None and value < low:
            return f"must be at least {low}"
        if high is not None and value > high:
            return f"must be at most {high}"
        return None

    if low is None:
        return Validator(f"at most {high}", check)
    return Validator(f"at least {low}" if high is None else f"between {low} and {high}", check)


def at_least(low: float) -> Validator:
    return between(low, None)


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    names = ", ".join(allowed)
    accepted = {name.lower() for name in allowed} if ignore_case else set(allowed)

    def check(value: Value) -> str | None:
        text = value.lower() if ignore_case and isinstance(value, str) else value
        return None if text in accepted else f"must be one of {names}"

    return Validator(f"one of {names}", check)


def list_of(*allowed: str, empty: bool = True) -> Validator:
    """A list without empty entries (KIP-1161), out of `allowed` if any are given. Repeated ones count once."""
    names = ", ".join(allowed)

    def check(value: Value) -> str | None:
        if not isinstance(value, tuple):
            return None if value is None else "must be a list"
        if not value and not empty:
            return "must not be empty"
        if "" in value:
            return "must not have empty entries"
        if allowed and not set(value) <= set(allowed):
            return f"each entry must be one of {names}"
        return None

    described = f"each one of {names}" if allowed else ""
    return Validator(described if empty else f"{described}, not empty".removeprefix(", "), check)


ENTRIES: Final = list_of()


def either(validator: Validator, *also: int) -> Validator:
    """What another validator allows, and some values with a meaning of their own, such as -1."""
    others = ", ".join(str(value) for value in also)

    def check(value: Value) -> str | None:
        if value in also:
            return None
        reason = validator.check(value)
        return None if reason is None else f"{reason}, or be {others}"

    return Validator(f"{validator.description} or {others}", check)


def _non_empty(value: Value) -> str | None:
    return "must not be empty" if value == "" else None


NON_EMPTY: Final = Validator("not empty", _non_empty)

_REPLICA: Final = re.compile(r"[0-9]+:[0-9]+\Z")


def _throttled_replicas(value: Value) -> str | None:
    if not isinstance(value, tuple) or not value or value == ("*",):
        return None
    if all(_REPLICA.match(item.strip()) for item in value):
        return None
    return "must be * or a list of partition:broker pairs such as 0:1,1:2"


THROTTLED_REPLICAS: Final = Validator("* or a list of partition:broker pairs", _throttled_replicas)

_DURATION: Final = re.compile(
    r"P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{1,9})?S)?)?\Z", re.IGNORECASE
)


def _offset_reset(value: Value) -> str | None:
    if value in ("earliest", "latest"):
        return None
    how, _, duration = str(value).partition(":")
    if how == "by_duration" and _DURATION.match(duration):
        return None
    return "must be earliest, latest, or by_duration: with a duration such as PT1H"


OFFSET_RESET: Final = Validator("earliest, latest or by_duration:PnDTnHnMn.nS", _offset_reset)


_HOST_PORT: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\[\]:/\s]*)):([0-9]{1,5})\Z")


def split_host_port(text: str) -> tuple[str, int] | None:
    """host:port, [IPv6]:port or :port; None for anything else."""
    match = _HOST_PORT.match(text)
    if match is None or int(match[3]) > 65535:
        return None
    return match[1] or match[2] or "", int(match[3])


def _host_port(value: Value) -> str | None:
    fine = not value or (isinstance(value, str) and split_host_port(value) is not None)
    return None if fine else "must be host:port, such as 127.0.0.1:9404, or empty"


HOST_PORT: Final = Validator("host:port, or empty", _host_port)


_HOST_COUNT: Final = re.compile(r"[^\s,]+:\s*[0-9]{1,9}\Z")


def _host_counts(value: Value) -> str | None:
    entries = [entry.strip() for entry in str(value).split(",") if entry.strip()]
    wrong = [entry for entry in entries if _HOST_COUNT.match(entry) is None]
    return f"{wrong[0]!r} is not host:count, such as 10.0.0.1:100" if wrong else None


HOST_COUNTS: Final = Validator("host:count, separated by commas", _host_counts)
