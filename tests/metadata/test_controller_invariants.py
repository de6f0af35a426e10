"""Whatever brokers do, and in whichever order, some things always hold for every partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from tests.metadata import given

from ottla.metadata.controller.partition_index import PartitionIndex
from ottla.metadata.controller.requests import (
    AlterOp,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BalanceLeaders,
    BrokerHeartbeat,
    ConfigChange,
    ElectionType,
    ElectLeaders,
    ElectUncleanLeaders,
    FenceBroker,
    IncrementalAlterConfigs,
    NewTopic,
    PartitionsOf,
    Reassignment,
    ReplicaDirectory,
    UnregisterBroker,
)
from ottla.metadata.image import NO_LEADER, ConfigResource, PartitionImage

BROKERS = (1, 2, 3, 4)
TOPICS = ("a", "b", "c", "d")  # b may have unclean leaders, c wants two in sync, d has one replica


class World:
    def __init__(self, metadata_version: int) -> None:
        image = given.cluster(*BROKERS, metadata_version=metadata_version)
        topics = (
            NewTopic("a", assignments=((0, (1, 2, 3)),)),
            NewTopic("b", assignments=((0, (2, 3)),), configs=(("unclean.leader.election.enable", "true"),)),
            NewTopic("c", assignments=((0, (3, 1, 4)),), configs=(("min.insync.replicas", "2"),)),
            NewTopic("d", assignments=((0, (2,)),)),
        )
        self.active = given.Active(given.with_topics(image, *topics))
        self.incarnations = 100
        self.ended_well: dict[int, int] = {}

    # -- what can happen

    def fence(self, broker_id: int) -> None:
        if broker := self.active.image.brokers.get(broker_id):
            self.active.submit(FenceBroker(broker_id, broker.epoch))

    def start(self, broker_id: int, *, after_a_crash: bool = True) -> None:
        self.incarnations += 1
        before = self.active.image.brokers.get(broker_id)
        previous = before.epoch if before is not None and not after_a_crash else -1
        request = given.registration(broker_id, incarnation=self.incarnations)
        self.active.reply(replace(request, previous_broker_epoch=previous))

    def start_cleanly(self, broker_id: int) -> None:
        self.start(broker_id, after_a_crash=False)

    def heartbeat(self, broker_id: int) -> None:
        """Who wants to go does not change its mind before it starts anew."""
        broker = self.active.image.brokers.get(broker_id)
        if broker is not None and not broker.in_controlled_shutdown:
            self.active.reply(BrokerHeartbeat(broker_id, broker.epoch, self.active.image.offset))

    def wants_to_go(self, broker_id: int) -> None:
        if broker := self.active.image.brokers.get(broker_id):
            offset = self.active.image.offset
            self.active.reply(BrokerHeartbeat(broker_id, broker.epoch, offset, want_shut_down=True))

    def loses_its_disk(self, broker_id: int) -> None:
        if (broker := self.active.image.brokers.get(broker_id)) is not None:
            failed, offset = broker.directories[:1], self.active.image.offset
            self.active.submit(
                BrokerHeartbeat(broker_id, broker.epoch, offset, want_fence=broker.fenced, offline_directories=failed)
            )

    def tells_of_another_directory(self, broker_id: int) -> None:
        """One that has failed by the time that it is told of."""
        self.tells_where_replicas_lie(broker_id, UUID(int=9000 + self.incarnations))

    def tells_where_replicas_lie(self, broker_id: int, where: UUID | None = None) -> None:
        if (broker := self.active.image.brokers.get(broker_id)) is not None:
            where = where or broker.directories[0]
            rows = tuple(ReplicaDirectory(topic_id, number, where) for topic_id, number in self.partitions())
            self.active.submit(AssignReplicasToDirs(broker_id, broker.epoch, rows))

    def unregister(self, broker_id: int) -> None:
        self.active.submit(UnregisterBroker(broker_id))

    def leads_and_expands(self, broker_id: int) -> None:
        """All partitions that it leads: every replica that may be in sync is."""
        self._alter(broker_id, lambda partition: partition.replicas)

    def leads_and_shrinks(self, broker_id: int) -> None:
        self._alter(broker_id, lambda partition: (partition.leader,))

    def _alter(self, broker_id: int, wanted: Callable[[PartitionImage], tuple[int, ...]]) -> None:
        image = self.active.image
        for name in TOPICS:
            partition = self.active.partition(name)
            if partition.leader == broker_id and image.brokers[broker_id].active:
                members = [one for one in wanted(partition) if one in image.brokers and image.brokers[one].active]
                self.active.submit(given.proposal(self.active, name, broker_id, members))

    def reassign(self, broker_id: int) -> None:
        others = tuple(one for one in BROKERS if one != broker_id and one in self.active.image.brokers)[:2]
        if broker_id in self.active.image.brokers:
            moves = tuple((name, (Reassignment(0, (broker_id, *others)),)) for name in TOPICS)
            self.active.submit(AlterPartitionReassignments(moves))

    def call_off(self, _: int) -> None:
        self.active.submit(AlterPartitionReassignments(tuple((name, (Reassignment(0, None),)) for name in TOPICS)))

    def elect(self, broker_id: int) -> None:
        kind = ElectionType.PREFERRED if broker_id % 2 else ElectionType.UNCLEAN
        self.active.submit(ElectLeaders(kind, tuple(PartitionsOf(name, (0,)) for name in TOPICS)))

    def balance(self, _: int) -> None:
        self.active.submit(BalanceLeaders())
        self.active.submit(ElectUncleanLeaders())

    def change_min_isr(self, broker_id: int) -> None:
        change = ConfigChange("min.insync.replicas", AlterOp.SET, str(broker_id))
        self.active.submit(IncrementalAlterConfigs(((ConfigResource(2, "c"), (change,)),)))

    def new_controller(self, _: int) -> None:
        self.active = given.Active(self.active.image)

    # -- what holds

    def partitions(self) -> dict[tuple[UUID, int], PartitionImage]:
        return {
            (topic.id, number): partition
            for topic in self.active.image.topics.values()
            for number, partition in topic.partitions.items()
        }

    def check(self, before: dict[tuple[UUID, int], PartitionImage]) -> None:
        has_elr = "eligible.leader.replicas.version" in self.active.image.features
        for key, now in self.partitions().items():
            assert now.leader == NO_LEADER or now.leader in now.isr, now
            assert set(now.isr) <= set(now.replicas), now
            assert len(set(now.isr)) == len(now.isr)
            assert len(set(now.replicas)) == len(now.replicas) == len(now.directories)
            assert not set(now.elr) & set(now.isr), now
            assert set(now.elr) <= set(now.replicas), now
            assert has_elr or (now.isr and not now.elr and not now.last_known_elr), now
            if now.leader != NO_LEADER:
                broker = self.active.image.brokers[now.leader]
                assert broker.active and broker.has_online(now.directory_of(now.leader)), now
                assert not now.last_known_elr, now
            old = before[key]
            if now != old:
                assert now.partition_epoch > old.partition_epoch
            assert now.leader_epoch >= old.leader_epoch
            if now.leader != old.leader:
                assert now.leader_epoch > old.leader_epoch, "one leader an epoch"
        index, fresh = self.active.soft.index(self.active.image), PartitionIndex(self.active.image)
        for broker_id in (*BROKERS, NO_LEADER):
            assert index.led_by[broker_id] == fresh.led_by[broker_id]
            assert list(sorted(index.in_isr[broker_id])) == list(sorted(fresh.in_isr[broker_id]))
            assert list(sorted(index.in_elr[broker_id])) == list(sorted(fresh.in_elr[broker_id]))
        for kept, found in (
            (index.leaderless, fresh.leaderless),
            (index.not_preferred, fresh.not_preferred),
            (index.reassigning, fresh.reassigning),
        ):
            assert sorted(kept) == sorted(found)


EVENTS = (
    World.fence,
    World.start,
    World.start_cleanly,
    World.heartbeat,
    World.wants_to_go,
    World.loses_its_disk,
    World.tells_of_another_directory,
    World.unregister,
    World.leads_and_expands,
    World.leads_and_shrinks,
    World.reassign,
    World.call_off,
    World.elect,
    World.balance,
    World.change_min_isr,
    World.new_controller,
)


@for_all(
    st.sampled_from((30, given.BEFORE_ELR)),
    st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(BROKERS)), max_size=30),
)
@settings(max_examples=100, deadline=None)
def test_whatever_happens(metadata_version: int, events: list[tuple[Callable[[World, int], None], int]]) -> None:
    world = World(metadata_version)
    for event, broker_id in events:
        before = world.partitions()
        event(world, broker_id)
        world.check(before)

    # All come back, with their disks: nobody is left without a leader.
    for broker_id in BROKERS:
        world.start_cleanly(broker_id)
        world.tells_where_replicas_lie(broker_id)
    for broker_id in BROKERS:
        world.heartbeat(broker_id)
    for name in TOPICS:
        assert world.active.partition(name).leader != NO_LEADER, world.active.partition(name)
