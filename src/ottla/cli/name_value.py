"""Options of the form NAME=VALUE."""

from __future__ import annotations

from typing import Any

import click


class NameValue(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name.strip(), text
