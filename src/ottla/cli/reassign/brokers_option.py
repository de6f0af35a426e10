"""Brokers as they are typed: numbers, separated by commas."""

from __future__ import annotations

from typing import Any

import click


class BrokerList(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "n,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:  # fmt: skip
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        if not all(part.isdecimal() for part in parts):
            self.fail(f"{value!r} is not a list of brokers, such as 1,2,3", param, ctx)
        return tuple(map(int, parts))
