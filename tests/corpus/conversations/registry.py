"""Conversations by name, one for each version that it is held in."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import NEWEST, Versions, versions

Script = Callable[[Talk, Versions], None]
CONVERSATIONS: Final[dict[str, Callable[[Talk], None]]] = {}


def conversation(in_versions: Iterable[int] = ()) -> Callable[[Script], Script]:
    """In versions with these numbers, or the newest. Its name is that of the function, in words."""
    numbers = list(in_versions)

    def add(script: Script) -> Script:
        name = script.__name__.replace("_", " ")
        if not numbers:
            CONVERSATIONS[name] = lambda talk: script(talk, NEWEST)
        for number in numbers:
            CONVERSATIONS[f"{name}, version {number}"] = _held_in(script, versions(number))
        return script

    return add


def _held_in(script: Script, chosen: Versions) -> Callable[[Talk], None]:
    return lambda talk: script(talk, chosen)
