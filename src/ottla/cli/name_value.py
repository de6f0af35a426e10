"""Options of the form NAME=VALUE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class NameValue(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "name=value"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value[0], value[1]
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r} is not NAME=VALUE", param, ctx)
        return name.strip(), text


class NameFile(NameValue):
    """The value is what a file holds, without the newline at its end."""

    name = "name=file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        name, file = super().convert(value, param, ctx)
        try:
            with click.open_file(file) as content:  # - is stdin
                return name, content.read().removesuffix("\n").removesuffix("\r")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            self.fail(f"cannot read {file}: {reason}", param, ctx)


def from_file_option(function: F) -> F:
    """Gives a command the argument `from_files`."""
    return click.option(
        "--from-file", "from_files", type=NameFile(), multiple=True,
        help="Take the value out of a file, or - for stdin; for secrets, which should not be typed. Repeatable.",
    )(function)  # fmt: skip
