"""Partitions as Kafka's tools name them: `orders` for all of a topic, `orders:0,2` for some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla.cli.partitions import chosen

if TYPE_CHECKING:
    from ottla.cli.admin.topics import TopicInfo
    from ottla.model.names import TopicPartition


class Scope(NamedTuple):
    topic: str
    only: tuple[int, ...] = ()
    """All if there are none."""


class ScopeType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    name = "topic[:n,...]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Scope:
        if isinstance(value, Scope):
            return value
        topic, colon, numbers = str(value).partition(":")
        parts = [part.strip() for part in numbers.split(",")] if colon else []
        if not topic or not all(part.isdecimal() for part in parts):
            self.fail(f"{value!r} is neither a topic nor TOPIC:PARTITION,...", param, ctx)
        return Scope(topic, tuple(map(int, parts)))

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        from ottla.cli.completing import topic_names

        return [CompletionItem(name) for name in topic_names(ctx, param, incomplete)]


def partitions_in(scopes: Iterable[Scope], topics: Iterable[TopicInfo]) -> list[TopicPartition]:
    """All that are meant, sorted; OttlaError if a partition is not there."""
    from ottla.model.names import TopicPartition

    known = {topic.name: [part.number for part in topic.partitions] for topic in topics}
    return sorted(
        {TopicPartition(topic, number) for topic, only in scopes for number in chosen(topic, known[topic], only)}
    )
