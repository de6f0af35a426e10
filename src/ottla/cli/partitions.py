"""The option for partitions, and which of a topic's are meant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def partitions_option(function: F) -> F:
    """Gives a command the argument `only`."""
    return click.option(
        "-p", "--partition", "only", type=click.IntRange(min=0), multiple=True, help="Only these; repeatable."
    )(function)


def chosen(topic: str, there: Sequence[int], only: Sequence[int]) -> list[int]:
    """The wanted ones of those that are there, all if none are; OttlaError if one is not there."""
    from ottla.model.errors import OttlaError

    missing = sorted(set(only) - set(there))
    if missing:
        raise OttlaError(f"topic {topic} has no partition {missing[0]}, only 0 to {max(there)}")
    return sorted(set(only)) or list(there)
