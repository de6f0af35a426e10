"""The options that say which cluster a command talks to, and how long it waits for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar

import click
from click.core import ParameterSource

from ottla.cli.completing import profile_names
from ottla.cli.times import Seconds

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT: Final = "127.0.0.1:9092"
DEFAULT_PORT: Final = 9092
DEFAULT_TIMEOUT_S: Final = 10.0


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


class Cluster(NamedTuple):
    """Where to ask, for how long, and what else its clients need (properties of librdkafka)."""

    bootstrap: tuple[Address, ...]
    timeout_s: float = DEFAULT_TIMEOUT_S
    properties: tuple[tuple[str, str], ...] = ()

    def unreachable(self, reason: str = "") -> str:
        tried = ", ".join(map(str, self.bootstrap))
        return (
            f"no broker answers at {tried}{f' ({reason})' if reason else ''}. "
            "Is it running? `ottla up` starts one here; -b or OTTLA_BOOTSTRAP names another."
        )


def cluster_options(function: F) -> F:
    """Gives a command the argument `cluster`."""

    @click.option(
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
    @click.option(
        "-P",
        "--profile",
        envvar="OTTLA_PROFILE",
        show_envvar=True,
        shell_complete=profile_names,
        help="The cluster of a profile; `ottla profile add` makes one. By default the one in use, if any.",
    )
    @click.option(
        "--timeout",
        "timeout_s",
        type=Seconds(),
        default=DEFAULT_TIMEOUT_S,
        show_default=True,
        help="Seconds to wait for an answer.",
    )
    @wraps(function)
    def with_cluster(
        *args: Any, bootstrap: tuple[Address, ...], profile: str | None, timeout_s: float, **more: Any
    ) -> Any:
        context = click.get_current_context()
        return function(*args, cluster=chosen_cluster(context, bootstrap, profile, timeout_s), **more)

    return with_cluster  # type: ignore[return-value]


def chosen_cluster(
    context: click.Context, bootstrap: tuple[Address, ...], profile: str | None, timeout_s: float
) -> Cluster:
    """What stands on the command line counts before the environment, that before the profile in use."""
    address_from, profile_from = (context.get_parameter_source(name) for name in ("bootstrap", "profile"))
    typed = ParameterSource.COMMANDLINE
    if address_from is typed and profile_from is typed:
        raise click.UsageError("-b and -P exclude each other: both say which cluster")
    if address_from is typed or (address_from is ParameterSource.ENVIRONMENT and profile_from is not typed):
        return Cluster(bootstrap, timeout_s)
    from ottla.cli import profiles

    found = profiles.load().chosen(profile)
    if found is None:
        return Cluster(bootstrap, timeout_s)
    addresses = Addresses().convert(found.bootstrap, None, None)
    return Cluster(addresses, timeout_s, tuple(found.properties.items()))
