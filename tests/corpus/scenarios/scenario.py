"""What scenarios consist of: for an API its right bodies, the topics that they need, and what must not be sent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from hashlib import md5
from typing import Any, Final
from uuid import UUID

T0: Final = 1_700_000_000_000
SOON: Final = timedelta(seconds=20)
UNKNOWN_ID: Final = UUID(int=99)

# Stands for the session that the server opened last.
SESSION: Final = 0x5E55_10AD

# Topics that all read and nobody changes.
TIMED: Final = "timed"  # one partition, five records in two batches
EMPTY: Final = "empty"  # two partitions, no records
CONFIGURED: Final = "configured"

# Groups that are there: one with a member, subscribed to TIMED; one with offsets alone.
STABLE: Final = "stable-group"
STABLE_MEMBER: Final = "raw-5a3d2b1c-0000-4000-8000-00000000e1d5"  # stands for the id that the server gave it
FETCHED: Final = "fetched-group"

Values = dict[str, Any]
Cases = dict[str, Values]


@dataclass(frozen=True, slots=True)
class Fixture:
    """A topic that is there before the first request is sent."""

    name: str
    partitions: int = 1
    configs: dict[str, str] = field(default_factory=dict)
    batches: tuple[bytes, ...] = ()  # for partition 0


@dataclass(frozen=True, slots=True)
class Scenario:
    """`cases` are named requests with the fields of all versions at once; a version takes those that it has.

    The first is the one whose pieces are exchanged for the edge cases. `is_harmless` says of a request that chance
    made whether it may be sent: not if it would take the server down, make it wait, or change what others look at.
    """

    key: int
    name: str
    oldest: int
    newest: int
    cases: Callable[[int], Cases]
    fixtures: Callable[[int], tuple[Fixture, ...]] = lambda version: ()
    is_harmless: Callable[[Any], bool] = lambda request: True

    @property
    def versions(self) -> range:
        return range(self.oldest, self.newest + 1)


def own(key: int, version: int, name: str) -> str:
    """The name of a topic that only requests of this API and version change; no flipped bit makes it another's."""
    mark = md5(f"{key} {version}".encode(), usedforsecurity=False).hexdigest()[:6]
    return f"own-{mark}-{name}"


def stand_in(topic: str) -> UUID:
    """The id of a fixture in the corpus: every server gives ids of its own, and the player exchanges them."""
    return UUID(bytes=md5(topic.encode(), usedforsecurity=False).digest())


def by_name_and_id(topic: str, topic_id: UUID | None = None) -> Values:
    """For requests that name a topic by its name in older versions, by its id in newer ones."""
    return {"name": topic, "topic": topic, "topic_id": topic_id or stand_in(topic)}


def is_patient(timeout: timedelta) -> bool:
    """Whether an answer depends on how fast a server is."""
    return timeout >= timedelta(seconds=5)
