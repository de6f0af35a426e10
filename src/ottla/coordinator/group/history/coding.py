"""The history as records: keys and values are JSON, so that anyone can read them with any client.

Key: `["group", slot]`, where a group's entries take turns in a fixed number of slots, so that compaction keeps the last
ones; or `["group", "members"]` for the roll. Value: an object with a version `v` and a `kind`. What is empty, or as it
is by default, is left out. Readers skip versions and kinds that they do not know, and ignore unknown fields.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from ottla.coordinator.group.history.entries import KEPT_ENTRIES, Entry, Incident, Rebalance, Roll

VERSION: Final = 1
MEMBERS: Final = "members"
_KINDS: Final[dict[str, type[Any]]] = {"rebalance": Rebalance, "incident": Incident, MEMBERS: Roll}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


class Unreadable(Exception):
    """Not a record of the history, or one of a version that is not known here."""


def entry_key(group_id: str, number: int) -> bytes:
    return _json([group_id, number % KEPT_ENTRIES])


def roll_key(group_id: str) -> bytes:
    return _json([group_id, MEMBERS])


def all_keys(group_id: str, next_number: int) -> list[bytes]:
    """Of all records that a group may have."""
    return [
        *(entry_key(group_id, number) for number in range(min(next_number, KEPT_ENTRIES))),
        roll_key(group_id),
    ]


def read_key(key: bytes) -> tuple[str, int | str]:
    """The group, and its slot or MEMBERS."""
    try:
        group_id, slot = json.loads(key)
    except (ValueError, TypeError):
        raise Unreadable(f"{key!r} is not a key of the history") from None
    if not isinstance(group_id, str) or not isinstance(slot, int | str):
        raise Unreadable(f"{key!r} is not a key of the history")
    return group_id, slot


def encode(value: Entry | Roll) -> bytes:
    return _json({"v": VERSION, "kind": _NAMES[type(value)], **_plain(value)})


def decode(value: bytes) -> Entry | Roll:
    try:
        told = json.loads(value)
        kind = _KINDS[told["kind"]] if told["v"] == VERSION else None
        if kind is not None:
            read: Entry | Roll = _read(kind, told)
            return read
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Unreadable(f"not a record of the history: {error!r}") from None
    raise Unreadable(f"version {told['v']} of the history is not known here")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """Dataclasses as objects, without what says nothing."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value):
        kind: Any = type(value)
        told = ((name, default, getattr(value, name)) for name, default in _defaults(kind))
        return {name: _plain(each) for name, default, each in told if each != default}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


@cache
def _defaults(kind: Any) -> list[tuple[str, Any]]:
    """Names of fields, and what they are when nobody says."""
    return [
        (each.name, each.default_factory() if each.default_factory is not MISSING else each.default)
        for each in fields(kind)
    ]


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def _read(kind: Any, told: dict[str, Any]) -> Any:
    hints = _hints(kind)
    return kind(**{name: _typed(hints[name], value) for name, value in told.items() if name in hints})


def _typed(kind: Any, value: Any) -> Any:
    if isinstance(kind, UnionType):
        if value is None:
            return None
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
    if get_origin(kind) is list:
        (inner,) = get_args(kind)
        return [_typed(inner, each) for each in value]
    if is_dataclass(kind):
        return _read(kind, value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if kind in (int, str, bool) and type(value) is not kind:
        raise ValueError(f"{value!r} is not a {kind.__name__}")
    return value
