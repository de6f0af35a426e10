"""Looks into the nodes of a running cluster again and again, and tells the oracle what it sees."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.broker.node import Node
from ottla.replica.partition import Partition
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle, PartitionStory
from ottla.sim.journal import Place
from ottla.sim.log_files import LogCursor, PartitionId

_EVERY_S = 0.2


class Inspector:
    def __init__(self, members: Sequence[Member], oracle: Oracle) -> None:
        self._members = members
        self._oracle = oracle
        self._seen: dict[tuple[int, int, PartitionId], tuple[int, LogCursor]] = {}
        """By node, life and partition: up to where its committed records were looked at."""

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

    def _look_at(self, member: Member, node: Node) -> None:
        if member.is_controller and node.raft.is_leader:
            self._oracle.leads_quorum(node.raft.epoch, member.id)
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
            oracle.gives_up(story.id, member.id, partition.log.start_offset, partition.log.size)
        role = "leads" if partition.is_leader else "follows"
        if high_watermark > end and not partition.is_being_cut:
            oracle.complain(f"node {member.id} {role} {story.name} with a high watermark of {high_watermark} of {end}")
        if partition.is_leader:
            oracle.leads(story.id, partition.leader_epoch, member.id, member.life, high_watermark)
            if partition.leader_epoch == story.leader_epoch:
                self._look_at_isr(partition, story)
        elif not self._is_in_sync(member, partition, story):
            return  # what it had before it lost its place may be gone elsewhere
        place = member.id, member.life, story.id
        seen, cursor = self._seen.get(place, (0, None))
        if cursor is None:
            cursor = LogCursor(partition.log.folder, gaps=story.cleanup.compact)
        if high_watermark > seen:
            who = f"node {member.id}, which {role} in epoch {partition.leader_epoch},"
            for batch in cursor.read(member.disk, max(seen, partition.log.start_offset), high_watermark):
                for offset, record in zip(batch.offsets, batch.records, strict=True):
                    keys, timestamp = (record.key,), record.timestamp
                    oracle.commits(story.id, offset, (record.value,), who, keys=keys, timestamp=timestamp)
            self._seen[place] = high_watermark, cursor

    def _is_in_sync(self, member: Member, partition: Partition, story: PartitionStory) -> bool:
        is_current = partition.leader_epoch == story.leader_epoch
        return is_current and member.id in story.isr and member.id not in story.ends

    def _look_at_isr(self, leader: Partition, story: PartitionStory) -> None:
        """Whoever is in sync has all that is committed."""
        for member in self._members:
            if member.id in story.isr and member.id not in story.ends and member.node is not None:
                replica = member.node.replicas.by_id.get(story.id) if not member.is_starting else None
                if replica is not None and replica.log.end_offset < leader.high_watermark:
                    self._oracle.complain(
                        f"node {member.id} is in the ISR of {story.name} with {replica.log.end_offset} of "
                        f"{leader.high_watermark} committed",
                        Place(story.id, replica.log.end_offset),
                    )
