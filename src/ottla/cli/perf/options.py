"""Options that the measurements share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ottla.cli.name_value import NameValue

F = TypeVar("F", bound=Callable[..., Any])


def own_option(function: F) -> F:
    return click.option("-X", "own", type=NameValue(), multiple=True, help="Any property of librdkafka; repeatable.")(
        function
    )


def size_option(function: F) -> F:
    return click.option(
        "-s", "--size", type=click.IntRange(min=1), default=100, show_default=True, help="Bytes of each value."
    )(function)


def duration_option(function: F) -> F:
    return click.option("-d", "--duration", type=click.FloatRange(min=0, min_open=True), help="Seconds at most.")(
        function
    )
