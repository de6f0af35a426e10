"""Requests with as many rows as a message may have, made from ordinary ones: each array of each API in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID

from tests.broker.apis.test_every_version import question
from tests.interop.raw import frame

from ottla.broker.context import Api

_NUMBERED = ("partition", "partition_index", "index")
_NOT_PARTITIONS = ("topics", "resources", "groups", "members")


def arrays_in(api: Api, topic: str, topic_id: UUID) -> Iterator[tuple[str, ...]]:
    """Where the newest version of its request has arrays with something in them."""
    yield from _paths(question(api.key, topic, topic_id))


def swollen(api: Api, topic: str, topic_id: UUID, path: tuple[str, ...], rows: int) -> bytes:
    """The whole frame: the array at that path with so many rows, all different."""
    values = question(api.key, topic, topic_id)
    _swell(values, path, rows)
    return frame(api.key, api.newest, **values)


def _paths(values: Any) -> Iterator[tuple[str, ...]]:
    for name, value in values.items():
        if isinstance(value, list | tuple) and value:
            yield (name,)
            if isinstance(value[0], dict):
                yield from ((name, *path) for path in _paths(value[0]))


def _swell(values: dict[str, Any], path: tuple[str, ...], rows: int) -> None:
    name, *rest = path
    if rest:
        _swell(values[name][0], tuple(rest), rows)
    else:
        values[name] = [_varied(values[name][0], number) for number in range(rows)]


def _varied(item: Any, number: int) -> Any:
    if isinstance(item, dict):
        names = [name for name, value in item.items() if isinstance(value, str) or name in _NUMBERED]
        return {**item, **{name: _varied(item[name], number) for name in names}}
    return f"row-{number}" if isinstance(item, str) else number if isinstance(item, int) else item
