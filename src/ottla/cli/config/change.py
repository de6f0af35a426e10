"""Changing configs, and telling what they were and what they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ottla.cli.cluster import Cluster
from ottla.cli.config.resource import known_names, resource
from ottla.cli.config_names import hint, with_hint
from ottla.cli.output import note

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Change, ConfigEntry

_SECRET_WORDS: Final = ("password", "secret", "key", "token", "credential", "jaas")


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


def may_be_secret(name: str) -> bool:
    """A password; or a broker's config that nobody knows: Kafka takes these for secrets too."""
    from ottla.model.config import BROKER_CONFIGS, TOPIC_CONFIGS
    from ottla.model.config.definition import ConfigType

    definition = BROKER_CONFIGS.get(name) or TOPIC_CONFIGS.get(name)
    if definition is not None:
        return definition.type is ConfigType.PASSWORD
    plain = name.split(".", 3)[-1] if name.startswith("listener.name.") else name
    known = BROKER_CONFIGS.get(plain)
    return known.type is ConfigType.PASSWORD if known is not None else any(word in name for word in _SECRET_WORDS)


def _told(change: Change, before: ConfigEntry | None) -> str:
    from ottla.cli.admin.configs import SOURCES, Operation

    was = "not set" if before is None else f"{before.shown} ({SOURCES.get(before.source, 'set')})"
    shown = "(secret)" if (before is not None and before.sensitive) or may_be_secret(change.name) else change.value
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
