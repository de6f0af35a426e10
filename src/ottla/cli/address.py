"""The option that says which cluster a command talks to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Addresses(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """host:port, or several separated by commas; the port may be left out."""

    name = "host:port"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Address, ...]:  # fmt: skip
        if isinstance(value, tuple):
            return value
        return tuple(self._one(part.strip(), param, ctx) for part in str(value).split(",") if part.strip())

    def _one(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        host, colon, port = text.rpartition(":")
        if not colon or text.endswith("]"):
            return Address(text.strip("[]"), DEFAULT_PORT)
        if not port.isdecimal() or not 0 < int(port) < 65536:
            self.fail(f"{text!r} is not host:port, such as {DEFAULT}", param, ctx)
        return Address(host.strip("[]") or "127.0.0.1", int(port))


def bootstrap_option(function: F) -> F:
    option = click.option(
        "-b",
        "--bootstrap-server",
        "bootstrap",
        type=Addresses(),
        default=DEFAULT,
        envvar="OTTLA_BOOTSTRAP",
        show_default=True,
        show_envvar=True,
        help="The broker, or several separated by commas.",
    )
    return option(function)


def unreachable(addresses: tuple[Address, ...], reason: str = "") -> str:
    tried = ", ".join(map(str, addresses))
    return (
        f"no broker answers at {tried}{f' ({reason})' if reason else ''}. "
        "Is it running? `ottla up` starts one here; -b or OTTLA_BOOTSTRAP names another."
    )
