"""Which error codes an answer carries, found by its type, once for each type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from ottla.model.errors import ErrorCode

_NONE: Final = ErrorCode.none
_FIELD: Final = "error_code"


class _Places(NamedTuple):
    has_own: bool
    inside: tuple[str, ...]  # fields with entities, or tuples of them, that have error codes somewhere


_places: Final[dict[type[Any], _Places]] = {}


def errors_in(entity: Any) -> list[ErrorCode]:
    """All codes but NONE, one for each place that has one."""
    return list(_errors(entity))


def _errors(entity: Any) -> Iterator[ErrorCode]:
    places = _places.get(type(entity)) or _look(type(entity))
    if places.has_own and (code := entity.error_code) is not _NONE:
        yield code
    for name in places.inside:
        value = getattr(entity, name)
        for item in value if isinstance(value, tuple) else () if value is None else (value,):
            yield from _errors(item)


def _look(entity_type: type[Any]) -> _Places:
    hints = get_type_hints(entity_type)
    inside = tuple(name for name, hint in hints.items() if any(_has_errors(child) for child in _entities(hint)))
    found = _places[entity_type] = _Places(_FIELD in hints, inside)
    return found


def _has_errors(entity_type: type[Any]) -> bool:
    places = _places.get(entity_type) or _look(entity_type)
    return places.has_own or bool(places.inside)


def _entities(hint: Any) -> Iterator[type[Any]]:
    if isinstance(hint, type) and is_dataclass(hint) and not get_args(hint):
        yield hint
    for inner in get_args(hint):
        yield from _entities(inner)
