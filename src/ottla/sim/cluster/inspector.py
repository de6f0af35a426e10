"""Looks into the nodes of a running cluster again and again, and tells the oracle what it sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.broker.node import Node
from ottla.log.paths import CLEANED_SUFFIX, SWAP_SUFFIX
from ottla.raft import quorum_state
from ottla.raft.metadata_log import METADATA_PARTITION
from ottla.replica.partition import Partition
from ottla.sim.cluster.cleaned import cleaned_too_much
from ottla.sim.cluster.member import Member, replicas_of
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.journal import Place
from ottla.sim.log_files import LogCursor, PartitionId, read_folder

_EVERY_S = 0.2
_QUORUM_STATE: Final = f"{METADATA_PARTITION}/{quorum_state.FILE_NAME}"


class Inspector:
    def __init__(self, members: Sequence[Member], oracle: Oracle) -> None:
        self._members = members
        self._oracle = oracle
        self._seen: dict[tuple[int, int, PartitionId], tuple[int, LogCursor]] = {}
        """By node, life and partition: up to where its committed records were looked at."""
        oracle.on_isr = self._isr_changed
        for member in members:
            member.on_metadata = partial(self._has_metadata, member)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            self.look()

    def look(self) -> None:
        clocks = [member.host.clock.now_ms() for member in self._members]
        self._oracle.latest_ms = max(self._oracle.latest_ms, *clocks)
        for member in self._members:
            if member.node is not None and not member.is_starting:
                self._look_at(member, member.node)
        for member in self._members:
            if not member.is_starting:
                member.remember_sizes()

    def _look_at(self, member: Member, node: Node) -> None:
        if member.is_controller and node.raft.is_leader:
            self._oracle.leads_quorum(node.raft.epoch, member.id)
        if member.is_controller:
            self._look_at_vote(member, node)
        if not member.is_broker:
            return
        for key, story in list(self._oracle.partitions.items()):
            partition = node.replicas.by_id.get(key)
            if partition is not None:
                self._look_at_partition(member, partition, story)

    def _look_at_partition(self, member: Member, partition: Partition, story: PartitionStory) -> None:
        oracle, high_watermark = self._oracle, partition.high_watermark
        end = partition.log.end_offset
        oracle.has_log(story.id, member.id, end)
        if partition.log.start_offset > story.given_up:
            oracle.gives_up(story.id, member.id, partition.log.start_offset, self._largest(story))
        role = "leads" if partition.is_leader else "follows"
        if high_watermark > end and not partition.is_being_cut:
            oracle.complain(f"node {member.id} {role} {story.name} with a high watermark of {high_watermark} of {end}")
        if partition.is_leader:
            oracle.leads(story.id, partition.leader_epoch, member.id, member.life, high_watermark)
            if high_watermark < partition.log.start_offset:
                oracle.complain(
                    f"node {member.id} leads {story.name} from {partition.log.start_offset} on, but committed is only "
                    f"what lies below {high_watermark}"
                )
            self._look_at_isr(partition, story)
            if story.cleanup.compact:
                self._look_at_cleaned(member, partition, story)
        else:
            self._look_at_mark(member, partition, story)
        if not partition.is_leader and not self._is_in_sync(member, partition, story):
            return  # what it had before it lost its place may be gone elsewhere
        place = member.id, member.life, story.id
        seen, cursor = self._seen.get(place, (0, None))
        if cursor is None:
            cursor = LogCursor(partition.log.folder, gaps=story.cleanup.compact)
        if high_watermark > seen:
            who = f"node {member.id}, which {role} in epoch {partition.leader_epoch},"
            for batch in cursor.read(member.disk, max(seen, partition.log.local_start_offset), high_watermark):
                for offset, record in zip(batch.offsets, batch.records, strict=True):
                    keys, timestamp = (record.key,), record.timestamp
                    oracle.commits(story.id, offset, (record.value,), who, keys=keys, timestamp=timestamp)
            self._seen[place] = high_watermark, cursor

    def _is_in_sync(self, member: Member, partition: Partition, story: PartitionStory) -> bool:
        is_current = partition.leader_epoch == story.leader_epoch
        return is_current and member.id in story.isr and member.id not in story.ends

    def _largest(self, story: PartitionStory) -> int:
        """Bytes of the partition: who follows takes over where the leader's log starts, with less of the end, and the
        leader may have died meanwhile, or been cut."""
        here = max(member.log_size(story.id) for member in self._members if member.is_broker)
        return here + self._oracle.size_in_store(story.id)

    def _isr_changed(self, story: PartitionStory) -> None:
        """The moment in which it matters most that whoever may lead has everything."""
        if (leader := self._leader(story)) is not None:
            self._look_at_isr(leader, story)

    def _has_metadata(self, member: Member, node: Node) -> None:
        """Soon after a start: what it takes for committed before any leader has told it."""
        replicas = replicas_of(node)
        if replicas is None:
            return
        for key, story in self._oracle.partitions.items():
            partition = replicas.by_id.get(key)
            if partition is not None and not partition.is_leader:
                self._look_at_mark(member, partition, story)

    def _leader(self, story: PartitionStory) -> Partition | None:
        for member in self._members:
            if member.id == story.leader and member.node is not None and not member.is_starting:
                partition = member.node.replicas.by_id.get(story.id)
                if partition is not None and partition.is_leader and partition.leader_epoch == story.leader_epoch:
                    return partition
        return None

    def _look_at_mark(self, member: Member, replica: Partition, story: PartitionStory) -> None:
        """Nothing is committed of which its leader, once it has committed something itself, knows nothing."""
        leader = self._leader(story)
        if (
            leader is None
            or not leader.offsets_are_known
            or story.excuses
            or {member.id, story.leader} & story.ends.keys()
        ):
            return
        if replica.high_watermark > leader.high_watermark:
            self._oracle.complain(
                f"node {member.id} follows {story.name} with a high watermark of {replica.high_watermark}, but its "
                f"leader {story.leader} has committed {leader.high_watermark}",
                Place(story.id, leader.high_watermark),
            )

    def _look_at_isr(self, leader: Partition, story: PartitionStory) -> None:
        """Whoever is in sync, or eligible, has all that is committed; whether it lives or not."""
        if leader.leader_epoch != story.leader_epoch or leader.leadership.partition_epoch != story.partition_epoch:
            return
        for member in self._members:
            if member.id not in (*story.isr, *story.elr) or member.id in story.ends or member.id in story.replaced:
                continue
            end = member.log_end(story.id)
            if end is not None and end < leader.high_watermark:
                which = "in the ISR" if member.id in story.isr else "eligible as leader"
                self._oracle.complain(
                    f"node {member.id} is {which} of {story.name} with {end} of {leader.high_watermark} committed",
                    Place(story.id, end),
                )

    def _look_at_cleaned(self, member: Member, leader: Partition, story: PartitionStory) -> None:
        """What is not committed replaces nothing. It is looked for where segments could be cleaned that hold such."""
        log = leader.log
        if (
            log.segments[-1].base_offset <= leader.high_watermark
            or self._seen_up_to(member, story) < leader.high_watermark
            or member.id in story.rotten
        ):
            return
        files = {path: content for path, content in member.disk.snapshot().items() if path.startswith(f"{log.folder}/")}
        if any(path.endswith((SWAP_SUFFIX, CLEANED_SUFFIX)) for path in files):
            return  # files do not tell what is there
        stored = read_folder(files, log.folder, gaps=True)
        for key, offset in cleaned_too_much(story, stored, log.start_offset, leader.high_watermark):
            self._oracle.complain(
                f"node {member.id}, which leads {story.name}, has cleaned away {key!r} at {offset}, and nothing "
                f"that is committed has replaced it; its high watermark is {leader.high_watermark}",
                Place(story.id, offset),
            )

    def _seen_up_to(self, member: Member, story: PartitionStory) -> int:
        return self._seen.get((member.id, member.life, story.id), (0, None))[0]

    def _look_at_vote(self, member: Member, node: Node) -> None:
        """Nobody may hear of an epoch, or a vote in it, that is not on disk."""
        if member.disk.failures or member.host.is_paused:
            return
        epoch, stored = node.raft.epoch, member.disk.content(f"{member.config.metadata_log_dir}/{_QUORUM_STATE}")
        on_disk = quorum_state.decode(bytes(stored)).epoch if stored else 0
        if on_disk < epoch:
            self._oracle.complain(
                f"node {member.id} is in epoch {epoch} of the quorum, but on its disk in {on_disk}: it could vote twice"
            )
