"""Changing configs, and telling what they were and what they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.cluster import Cluster
from ottla.cli.config.resource import known_names, resource
from ottla.cli.config_names import hint, with_hint
from ottla.cli.output import note

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Change, ConfigEntry


def apply(cluster: Cluster, kind: str, name: str, changes: Sequence[Change], *, check_only: bool) -> None:
    from ottla.cli.admin import configs, session

    wanted = resource(kind, name)
    names = [change.name for change in changes]

    async def ask(there: session.Session) -> dict[str, ConfigEntry]:
        before = await configs.configs(there, [wanted], names)
        await configs.alter(there, wanted, changes, check_only=check_only)
        return {entry.name: entry for entry in before[wanted]}

    with with_hint(names):
        before = session.run(cluster, ask)
    known = known_names(kind)
    for change in changes:
        note(f"{'Would change' if check_only else 'Changed'} {wanted}: {_told(change, before.get(change.name))}")
        if known and (told := hint(change.name, known)):  # a broker takes any name, for its plug-ins
            note(f"Warning: {change.name} is no config that is known{told}")


def _told(change: Change, before: ConfigEntry | None) -> str:
    from ottla.cli.admin.configs import SOURCES, Operation

    was = "not set" if before is None else f"{before.shown} ({SOURCES.get(before.source, 'set')})"
    shown = "(secret)" if before is not None and before.sensitive else change.value
    match change.operation:
        case Operation.SET:
            return f"{change.name} was {was}, is {shown}"
        case Operation.APPEND:
            return f"{change.name} was {was}, gains {shown}"
        case Operation.SUBTRACT:
            return f"{change.name} was {was}, loses {shown}"
        case _:
            under = next(iter(before.overridden), None) if before is not None else None
            now = "" if under is None else f", is {under.value} ({SOURCES.get(under.source, 'set')})"
            return f"{change.name} was {was}{now or ', is no longer set'}"
