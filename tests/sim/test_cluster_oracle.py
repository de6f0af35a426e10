"""The oracle of a simulated cluster: what it takes for a promise, what it excuses, and what it complains of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from ottla.metadata.controller.features import ELR_VERSION
from ottla.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.log_files import PartitionId

TOPIC = UUID(int=7)
KEY = PartitionId(TOPIC, 0)
FIRST = PartitionImage((1, 2, 3), (TOPIC,) * 3, (1, 2, 3), 1, 0, 0)


class Told:
    """An oracle, and the metadata that it is told of."""

    def __init__(self) -> None:
        self.now = 1.0
        self.oracle = Oracle(lambda: self.now)
        self._offset = 0
        self.brokers: dict[int, BrokerImage] = {}
        self.features: dict[str, int] = {}
        self.oracle.watch(KEY, "t-0")
        self.partition = FIRST
        self.publish()

    def publish(self, node: int = 1, **changes: object) -> None:
        self._offset += 1
        self.partition = replace(self.partition, **changes)  # type: ignore[arg-type]
        self.oracle.published(node, self.image())

    def image(self) -> MetadataImage:
        topic = TopicImage(TOPIC, "t", {0: self.partition})
        return MetadataImage(offset=self._offset, topics={TOPIC: topic}, brokers=self.brokers, features=self.features)

    def acked(self, offset: int, value: bytes = b"a", since: float = 1.0) -> None:
        self.oracle.acknowledges(KEY, offset, (value,), "p", -1, since)

    def read(self, offset: int, value: bytes) -> None:
        self.oracle.commits(KEY, offset, (value,), "c", self.now)


def test_what_was_acknowledged_is_what_is_read() -> None:
    told = Told()
    told.acked(0, b"a")
    told.read(0, b"a")
    assert told.oracle.violations == []
    told.read(0, b"b")
    assert "c has b at 0 of t-0, where p had a" in told.oracle.violations[0]


ALL_IN_SYNC = {"isr": (1, 2, 3)}
TWO_IN_SYNC = {"isr": (1, 2)}


@pytest.mark.parametrize(
    ("steps", "excused"),
    [
        pytest.param([{1: 0}], False, id="one of three"),
        pytest.param([{1: 0, 2: 0, 3: 0}], True, id="all"),
        pytest.param([{1: 0, 2: 0, 3: 1}], False, id="all, but one of them had it on disk"),
        pytest.param([TWO_IN_SYNC, {1: 0, 2: 0}], True, id="all in sync"),
        pytest.param([{1: 0, 2: 0}, TWO_IN_SYNC], True, id="the third was out of sync already"),
        pytest.param([{"isr": (), "elr": (1, 2)}, {1: 0}], False, id="an eligible one has it"),
        pytest.param(
            [{1: 0}, {"isr": (2, 3)}, ALL_IN_SYNC, {2: 0, 3: 0}], False, id="one was in sync again before the others"
        ),
        pytest.param([{1: 0}, {"isr": (2, 3)}, {2: 0, 3: 0}], True, id="one was not in sync again"),
    ],
)
def test_only_the_loss_of_all_unsynced_ends_excuses(steps: list[dict[Any, Any]], excused: bool) -> None:
    """A step is either where the logs of nodes end after a loss of power, or a change of metadata."""
    told = Told()
    told.acked(0)
    for step in steps:
        if "isr" in step:
            told.publish(**step)
        else:
            lose(told, step)
    told.read(0, b"other")
    assert (told.oracle.violations == []) == excused


def lose(told: Told, ends: dict[int, int]) -> None:
    for node, end in ends.items():
        told.oracle.lost_power(node, {KEY: end})


def test_an_answer_that_was_under_way_when_all_was_lost_proves_nothing() -> None:
    told = Told()
    told.now = 2.0
    lose(told, {1: 0, 2: 0, 3: 0})
    told.now = 3.0
    told.acked(0, b"a", since=1.5)
    told.acked(0, b"b", since=2.5)
    told.acked(0, b"a", since=1.5)
    assert told.oracle.violations == []
    told.acked(0, b"c", since=2.6)
    assert len(told.oracle.violations) == 1


def test_one_leader_an_epoch() -> None:
    told = Told()
    told.oracle.leads(KEY, 0, 1, 1, 5)
    told.publish(leader=2, leader_epoch=1)
    told.oracle.leads(KEY, 0, 1, 1, 5)  # a stale one, who was it in that epoch
    assert told.oracle.violations == []
    told.oracle.leads(KEY, 1, 3, 1, 5)
    assert "but 2 does" in told.oracle.violations[0]


def test_the_high_watermark_of_a_leader_never_goes_back_but_the_next_may_be_behind() -> None:
    told = Told()
    told.oracle.leads(KEY, 0, 1, 1, 5)
    told.oracle.leads(KEY, 0, 1, 2, 4)  # another life
    told.publish(leader=2, leader_epoch=1)
    told.oracle.leads(KEY, 1, 2, 1, 3)
    assert told.oracle.violations == []
    told.oracle.leads(KEY, 1, 2, 1, 2)
    assert "went from 3 to 2" in told.oracle.violations[0]


def test_metadata_is_the_same_for_all_and_epochs_only_grow() -> None:
    told = Told()
    told.publish(leader=2, leader_epoch=1)
    told.oracle.published(2, told.image())
    assert told.oracle.violations == []
    told.partition = replace(told.partition, isr=(2,))
    told.oracle.published(3, told.image())
    assert "node 3 has other metadata" in told.oracle.violations[0]
    told.publish(leader_epoch=0, leader=1)
    assert "the epoch of t-0 went from 1 to 0" in told.oracle.violations[1]


@pytest.mark.parametrize("fenced", [False, True])
def test_nobody_is_taken_into_the_isr_who_is_fenced(fenced: bool) -> None:
    told = Told()
    told.publish(isr=(1, 2), partition_epoch=1)
    told.brokers = {3: BrokerImage(3, 7, TOPIC, (), {}, None, fenced, False, ())}
    told.publish(isr=(1, 2, 3), partition_epoch=2)

    assert (told.oracle.violations != []) == fenced


@pytest.mark.parametrize(("disk", "needs_help"), [(TOPIC, False), (UUID(int=8), True)])
def test_a_last_leader_whose_disk_is_a_new_one_needs_help(disk: UUID, needs_help: bool) -> None:
    """Though the partition is younger than the disk: he was given it as the one that he had been."""
    told = Told()
    told.brokers = {
        1: BrokerImage(1, 7, TOPIC, (), {}, None, fenced=False, in_controlled_shutdown=False, directories=(disk,))
    }
    told.publish(isr=(), leader=-1, last_known_elr=(1,), partition_epoch=1)

    assert told.oracle.needs_help(told.oracle.partitions[KEY]) == needs_help


def test_whoever_looks_closer_is_told_of_each_change_of_an_isr() -> None:
    told, seen = Told(), []
    told.oracle.on_isr = lambda story: seen.append((story.isr, story.elr))
    told.publish(isr=(1,), elr=(2,), partition_epoch=1)
    told.publish(partition_epoch=2)

    assert seen == [((1,), (2,))]


def trusted_blindly() -> Told:
    """Node 1, which alone was in sync, has lost all but the first record of four, leads again, and has six by now.
    Node 2 has followed it, and eligible replicas are kept account of from now on."""
    told = Told()
    told.publish(isr=(1,))
    for offset in range(4):
        told.acked(offset)
    told.oracle.lost_power(1, {KEY: 1}, {KEY: 4})
    told.publish(leader=-1, leader_epoch=1)
    told.publish(leader=1, leader_epoch=2)
    told.now = 2.0
    for offset in range(1, 6):
        told.acked(offset, b"b", since=2.0)
    told.publish(isr=(1, 2), partition_epoch=1)
    told.features = {ELR_VERSION: 1}
    assert told.oracle.violations == []
    return told


def test_what_a_leader_lost_that_was_trusted_blindly_excuses_no_later_loss_of_another() -> None:
    told = trusted_blindly()
    told.oracle.lost_power(2, {KEY: 3}, {KEY: 6})
    told.publish(isr=(1,), elr=(2,), partition_epoch=2)
    told.read(4, b"other")

    assert "c has other at 4 of t-0, where p had b" in told.oracle.violations[0]


def test_what_the_last_leader_lost_is_excused_whoever_was_trusted_blindly_before() -> None:
    told = trusted_blindly()
    told.oracle.lost_power(2, {KEY: 5}, {KEY: 6})
    told.publish(leader=2, leader_epoch=3, isr=(2,), elr=(1,))
    told.publish(leader=-1, leader_epoch=4, isr=(), last_known_elr=(2,))
    told.publish(leader=2, leader_epoch=5, isr=(2,), elr=(), last_known_elr=())
    told.read(5, b"other")

    assert told.oracle.violations == []
    told.read(4, b"other")
    assert "c has other at 4 of t-0, where p had b" in told.oracle.violations[0]


def test_who_loses_something_twice_bounds_what_is_committed_by_what_it_had_at_first() -> None:
    told = Told()
    for offset in range(4):
        told.acked(offset)
    for node, end in {1: 1, 2: 2, 3: 3}.items():
        told.oracle.lost_power(node, {KEY: end}, {KEY: 4})
    told.oracle.lost_power(1, {KEY: 0}, {KEY: 1})
    told.publish(leader=-1, leader_epoch=1, isr=(), elr=(1,), last_known_elr=(2,))
    told.publish(leader=2, leader_epoch=2, isr=(2,), elr=(), last_known_elr=())
    told.read(2, b"other")

    assert told.oracle.violations == []
    told.read(1, b"other")
    assert "c has other at 1 of t-0, where p had" in told.oracle.violations[0]
