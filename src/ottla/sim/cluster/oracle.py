"""What a cluster has promised so far, partition by partition, and what it may have lost.

A record is committed when somebody could count on it: it was acknowledged with acks=all, a consumer read it, or it lies
below the high watermark of a leader. From then on the same offset has the same record, for everybody.

Kafka's contract has one exception, as replicas acknowledge before they sync: a loss of power takes what was not synced.
The oracle looks at the disks to see how much that was, and keeps for each replica how far its log still goes. A
replica counts again when it is back in the in-sync set, since it has everything then. If all who may lead (the in-sync
and the eligible replicas, and the last known leader) have lost the same end of a log at once, that end is excused: it
may be gone, or still there. So is what the last known leader has lost when it is elected, as nobody is eligible any
more: for Kafka any replica that ended uncleanly may have lost its log, whether it has or not. One that has lost nothing
must have everything. And so is what a leader lacks whom somebody asked for although it is out of sync.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from ottla.metadata.controller.features import ELR_VERSION
from ottla.metadata.image import MetadataImage, PartitionImage
from ottla.sim.cluster.cleanup import KEEPS_ALL, Cleanup
from ottla.sim.journal import Journal, Place, short
from ottla.sim.log_files import PartitionId, StoredLog

NOBODY = -1


@dataclass(slots=True)
class Fact:
    """This record is committed at this offset."""

    value: bytes
    who: str
    at: float
    is_excused: bool = False
    """All who were in sync have lost it: it may be gone."""
    key: bytes | None = None
    timestamp: int = -1


@dataclass(slots=True)
class PartitionStory:
    id: PartitionId
    name: str
    is_internal: bool = False
    cleanup: Cleanup = KEEPS_ALL
    facts: dict[int, Fact] = field(default_factory=dict)
    end: int = 0
    """One beyond the last that is committed."""
    leader: int = NOBODY
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    """Who led last, while nobody does."""
    replicas: tuple[int, ...] = ()
    leaders: dict[int, int] = field(default_factory=dict)
    """Who leads, by epoch."""
    appended: dict[int, tuple[bytes, int]] = field(default_factory=dict)
    """Acknowledged with acks=1: kept as long as the leader stays the same."""
    ends: dict[int, int] = field(default_factory=dict)
    """By replica: where a loss of power has cut its log, until it is in sync again."""
    had: dict[int, int] = field(default_factory=dict)
    """By replica: where its log ended before that, the first time. What is committed lies below the least of these."""
    lost_in: dict[int, int | None] = field(default_factory=dict)
    """By replica: the broker epoch that it died in."""
    rotten: dict[int, int] = field(default_factory=dict)
    """By replica: the first offset that it can no longer read, as bits have flipped."""
    mended_at: float = -1.0
    """When the last of them was taken away."""
    replaced: set[int] = field(default_factory=set)
    """Replicas that have new disks, and nothing of the partition yet."""
    has_lost_a_disk: bool = False
    """Somebody who was trusted has a new disk: if nobody leads, only a person can decide to go on with what is left."""
    excuses: list[tuple[float, int]] = field(default_factory=list)
    """When, and from which offset on, all who were in sync had lost their logs."""
    excused_by: tuple[tuple[int, ...], int] = ((), 0)
    """Who had lost what when it was excused last."""
    trusted: tuple[int, ...] = ()
    """Who may lead without loss: those in sync and the eligible, and who led last; who they were if there is nobody."""
    watermarks: dict[tuple[int, int, int], int] = field(default_factory=dict)
    """The last that was seen, by epoch, leader and his life."""
    given_up: int = 0
    """Retention has taken what lies below, somewhere, and was right to."""
    to_delete: int = 0
    """Somebody has asked for everything below to be deleted."""
    lost_keys: dict[bytes, int] = field(default_factory=dict)
    """By key: the last offset at which a value was lost and excused, for which an earlier one may have been cleaned."""
    seen: dict[int, list[tuple[float, int]]] = field(default_factory=dict)
    """By replica: when its log was seen to end where. For a person who looks for what was lost."""


class Oracle(Journal):
    def __init__(
        self,
        now: Callable[[], float],
        on_violation: Callable[[], None] = lambda: None,
        note: Callable[[str, str], None] = lambda event, details: None,
    ) -> None:
        super().__init__(now, on_violation)
        self._note = note
        self.partitions: dict[PartitionId, PartitionStory] = {}
        self.image: MetadataImage | None = None
        """The newest that any node has published."""
        self.log_of: Callable[[int, PartitionId], StoredLog | None] = lambda node, partition: None
        """What a node has on its disk."""
        self.size_in_store: Callable[[PartitionId], int] = lambda partition: 0
        """How many bytes of a partition are in the remote tier."""
        self.on_isr: Callable[[PartitionStory], None] = lambda story: None
        """Told when an ISR or its like is another."""
        self._published: dict[int, tuple[str, object]] = {}
        self._raft_leaders: dict[int, int] = {}
        self.acknowledged = 0
        """Records."""
        self.latest_ms = 0
        """The latest that the clock of any node has ever shown."""

    def complain(self, text: str, about: Place | None = None) -> None:
        super().complain(text, about)
        self._note("violation", text)

    def watch(
        self, partition: PartitionId, name: str, *, is_internal: bool = False, cleanup: Cleanup = KEEPS_ALL
    ) -> None:
        """From now on. To an internal one coordinators write, so that nobody knows what was sent to it."""
        story = self.partitions.setdefault(partition, PartitionStory(partition, name, is_internal, cleanup))
        known = self.image.partition(*partition) if self.image is not None else None
        if known is not None:
            self._changed(story, known)

    def forget(self, partition: PartitionId) -> None:
        """Its topic is to be deleted: nothing is promised any more."""
        self.partitions.pop(partition, None)

    def is_compacted(self, partition: PartitionId) -> bool:
        story = self.partitions.get(partition)
        return story is not None and story.cleanup.compact

    def name(self, partition: PartitionId) -> str:
        story = self.partitions.get(partition)
        return story.name if story is not None else f"{partition.topic_id}-{partition.partition}"

    # -- records

    def commits(
        self,
        partition: PartitionId,
        offset: int,
        values: Iterable[bytes],
        who: str,
        since: float | None = None,
        keys: Sequence[bytes | None] = (),
        timestamp: int = -1,
    ) -> None:
        """Somebody knows that these are committed, by an answer to what was asked at `since`."""
        story = self.partitions.get(partition)
        if story is None:
            return
        now = self.now()
        for number, value in enumerate(values, offset):
            fact = story.facts.get(number)
            if fact is not None and fact.value == value:
                continue
            is_old = since is not None and any(at >= since and number >= end for at, end in story.excuses)
            if fact is not None and not fact.is_excused and not is_old:
                self.complain(
                    f"{who} has {short(value)} at {number} of {story.name}, where {fact.who} had {short(fact.value)} "
                    f"at {fact.at:.3f} s",
                    Place(partition, number),
                )
            elif fact is None or not is_old:
                key = keys[number - offset] if keys else None
                story.facts[number] = Fact(value, who, now, is_old, key, timestamp)
                story.end = max(story.end, number + 1)

    def acknowledges(
        self,
        partition: PartitionId,
        offset: int,
        values: Sequence[bytes],
        who: str,
        acks: int,
        since: float,
        leader_epoch: int = -1,
        keys: Sequence[bytes | None] = (),
        timestamp: int = -1,
    ) -> None:
        """`leader_epoch` is what the producer believed in when it sent: the leader was in no earlier one."""
        self.acknowledged += len(values)
        self.counts["records acknowledged"] += len(values)
        if acks == -1:
            self.commits(partition, offset, values, who, since, keys, timestamp)
        elif (story := self.partitions.get(partition)) is not None:
            for number, value in enumerate(values, offset):
                story.appended[number] = value, leader_epoch
        self.moment()

    def lost_power(
        self, node: int, ends: Mapping[PartitionId, int], had: Mapping[PartitionId, int] = MappingProxyType({})
    ) -> None:
        """Where the logs of a node end now, and where they did; those that have lost nothing are not named."""
        for partition, end in ends.items():
            story = self.partitions.get(partition)
            if story is not None:
                # of a rotten log nobody can say, from its files, how far it went
                before = had.get(partition, sys.maxsize) if node not in story.rotten else sys.maxsize
                story.ends[node] = min(end, story.ends.get(node, end))
                story.had.setdefault(node, before)  # who loses something once more has had less meanwhile
                story.lost_in[node] = self._broker_epoch(node)
                self.counts["logs cut by a loss of power"] += 1
                self._note("lost", f"{story.name} ends at {end} of {story.end} committed at node {node}")
                self._excuse(story)

    def rots(self, node: int, partition: PartitionId, offset: int) -> None:
        """What a node has from an offset on is worth nothing, until `mended`: it cannot be read."""
        story = self.partitions[partition]
        story.rotten[node] = min(offset, story.rotten.get(node, offset))
        self._note("rot", f"{story.name} at {offset} at node {node}")
        self.counts["segments that rot"] += 1
        self.lost_power(node, {partition: offset})

    def replaces_disk(self, node: int) -> None:
        """A node has an empty disk now, and will not lead what only it had: somebody must say who shall."""
        for story in self.partitions.values():
            if node in story.replicas:
                story.replaced.add(node)
            if story.rotten.pop(node, None) is not None:
                story.mended_at = self.now()
            if node in story.trusted:
                story.has_lost_a_disk = True

    def needs_help(self, story: PartitionStory) -> bool:
        """Whether nobody will lead until somebody says who shall: what the last leader had was on a disk that is gone.

        Also if he was given the partition before he could tell that his disk is a new one.
        """
        now = self.image.partition(*story.id) if self.image is not None else None
        if self.image is None or now is None:
            return story.has_lost_a_disk
        lost = (
            broker_id in now.replicas
            and (broker := self.image.brokers.get(broker_id)) is not None
            and not broker.has_online(now.directory_of(broker_id))
            for broker_id in now.last_known_elr
        )
        return story.has_lost_a_disk or any(lost)

    def may_replace_disk(self, node: int) -> bool:
        """Whether some other replica of all that the node has keeps its log: nothing comes back without any."""
        return all(
            node not in story.replicas or set(story.replicas) - story.replaced - {node}
            for story in self.partitions.values()
        )

    def mended(self, node: int, partition: PartitionId) -> None:
        """Somebody has taken the rotten files away: the node has nothing of the partition now."""
        del self.partitions[partition].rotten[node]
        self.partitions[partition].mended_at = self.now()
        self.lost_power(node, {partition: 0})

    def is_rotten(self, partition: PartitionId, since: float) -> bool:
        """Whether somebody had rotten records of it at that time, or later. Brokers send them as they are, as Kafka's:
        it is the consumer who looks at checksums."""
        story = self.partitions[partition]
        return bool(story.rotten) or story.mended_at >= since

    def _excuse(self, story: PartitionStory) -> None:
        if not story.trusted or not all(replica in story.ends for replica in story.trusted):
            return
        end = max(story.ends[replica] for replica in story.trusted)
        if story.excused_by != (story.trusted, end):
            story.excused_by = story.trusted, end
            if end < min(story.had[replica] for replica in story.trusted):
                self._excuse_from(story, end)

    def _excuse_from(self, story: PartitionStory, end: int) -> None:
        story.excuses.append((self.now(), end))
        self._note("excused", f"{story.name} from {end} to {story.end}, trusted {story.trusted}")
        for offset in range(end, story.end):
            fact = story.facts.get(offset)
            if fact is not None and not fact.is_excused:
                fact.is_excused = True
                self.counts["records excused"] += 1
                if fact.key is not None:
                    story.lost_keys[fact.key] = max(offset, story.lost_keys.get(fact.key, -1))

    def is_excused(self, partition: PartitionId, since: float) -> bool:
        """Whether anything may have been lost of a partition since a time."""
        return any(at >= since for at, _ in self.partitions[partition].excuses)

    # -- what nobody wants any more

    def gives_up(self, partition: PartitionId, node: int, start: int, size: int) -> None:
        """A node's log of `size` bytes was seen to start there: what lay before must have been too old or too much."""
        story = self.partitions[partition]
        if start <= story.given_up:
            return
        for offset in range(max(story.given_up, story.to_delete), start):
            fact = story.facts.get(offset)
            if fact is None or fact.is_excused:
                continue
            self.counts["records that retention took"] += 1
            if not self._is_too_much(story.cleanup, fact, size):
                self.complain(
                    f"node {node} has given up {short(fact.value)} at {offset} of {story.name}, which now starts at "
                    f"{start}, with {size} bytes, at {self.latest_ms} ms; the record is of {fact.timestamp} ms",
                    Place(partition, offset),
                )
        if story.to_delete > story.given_up:
            self.counts["records deleted as asked"] += min(start, story.to_delete) - story.given_up
        story.given_up = start

    def may_be_gone(self, story: PartitionStory, offset: int, size: int) -> bool:
        """Whether nobody needs to have a record any more, in a log of `size` bytes."""
        fact = story.facts[offset]
        is_given_up = offset < max(story.to_delete, story.given_up)
        return is_given_up or fact.is_excused or self._is_too_much(story.cleanup, fact, size)

    def _is_too_much(self, cleanup: Cleanup, fact: Fact, size: int) -> bool:
        too_old = cleanup.retention_ms is not None and fact.timestamp + cleanup.retention_ms < self.latest_ms
        return too_old or (cleanup.retention_bytes is not None and size >= cleanup.retention_bytes)

    # -- metadata

    def published(self, node: int, image: MetadataImage) -> None:
        """A node has taken over the metadata up to an offset: the same, at that offset, as everybody's."""
        content = _content(image)
        who = f"node {node}"
        known = self._published.setdefault(image.offset, (who, content))
        if known[1] != content:
            self.complain(f"{who} has other metadata at offset {image.offset} than {known[0]}")
        if self.image is None or image.offset > self.image.offset:
            self.image = image
            for story in self.partitions.values():
                partition = image.partition(*story.id)
                if partition is not None:
                    self._changed(story, partition)

    def _changed(self, story: PartitionStory, now: PartitionImage) -> None:
        self._one_leader(story, now.leader_epoch, now.leader, "the metadata")
        if now.leader_epoch < story.leader_epoch:
            self.complain(f"the epoch of {story.name} went from {story.leader_epoch} to {now.leader_epoch}")
        if now.leader != story.leader and story.leader_epoch >= 0:
            self.counts["elections" if now.leader != NOBODY else "leaders lost"] += 1
        if story.isr and set(now.isr) < set(story.isr):
            self.counts["ISR shrinks"] += 1
        elif set(now.isr) > set(story.isr) and story.isr:
            self.counts["ISR expansions"] += 1
        if now.leader not in (story.leader, NOBODY, *story.isr, *story.elr) and story.leader_epoch >= 0:
            self._elected_uncleanly(story, now.leader)
        if now.leader_epoch != story.leader_epoch and now.leader in story.isr and not self._has_elr():
            self._trusted_blindly(story, now.leader)
        for replica in now.isr:
            is_back = replica not in story.isr and (replica not in story.elr or replica != now.leader)
            if is_back and not self._is_as_it_died(story, replica):
                story.replaced.discard(replica)
                self._counts_again(story, replica)
        self._check_eligible(story, now)
        before = (story.leader, story.leader_epoch, story.isr, story.elr)
        is_another = before != (now.leader, now.leader_epoch, now.isr, now.elr)
        if is_another:
            self._note(
                "partition",
                f"{story.name} leader {now.leader} epoch {now.leader_epoch} ISR {now.isr} ELR {now.elr} last "
                f"{now.last_known_elr}",
            )
        story.leader, story.leader_epoch = now.leader, now.leader_epoch
        story.isr, story.elr, story.replicas = now.isr, now.elr, now.replicas
        story.partition_epoch = now.partition_epoch
        story.last_known = now.last_known_elr
        story.trusted = tuple(dict.fromkeys((*now.isr, *now.elr, *now.last_known_elr))) or story.trusted
        self._excuse(story)
        if is_another:
            self.on_isr(story)

    def _counts_again(self, story: PartitionStory, replica: int) -> None:
        """It has all that is committed and not excused, whatever it has lost before."""
        story.ends.pop(replica, None)
        story.had.pop(replica, None)
        if replica in story.rotten:
            story.ends[replica] = story.rotten[replica]
            story.had[replica] = sys.maxsize

    def _check_eligible(self, story: PartitionStory, now: PartitionImage) -> None:
        """Whoever is fenced is not taken in: nobody knows whether it lives (KIP-903, KIP-966)."""
        if now.leader == NOBODY or self.image is None or story.leader_epoch < 0:
            return
        for replica in now.isr:
            broker = self.image.brokers.get(replica)
            if replica not in (now.leader, *story.isr) and broker is not None and broker.fenced:
                self.complain(f"node {replica} was taken into the ISR of {story.name} although it is fenced")

    def _elected_uncleanly(self, story: PartitionStory, leader: int) -> None:
        """Nobody is eligible: the last known leader leads, without what it has lost, or whoever is there."""
        if leader in story.last_known:
            self.counts["last leaders that lead again"] += 1
            had = (story.had[replica] for replica in story.trusted if replica in story.had)
            if story.ends.get(leader, sys.maxsize) < min(had, default=story.end):
                self._excuse_from(story, story.ends[leader])
            return
        self.counts["unclean elections"] += 1
        log = self.log_of(leader, story.id)
        end = 0 if log is None else log.end
        for offset, fact in story.facts.items():
            found = log.records.get(offset) if log is not None else None
            if offset < end and found is not None and found.value != fact.value:
                end = offset
        self._excuse_from(story, end)

    def _broker_epoch(self, node: int) -> int | None:
        broker = self.image.brokers.get(node) if self.image is not None else None
        return None if broker is None else broker.epoch

    def _is_as_it_died(self, story: PartitionStory, replica: int) -> bool:
        """It came back into the ISR by what it had asked for in the life before: it has not caught up since."""
        epoch = self._broker_epoch(replica)
        return epoch is not None and replica in story.ends and epoch == story.lost_in.get(replica)

    def _has_elr(self) -> bool:
        return self.image is not None and self.image.features.get(ELR_VERSION, 0) > 0

    def _trusted_blindly(self, story: PartitionStory, leader: int) -> None:
        """Before KIP-966 whoever is in the ISR may lead, however it ended: what it has lost is lost. From now on the
        others take from it what there is, so that it counts, although it was never out of the ISR."""
        had = (story.had[replica] for replica in story.trusted if replica in story.had)
        if story.ends.get(leader, sys.maxsize) < min(had, default=story.end):
            self.counts["leaders that were trusted blindly"] += 1
            self._excuse_from(story, story.ends[leader])
        self._counts_again(story, leader)

    def _one_leader(self, story: PartitionStory, epoch: int, leader: int, who: str) -> None:
        known = story.leaders.setdefault(epoch, leader)
        if known != leader:
            self.complain(f"{who} says that {leader} leads {story.name} in epoch {epoch}, but {known} does")

    # -- leaders and other replicas

    def has_log(self, partition: PartitionId, node: int, end: int) -> None:
        """A node's log was seen to end there."""
        seen = self.partitions[partition].seen.setdefault(node, [])
        if not seen or seen[-1][1] != end:
            seen.append((self.now(), end))

    def leads(self, partition: PartitionId, epoch: int, node: int, life: int, high_watermark: int) -> None:
        story = self.partitions[partition]
        self._one_leader(story, epoch, node, f"node {node}")
        key = epoch, node, life
        if high_watermark < story.watermarks.get(key, -1):
            self.complain(
                f"the high watermark of {story.name} went from {story.watermarks[key]} to {high_watermark} while node "
                f"{node} led it in epoch {epoch}"
            )
        story.watermarks[key] = high_watermark

    def leads_quorum(self, epoch: int, node: int) -> None:
        known = self._raft_leaders.setdefault(epoch, node)
        if known != node:
            self.complain(f"nodes {known} and {node} both lead the quorum in epoch {epoch}")
        if len(self._raft_leaders) > 1 + self.counts["elections of a controller"]:  # the first one says nothing
            self.counts["elections of a controller"] = len(self._raft_leaders) - 1


def _content(image: MetadataImage) -> object:
    """What all nodes must agree on at an offset, as far as it is compared."""
    partitions = tuple(
        (topic.id, number, each.leader, each.leader_epoch, each.partition_epoch, each.isr, each.elr, each.replicas)
        for topic in image.topics.values()
        for number, each in topic.partitions.items()
    )
    brokers = tuple((each.id, each.epoch, each.fenced) for each in image.brokers.values())
    return hash((frozenset(partitions), frozenset(brokers)))
