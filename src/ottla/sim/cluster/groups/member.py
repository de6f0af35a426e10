"""What members of both protocols do: read what they own from where the group was, and commit how far they are."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import Final

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.consumer import Consumer, Place
from ottla.sim.cluster.groups.coordinator import Coordinator
from ottla.sim.cluster.groups.ownership import Ownership
from ottla.sim.cluster.groups.register import OffsetRegister
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import KnownTopic, NoAnswer

SESSION_S: Final = 6.0
REBALANCE_S: Final = 30.0
"""Far longer: who does not give back in time has been silent for a session first."""
HEARTBEAT_S: Final = 1.0


class GroupState:
    """What all members of a group, and those who judge it, know of it."""

    def __init__(self, cast: Cast, group: str, topics: Collection[KnownTopic], offsets: PartitionId) -> None:
        self.cast = cast
        self.group = group
        self.topics = topics
        self.names = {
            PartitionId(topic.id, number): topic.name for topic in topics for number in range(topic.partitions)
        }
        self.ownership = Ownership(cast.oracle, group, offsets, SESSION_S)
        self.registers: Mapping[PartitionId, OffsetRegister] = {
            key: OffsetRegister(cast.oracle, f"{cast.oracle.name(key)} by {group}", offsets) for key in self.names
        }

    def is_done(self) -> bool:
        """Everything there is has been read, and that is committed."""
        for key, register in self.registers.items():
            leader = self.cast.leader(key)
            if leader is None or register.kept != leader.log.end_offset:
                return False
        return True


class Member:
    """A subclass joins, and says what it is given: `_go_on` is one step of its life with the coordinator."""

    def __init__(self, state: GroupState, name: str) -> None:
        self.state = state
        self.client = state.cast.client(name)
        self.coordinator = Coordinator(self.client, state.group)
        self.member_id = ""
        self.generation = -1
        self._given: set[PartitionId] = set()
        """What it owns by the coordinator's word; it reads only where it has found out from where on."""
        self._consumer = Consumer(self.client, max_wait_s=0.2, max_bytes=1 << 16)
        self._hurries = False

    def hurry(self) -> None:
        """From now on it does nothing beside: small segments are many polls, and how soon they end is the cluster's."""
        self._hurries = True

    @property
    def owned(self) -> set[PartitionId]:
        return set(self._consumer.places)

    async def run(self) -> None:
        client = self.client
        while not client.stopping:
            try:
                if await self._go_on():
                    await self._read_and_commit()
            except NoAnswer:
                await client.refresh()
                await client.pause(0.05, 0.3)
        try:
            await self._leave()
        except NoAnswer:
            return

    async def _go_on(self) -> bool:
        """Joins, or says that it is there. False if it has to be tried again."""
        raise NotImplementedError

    async def _leave(self) -> None:
        raise NotImplementedError

    async def _work_for_long(self) -> None:
        """Nobody hears of it meanwhile: it may commit what is no longer its own."""
        await asyncio.sleep(self.client.random.choice((1.0, 4.0, SESSION_S + 3.0)))

    # -- what it owns

    def _is_given(self, partitions: Collection[PartitionId]) -> None:
        """By the answer that has just come: from then on they are its own, however late it begins to read."""
        for key in partitions:
            if key not in self._given:
                self.state.ownership.takes(self.member_id, key)
        self._given.update(partitions)

    async def _begin_to_read(self) -> bool:
        """Goes on where the group was. False if that cannot be found out now."""
        new = [key for key in self.state.names if key in self._given and key not in self._consumer.places]
        if not new:
            return True
        found = await self.coordinator.committed(new, self.state.names, self.member_id, self.generation)
        if found is None:
            return False
        for key, offset in found.items():
            if self.state.ownership.others(self.member_id, key) is None:
                self.state.registers[key].finds(offset, self.client.name)
            # Nobody knows how long ago it was committed, and what was lost since.
            self._consumer.places[key] = Place(self.state.names[key], key, max(offset, 0), since=0.0)
        return True

    def _give_back(self, partitions: Collection[PartitionId]) -> None:
        for key in list(partitions):
            self.state.ownership.releases(self.member_id, key)
            self._consumer.places.pop(key, None)
            self._given.discard(key)

    async def _read_and_commit(self) -> None:
        consumer, client = self._consumer, self.client
        if not consumer.places:
            await client.pause(0.1, 0.4)
            return
        await consumer.poll()
        if not self._hurries:
            await client.pause(0.0, 0.4)
            if client.random.random() < 0.01:
                await self._work_for_long()
        registers = self.state.registers
        offsets = {
            key: place.position for key, place in consumer.places.items() if place.position != registers[key].kept
        }
        if not offsets:
            return
        since = client.oracle.now()
        rivals = {key: self.state.ownership.others(self.member_id, key) for key in offsets}
        for key, offset in offsets.items():
            registers[key].asks(offset)
        codes = await self.coordinator.commit(offsets, self.state.names, self.member_id, self.generation)
        for key, code in codes.items():
            if code is ErrorCode.none:
                registers[key].acknowledged(offsets[key], since)
                self._check_rival(key, rivals[key], since)

    def _check_rival(self, key: PartitionId, rival: str | None, since: float) -> None:
        """A member that was given up, and does not know it yet, must not commit over the one that came after it."""
        oracle = self.client.oracle
        if rival is not None and not oracle.is_excused(self.state.ownership.offsets, since - SESSION_S):
            oracle.complain(
                f"{self.member_id} of {self.state.group} committed {oracle.name(key)} at {since:.3f} s, although "
                f"{rival} owned it already"
            )
