"""Makes an answer of any version from one description.

kio has a class for each version of each message, and a field that a version lacks cannot be given to it. An API file
describes its answer once, with the fields of the newest version; here each version takes those that it knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, NamedTuple, get_args, get_origin

from ottla.env.slices import MANY_ROWS, Rows, breathe

LONGEST_MESSAGE: Final = 2000  # characters


class _Field(NamedTuple):
    name: str
    nested: type[Any] | None
    is_array: bool
    required: bool


@cache
def response_type(key: int, version: int) -> type[Any]:
    from kio.index import load_response_schema

    return load_response_schema(key, version)


@cache
def request_type(key: int, version: int) -> type[Any]:
    from kio.index import load_request_schema

    return load_request_schema(key, version)


def build(entity_type: Any, values: Mapping[str, Any]) -> Any:
    """An entity from nested mappings and lists; names that this version does not have are left out."""
    given: dict[str, Any] = {}
    for name, nested, is_array, required in _fields(entity_type):
        if name not in values:
            if required:
                raise TypeError(f"{entity_type.__module__}.{entity_type.__name__} needs {name}")
            continue
        value = values[name]
        if value is not None and nested is not None:
            value = _built(nested, value) if is_array else build(nested, value)
        elif is_array and isinstance(value, Iterable):
            value = tuple(value)
        elif name == "error_message" and value is not None:
            value = fitting(value)
        given[name] = value
    return entity_type(**given)


def fitting(message: str) -> str:
    """It may quote what a client sent, and must fit into the answer."""
    return message if len(message) <= LONGEST_MESSAGE else message[:LONGEST_MESSAGE] + "..."


def _built(nested: type[Any], items: Iterable[Mapping[str, Any]]) -> tuple[Any, ...]:
    built = tuple(_one(nested, item) for item in items)
    return Rows(built) if len(built) >= MANY_ROWS else built


def _one(nested: type[Any], item: Mapping[str, Any]) -> Any:
    breathe()
    return build(nested, item)


def with_rows(entity: Any) -> Any:
    """The entity itself, whose long arrays let others have their turn while they are gone through."""
    for name, nested, is_array, _ in _fields(type(entity)):  # type: ignore[arg-type]  # a class is hashable
        if not is_array or not (items := getattr(entity, name)):
            continue
        if len(items) >= MANY_ROWS:
            items = Rows(items)
            object.__setattr__(entity, name, items)  # the same values, so that frozen it remains
        if nested is not None and _has_arrays(nested):  # type: ignore[arg-type]
            for item in items:
                with_rows(item)
    return entity


@cache
def _has_arrays(entity_type: Any) -> bool:
    return any(field.is_array for field in _fields(entity_type))


@cache
def _fields(entity_type: Any) -> tuple[_Field, ...]:
    return tuple(
        _Field(
            field.name,
            *_nested(field.type),
            required=field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(entity_type)
    )


def _nested(type_: Any) -> tuple[type[Any] | None, bool]:
    if get_origin(type_) is UnionType:
        (type_,) = (argument for argument in get_args(type_) if argument is not NoneType)
    is_array = get_origin(type_) is tuple
    item = get_args(type_)[0] if is_array else type_
    return (item if is_dataclass(item) and isinstance(item, type) else None), is_array
