"""What happened in a simulated run, as seen from outside the node: what clients sent, were told and read, and what lay
on the disk when a life of the node began and ended. sim/checkers.py judges it.

A life is one incarnation of the node's host. Whatever a client learns is noted for the life that its connection led to,
since an answer may arrive when that life is over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from ottla.sim.journal import Journal, short
from ottla.sim.log_files import PartitionId, StoredLog


class Witness(NamedTuple):
    """Somebody saw this value."""

    value: bytes
    who: str
    at: float


@dataclass(slots=True)
class Death:
    at: float
    is_power_loss: bool
    is_clean: bool
    """After a clean stop had come to its end."""
    logs: dict[PartitionId, StoredLog]
    sure: dict[PartitionId, int]
    """Where the part of a log ends that is on the platter for certain."""


@dataclass(slots=True)
class Opened:
    """What a node had found and put in order when it began to listen."""

    at: float
    cluster_id: str
    topics: dict[UUID, str]
    configs: dict[UUID, dict[str, str]]
    logs: dict[PartitionId, StoredLog]
    ends: dict[PartitionId, int]
    """The end offsets that the node believes in."""
    disk_failed: bool
    """Something could not be written or read: a partition may be missing."""


@dataclass(slots=True)
class Life:
    number: int
    opened: Opened | None = None
    deaths: list[Death] = field(default_factory=list)
    acked: dict[PartitionId, dict[int, Witness]] = field(default_factory=dict)
    read: dict[PartitionId, dict[int, Witness]] = field(default_factory=dict)
    seen_topics: dict[UUID, str] = field(default_factory=dict)
    """Topics that clients were told of: their creation was acknowledged, or they stood in an answer to Metadata."""


@dataclass(slots=True)
class TopicStory:
    name: str
    id: UUID
    partitions: int
    configs: Mapping[str, str]
    synced: bool
    """flush.messages=1: what is acknowledged, or shown to a consumer, survives a loss of power."""
    compacted: bool
    """A loss of power may leave gaps: the node cannot tell them from those that compaction makes."""
    expires: bool
    """Retention may move the start."""
    delete_asked_at: float | None = None
    deleted_in_life: int | None = None


class History(Journal):
    def __init__(self, now: Callable[[], float], on_violation: Callable[[], None] = lambda: None) -> None:
        super().__init__(now, on_violation)
        self.lives: dict[int, Life] = {}
        self.topics: dict[UUID, TopicStory] = {}
        self.starts: dict[PartitionId, int] = {}
        """The highest start of a log that anybody was told: retention has removed what lies below."""
        self.power_losses: list[int] = []
        """The lives that ended, or after whose end the machine was left, without power."""

    def life(self, number: int) -> Life:
        if number not in self.lives:
            self.lives[number] = Life(number)
        return self.lives[number]

    def lost_power_since(self, life: int) -> bool:
        return any(lost >= life for lost in self.power_losses)

    def name(self, partition: PartitionId) -> str:
        story = self.topics.get(partition.topic_id)
        return f"{story.name if story else partition.topic_id}-{partition.partition}"

    # -- what clients do and learn

    def made(self, life: int, name: str, topic_id: UUID, partitions: int, configs: Mapping[str, str]) -> None:
        """A topic is known to exist: it was created, or an answer to Metadata has it."""
        synced, compacted = configs.get("flush.messages") == "1", "compact" in configs.get("cleanup.policy", "")
        expires = any(name.startswith("retention.") for name in configs)
        self.topics.setdefault(topic_id, TopicStory(name, topic_id, partitions, configs, synced, compacted, expires))
        self.life(life).seen_topics[topic_id] = name

    def may_have_gaps(self, partition: PartitionId) -> bool:
        story = self.topics.get(partition.topic_id)
        return story is not None and story.compacted

    def acknowledged(
        self, life: int, partition: PartitionId, base_offset: int, values: Iterable[bytes], who: str
    ) -> None:
        self.counts["acknowledged batches"] += 1
        self._witness(self.life(life).acked.setdefault(partition, {}), partition, base_offset, values, who)

    def reads(self, life: int, partition: PartitionId, offset: int, value: bytes, who: str) -> None:
        self._witness(self.life(life).read.setdefault(partition, {}), partition, offset, (value,), who)

    def _witness(
        self, seen: dict[int, Witness], partition: PartitionId, offset: int, values: Iterable[bytes], who: str
    ) -> None:
        for number, value in enumerate(values, offset):
            before = seen.setdefault(number, Witness(value, who, self.now()))
            if before.value != value:
                self.complain(
                    f"{who} got {short(value)} at offset {number} of {self.name(partition)}, where {before.who} had "
                    f"got {short(before.value)} at {before.at:.3f} s in the same life of the node"
                )

    def starts_at(self, partition: PartitionId, offset: int) -> None:
        story = self.topics.get(partition.topic_id)
        if offset > 0 and story is not None and not story.expires:
            self.complain(f"{self.name(partition)} starts at {offset}, although nothing in it expires")
        self.starts[partition] = max(offset, self.starts.get(partition, 0))
