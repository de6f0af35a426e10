"""Changing configs, and telling what they were, what they are now, and where that comes from."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.cli.cluster_options import Cluster
from ottla.cli.config.resource import known_names, resource
from ottla.cli.config_names import hint, with_hint
from ottla.cli.output import note, print_outcome
from ottla.cli.secrets import HIDDEN, may_be_secret
from ottla.model.names import ResourceType

if TYPE_CHECKING:
    from ottla.cli.admin.configs import Change, ConfigEntry, Resource
    from ottla.cli.admin.session import Session

SETTLED_WITHIN_S: Final = 2.0
LOOK_EVERY_S: Final = 0.02


class _Held(NamedTuple):
    """A value and where it comes from; both None where nothing is set."""

    value: str | None
    source: str | None

    def __str__(self) -> str:
        return "not set here" if self.source is None else f"{'-' if self.value is None else self.value} ({self.source})"


_NOTHING: Final = _Held(None, None)


def apply(
    cluster: Cluster, kind: str, name: str, changes: Sequence[Change], *, check_only: bool, output: str | None
) -> None:
    from ottla.cli.admin import configs, session

    wanted = resource(kind, name)
    names = [change.name for change in changes]

    async def ask(there: session.Session) -> tuple[dict[str, ConfigEntry], dict[str, ConfigEntry]]:
        before = await _entries(there, wanted, names)
        await configs.alter(there, wanted, changes, check_only=check_only)
        return before, before if check_only else await _settled(there, wanted, changes)

    with with_hint(names):
        before, after = session.run(cluster, ask)
    rows, sentences = [], []
    for change in changes:
        was = _held(before.get(change.name))
        now = _expected(wanted, change, before.get(change.name)) if check_only else _held(after.get(change.name))
        changes_it = was != now or now.value == HIDDEN
        rows.append(_row(wanted, change.name, was, now, changed=changes_it and not check_only))
        if changes_it:
            verb, tense = ("Would change", "would be") if check_only else ("Changed", "is")
            sentences.append(f"{verb} {wanted}: {change.name} was {was}, {tense} {now}")
        else:
            sentences.append(f"Nothing to change for {wanted}: {change.name} is {now}")
    print_outcome(output, rows, *sentences)
    known = known_names(kind)
    for change in changes:
        if known and (told := hint(change.name, known)):  # a broker takes any name, for its plug-ins
            note(f"Warning: {change.name} is no config that is known{told}")


def _row(wanted: Resource, name: str, was: _Held, now: _Held, *, changed: bool) -> dict[str, Any]:
    return {
        "of": str(wanted),
        "config": name,
        "was": was.value,
        "was_from": was.source,
        "is": now.value,
        "is_from": now.source,
        "changed": changed,
    }


async def _entries(there: Session, wanted: Resource, names: Sequence[str]) -> dict[str, ConfigEntry]:
    from ottla.cli.admin import configs

    return {entry.name: entry for entry in (await configs.configs(there, [wanted], names))[wanted]}


async def _settled(there: Session, wanted: Resource, changes: Sequence[Change]) -> dict[str, ConfigEntry]:
    """What holds after a change. A broker may take a moment to hear of it from the controller that made it."""
    deadline = asyncio.get_running_loop().time() + SETTLED_WITHIN_S
    names = [change.name for change in changes]
    while True:
        entries = await _entries(there, wanted, names)
        done = all(_is_seen(wanted, change, entries.get(change.name)) for change in changes)
        if done or asyncio.get_running_loop().time() > deadline:
            return entries
        await asyncio.sleep(LOOK_EVERY_S)


def _is_seen(wanted: Resource, change: Change, entry: ConfigEntry | None) -> bool:
    from ottla.cli.admin.configs import Operation

    if wanted.type is ResourceType.BROKER_LOGGER:  # the broker that answers has done it itself
        return True
    mine = [] if entry is None else [each.value for each in entry.synonyms if each.source == wanted.own_source]
    if change.operation is Operation.DELETE:
        return not mine
    if not mine or mine[0] is None:  # a secret's value is not told
        return bool(mine)
    if change.operation is Operation.SET:
        return mine[0] == change.value
    given, there = set((change.value or "").split(",")), set(mine[0].split(","))
    return given <= there if change.operation is Operation.APPEND else not given & there


def _expected(wanted: Resource, change: Change, before: ConfigEntry | None) -> _Held:
    """What would hold after a change that is only checked."""
    from ottla.cli.admin.configs import SOURCES, Operation

    own = SOURCES[wanted.own_source]
    if change.operation is Operation.DELETE:
        if before is None or before.source != wanted.own_source:
            return _held(before)
        under = next(iter(before.overridden), None)
        if under is None:
            return _NOTHING
        return _Held(HIDDEN if before.sensitive else under.value, SOURCES.get(under.source, "set"))
    if (before is not None and before.sensitive) or may_be_secret(change.name):
        return _Held(HIDDEN, own)
    if change.operation is Operation.SET:
        return _Held(change.value, own)
    entries = [each for each in ((before.value if before else None) or "").split(",") if each]
    given = (change.value or "").split(",")
    if change.operation is Operation.APPEND:
        entries += [each for each in given if each not in entries]
    else:
        entries = [each for each in entries if each not in given]
    return _Held(",".join(entries), own)


def _held(entry: ConfigEntry | None) -> _Held:
    from ottla.cli.admin.configs import SOURCES

    if entry is None:
        return _NOTHING
    return _Held(HIDDEN if entry.sensitive else entry.value, SOURCES.get(entry.source, "set"))
