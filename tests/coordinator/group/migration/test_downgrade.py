"""When the last consumer goes, those who stay are a classic group again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.coordinator.group.consumer.given import SETTINGS, Consumer, image_of
from tests.coordinator.group.migration.given import (
    FIRST_MS,
    NONE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicMember,
    Coordinator,
    code_of,
    subscription,
)

from ottla.coordinator.group.classic.embedded_protocol import read_assignment
from ottla.coordinator.group.classic.group import State
from ottla.coordinator.group.classic.requests import Protocol
from ottla.coordinator.group.events import Cause, RebalanceStarted
from ottla.coordinator.group.migration.policy import Policy
from ottla.model.errors import ErrorCode

REBALANCING = ErrorCode.rebalance_in_progress
FOUR = image_of(t=4)


def mixed(coordinator: Coordinator, instance_id: str | None = None) -> tuple[Consumer, ClassicMember]:
    """A consumer and a classic member, each with its half of four partitions."""
    consumer = Consumer(coordinator, "consumer", instance_id=instance_id)
    classic = ClassicMember(coordinator, "classic" if instance_id else None)
    classic.enter()
    coordinator.advance(1000)  # between two assignments
    consumer.beat()
    consumer.beat()
    while classic.heartbeat() is REBALANCING:
        classic.join()
        classic.sync()
    consumer.beat()
    assert (len(consumer.owned["t"]), len(classic.owned["t"])) == (2, 2)
    assert consumer.epoch == classic.generation
    return consumer, classic


def leaves(coordinator: Coordinator, consumer: Consumer) -> None:
    coordinator.leave(consumer.id)


def is_missed(coordinator: Coordinator, consumer: Consumer) -> None:
    classic = next(member_id for member_id in coordinator.group.members if member_id != consumer.id)
    for _ in range(SETTINGS.session_timeout_ms // 5000):
        coordinator.advance(5000)
        if coordinator.groups.has("group"):
            coordinator.run(coordinator.requests.heartbeat("group", classic, None, consumer.epoch))


@pytest.mark.parametrize("goes", [leaves, is_missed])
def test_the_last_consumer_goes(goes: Callable[[Coordinator, Consumer], None]) -> None:
    coordinator = Coordinator(image=FOUR)
    consumer, classic = mixed(coordinator)
    epoch, before, owned = coordinator.group.epoch, len(coordinator.log), classic.owned

    goes(coordinator, consumer)

    assert coordinator.is_classic()
    assert coordinator.kinds(before) == [-8, -8, -7, -7, -6, -5, -5, -4, -3, 2]
    group = coordinator.classic_group
    assert (group.state, group.generation, group.protocol) == (State.PREPARING_REBALANCE, epoch, "range")
    assert read_assignment(group.members[classic.id].assignment).places == {"t": tuple(owned["t"])}
    assert coordinator.noted(RebalanceStarted)[-1].cause is Cause.PROTOCOL_CHANGED
    assert classic.heartbeat() is REBALANCING
    (told,) = classic.say_join()
    assert (told.error, told.leader, told.generation) == (NONE, classic.id, epoch + 1)


def test_it_is_the_same_after_a_restart() -> None:
    coordinator = Coordinator(image=FOUR)
    consumer, classic = mixed(coordinator)
    coordinator.leave(consumer.id)

    coordinator.restart()

    group = coordinator.classic_group
    assert group.state is State.STABLE and list(group.members) == [classic.id]
    assert classic.heartbeat() is NONE


@pytest.mark.parametrize("policy", [Policy.UPGRADE, Policy.DISABLED])
def test_a_policy_that_does_not_allow_it(policy: Policy) -> None:
    coordinator = Coordinator(policy, image=FOUR)
    consumer, classic = mixed(coordinator)

    coordinator.leave(consumer.id)

    assert not coordinator.is_classic()
    coordinator.advance(1000)
    assert classic.heartbeat() is NONE  # nobody has computed a new target yet
    classic.join()
    assert classic.sync().error is NONE and classic.owned == {"t": [0, 1, 2, 3]}


def test_a_group_that_is_too_large_for_a_classic_one() -> None:
    coordinator = Coordinator(max_classic_size=1, image=FOUR)
    consumer, classic = mixed(coordinator)
    second = ClassicMember(coordinator)
    second.enter()

    coordinator.leave(consumer.id)
    assert not coordinator.is_classic()

    second.leave()
    assert coordinator.is_classic() and list(coordinator.classic_group.members) == [classic.id]


def test_a_group_without_members_stays_what_it_is_until_someone_comes() -> None:
    coordinator = Coordinator()
    consumer = Consumer(coordinator, "consumer")
    coordinator.leave(consumer.id)
    assert not coordinator.is_classic()
    member = ClassicMember(coordinator)
    member.id = "someone"
    assert member.join().error is ErrorCode.unknown_member_id and not coordinator.is_classic()
    assert member.say_sync()[0].error is ErrorCode.unknown_member_id
    assert code_of(member.heartbeat)[0] is ErrorCode.unknown_member_id
    before = len(coordinator.log)

    member.id = ""
    assert member.join().error is ErrorCode.member_id_required

    assert coordinator.is_classic()
    assert coordinator.kinds(before) == [-6, -4, -3, 2]


def test_what_is_not_stored_has_not_been() -> None:
    coordinator = Coordinator(image=FOUR)
    consumer, classic = mixed(coordinator)
    coordinator.holds = True
    coordinator.leave(consumer.id)
    assert coordinator.is_classic()

    coordinator.fail()
    coordinator.holds = False

    assert not coordinator.is_classic()
    consumer.beat()
    assert classic.heartbeat() is NONE
    coordinator.advance(SESSION_MS)
    assert list(coordinator.group.members) == [consumer.id]


class TestAStaticMember:
    def test_comes_back_as_a_classic_one_and_the_rest_goes_on(self) -> None:
        coordinator = Coordinator(image=FOUR)
        consumer, classic = mixed(coordinator, "one")
        epoch, share = coordinator.group.epoch, consumer.owned
        back = ClassicMember(coordinator, "one")

        told = back.join()

        assert (told.error, told.generation, told.leader) == (NONE, epoch, "")
        assert coordinator.is_classic() and coordinator.classic_group.state is State.STABLE
        assert set(coordinator.classic_group.members) == {classic.id, back.id}
        assert back.sync().error is NONE and back.owned == share
        assert classic.heartbeat() is NONE

    def test_shares_anew_if_someone_has_yet_to_give_something_up(self) -> None:
        coordinator = Coordinator(image=FOUR)
        consumer, classic = mixed(coordinator, "one")
        third = Consumer(coordinator, "third")
        coordinator.leave(third.id)
        coordinator.advance(1000)
        consumer.beat()
        back = ClassicMember(coordinator, "one")

        assert back.join().error is NONE

        assert coordinator.is_classic() and coordinator.classic_group.state is State.PREPARING_REBALANCE
        assert classic.heartbeat() in (REBALANCING, ErrorCode.illegal_generation)

    def test_is_one_of_several_consumers(self) -> None:
        coordinator = Coordinator(image=FOUR)
        mixed(coordinator, "one")
        Consumer(coordinator, "other")

        back = ClassicMember(coordinator, "one")
        assert back.join().error is NONE

        assert not coordinator.is_classic()


def test_a_member_that_does_not_come_back_in_time() -> None:
    coordinator = Coordinator(image=FOUR)
    consumer, classic = mixed(coordinator)
    coordinator.leave(consumer.id)

    for _ in range(REBALANCE_MS // 5000):
        coordinator.advance(5000)
        if coordinator.classic_group.members:
            classic.heartbeat()

    assert coordinator.classic_group.is_empty


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"\xff\xff", b"\x00\x01?"])
def test_subscriptions_that_cannot_be_read_keep_nobody_in_the_group(garbage: bytes) -> None:
    """As a classic group's members brought them: an upgrade reads only those of the protocol in use."""
    coordinator = Coordinator(image=FOUR)
    first, second, third = (ClassicMember(coordinator) for _ in range(3))
    good = Protocol("range", subscription(["t"]))
    spoken = {first: (Protocol("x", garbage), good), second: (good, Protocol("x", garbage))}
    spoken[third] = spoken[second]
    waiting = []
    for member, protocols in spoken.items():
        member.take(member.say_join(protocols=protocols)[0])
        waiting.append(member.say_join(protocols=protocols))
    coordinator.advance(FIRST_MS)
    for member, (told,) in zip(spoken, waiting, strict=True):
        member.take(told)
    assert coordinator.classic_group.protocol == "range"
    second.say_sync()
    third.say_sync()
    first.sync({first.id: {"t": [0]}, second.id: {"t": [1, 2]}, third.id: {"t": [3]}})
    coordinator.join("consumer", instance_id="new")
    second.leave()
    third.leave()  # so that the one that is left likes `x` best

    coordinator.leave("consumer", "new")

    assert coordinator.is_classic() and coordinator.classic_group.protocol == "x"
    assert read_assignment(coordinator.classic_group.members[first.id].assignment).places == {"t": (0,)}
