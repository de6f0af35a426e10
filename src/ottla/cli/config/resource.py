"""What has configs, as it is typed: `topic orders`, `broker 1`, `broker default`, `broker-logger 1`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.choices import Choice
from ottla.cli.completing import group_names, topic_names
from ottla.cli.config_names import tables
from ottla.model.names import ResourceType

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Resource

F = TypeVar("F", bound=Callable[..., Any])
KINDS: Final = {kind.name.lower().replace("_", "-"): kind for kind in ResourceType}
ALL_BROKERS: Final = "default"


class Kind(Choice):
    """Also in the plural, as Kafka's tools have it."""

    def __init__(self) -> None:
        super().__init__(tuple(KINDS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        singular = value[:-1] if isinstance(value, str) and value not in KINDS and value.endswith("s") else value
        return super().convert(singular if singular in KINDS else value, param, ctx)


def resource_arguments(function: F) -> F:
    """Gives a command the arguments `kind` and `name`."""
    function = click.argument("name", shell_complete=_names)(function)
    return click.argument("kind", type=Kind())(function)


def resource(kind: str, name: str) -> Resource:
    from ottla.cli.admin.configs import Resource

    found = KINDS[kind]
    if found in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        if found is ResourceType.BROKER and name == ALL_BROKERS:
            return Resource(found, "")
        if not name.isdecimal():
            also = f", or {ALL_BROKERS} for all brokers" if found is ResourceType.BROKER else ""
            raise click.UsageError(f"{name!r} is not a broker: a number is needed{also}")
    return Resource(found, name)


def known_names(kind: str) -> Iterable[str]:
    """The configs that are known for a kind; none for loggers, which every broker has its own of."""
    return tables().get(kind, ())


def _names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    if context.params.get("kind") == "topic":
        return topic_names(context, param, incomplete)
    if context.params.get("kind") == "group":
        return group_names(context, param, incomplete)
    return [ALL_BROKERS] if context.params.get("kind") == "broker" and ALL_BROKERS.startswith(incomplete) else []


def config_names(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    names = known_names(str(context.params.get("kind", "topic")))
    return sorted(name for name in names if name.startswith(incomplete))
