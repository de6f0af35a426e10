"""What a classic member is told in a consumer group: each request, each way to get it wrong."""

from __future__ import annotations

from typing import Any

import pytest
from tests.coordinator.group.consumer.given import Consumer, image_of
from tests.coordinator.group.migration.given import (
    NONE,
    REBALANCE_MS,
    SESSION_MS,
    ClassicMember,
    Coordinator,
    code_of,
    subscription,
)

from ottla.coordinator.group.classic.embedded_protocol import write_assignment
from ottla.coordinator.group.classic.requests import Leaving, Protocol
from ottla.coordinator.group.events import EpochBumped, MemberLeft
from ottla.model.errors import ErrorCode

REBALANCING = ErrorCode.rebalance_in_progress
INCONSISTENT = ErrorCode.inconsistent_group_protocol
UNKNOWN = ErrorCode.unknown_member_id
FOUR = image_of(t=4)


@pytest.fixture
def coordinator() -> Coordinator:
    """With a consumer that has everything."""
    coordinator = Coordinator(image=FOUR)
    Consumer(coordinator, "consumer")
    coordinator.advance(1000)  # the next assignment may come
    return coordinator


@pytest.fixture
def member(coordinator: Coordinator) -> ClassicMember:
    member = ClassicMember(coordinator)
    member.enter()
    return member


class TestJoining:
    def test_a_new_member_is_given_an_id_first(self, coordinator: Coordinator) -> None:
        before = len(coordinator.log)
        (told,) = ClassicMember(coordinator).say_join()

        assert told.error is ErrorCode.member_id_required and told.member_id
        assert told.member_id not in coordinator.group.members and len(coordinator.log) == before

    def test_clients_of_old_and_static_members_are_not(self, coordinator: Coordinator) -> None:
        (told,) = ClassicMember(coordinator).say_join(takes_id_first=False)
        assert told.error is NONE and told.member_id in coordinator.group.members
        static = ClassicMember(coordinator, "one")
        assert static.join().error is NONE and coordinator.member(static.id).instance_id == "one"

    def test_the_answer_names_no_leader_and_no_members(self, member: ClassicMember) -> None:
        told = member.join()

        assert (told.leader, told.members, told.protocol_type, told.protocol_name) == ("", (), "consumer", "range")
        assert told.generation == member.coordinator.group.epoch

    @pytest.mark.parametrize(
        ("changed", "code", "message"),
        [
            ({"protocol_type": "connect"}, INCONSISTENT, "Member m's protocols are not supported."),
            ({"protocols": ()}, INCONSISTENT, "Member m's protocols are not supported."),
            ({"protocols": (Protocol("other", b""),)}, INCONSISTENT, "Member m's protocols are not supported."),
            ({"instance_id": "none"}, UNKNOWN, "Instance id none is unknown."),
            (
                {"protocols": (Protocol("range", b"\x00\x01?"),)},
                ErrorCode.unknown_server_error,
                "Malformed embedded consumer protocol in subscription deserialization: it ends at byte 3, too early",
            ),
            (
                {"protocols": (Protocol("range", subscription(["t"])), Protocol("x", b"\x00\x01?"))},
                INCONSISTENT,
                "The subscription that comes with the protocol x cannot be read: it ends at byte 3, too early.",
            ),
        ],
    )
    def test_errors(self, member: ClassicMember, changed: dict[str, Any], code: ErrorCode, message: str) -> None:
        assert code_of(lambda: member.say_join(member_id="m", **changed)) == (code, message)

    def test_any_protocol_will_do_if_there_is_no_classic_member(self, coordinator: Coordinator) -> None:
        member = ClassicMember(coordinator, protocol="of my own")
        member.enter()
        assert code_of(ClassicMember(coordinator).say_join)[0] is INCONSISTENT

    def test_a_group_that_is_full(self) -> None:
        coordinator = Coordinator(max_size=1)
        Consumer(coordinator, "consumer")

        assert code_of(ClassicMember(coordinator).say_join) == (
            ErrorCode.group_max_size_reached,
            "The consumer group has reached its maximum capacity of 1 members.",
        )

    def test_a_static_member_takes_the_place_of_its_former_self(self, coordinator: Coordinator) -> None:
        first, again = ClassicMember(coordinator, "one"), ClassicMember(coordinator, "one")
        first.enter()
        epoch = coordinator.group.epoch

        assert again.join().error is NONE

        assert coordinator.group.epoch == epoch and first.id not in coordinator.group.members
        for ask in (first.heartbeat, first.say_sync, first.say_join):
            assert code_of(ask)[0] is ErrorCode.fenced_instance_id

    def test_what_it_says_of_itself_is_kept(self, coordinator: Coordinator) -> None:
        member = ClassicMember(coordinator)
        member.join()
        metadata = subscription(["t"], version=3, rack="here")
        member.say_join(protocols=(Protocol("range", metadata), Protocol("other", metadata)))

        known = coordinator.member(member.id)
        assert (known.rack, sorted(known.topics), known.rebalance_timeout_ms) == ("here", ["t"], REBALANCE_MS)
        assert known.classic is not None and [p.name for p in known.classic.protocols] == ["range", "other"]

    def test_other_topics_are_a_new_epoch(self, member: ClassicMember) -> None:
        epoch = member.coordinator.group.epoch
        member.topics = ("t", "u")

        member.join()

        assert member.coordinator.group.epoch == epoch + 1


class TestSyncing:
    @pytest.mark.parametrize("version", [0, 1, 2, 3])
    def test_the_assignment_is_in_the_version_of_the_subscription(self, coordinator: Coordinator, version: int) -> None:
        member = ClassicMember(coordinator, version=version)
        member.enter()

        assert member.sync().assignment == write_assignment(version, {})

    def test_what_is_assigned_is_told_again(self, member: ClassicMember) -> None:
        first, second = member.sync(), member.sync()

        assert first == second
        assert (first.protocol_type, first.protocol_name) == ("consumer", "range")
        assert first.assignment == write_assignment(1, {})  # the consumer has yet to give up its half

    @pytest.mark.parametrize(
        ("changed", "code", "message"),
        [
            ({"member_id": "m"}, UNKNOWN, "Member m is not a member of group group."),
            ({"member_id": "consumer"}, UNKNOWN, "Member consumer does not use the classic protocol."),
            ({"instance_id": "none"}, UNKNOWN, "Instance id none is unknown."),
            (
                {"generation": 77}, ErrorCode.illegal_generation,
                "The request generation id 77 is not equal to the member epoch 3 of member ID.",
            ),
            (
                {"protocol_type": "connect"}, INCONSISTENT,
                "The protocol type connect from member ID request is not equal to the group protocol type consumer.",
            ),
            (
                {"protocol_name": "other"}, INCONSISTENT,
                "The protocol name other from member ID request is not equal to the protocol name range returned in "
                "the join response.",
            ),
        ],
    )  # fmt: skip
    def test_errors(self, member: ClassicMember, changed: dict[str, Any], code: ErrorCode, message: str) -> None:
        assert code_of(lambda: member.say_sync(**changed)) == (code, message.replace("ID", member.id))

    def test_names_that_are_not_said_are_not_compared(self, member: ClassicMember) -> None:
        told = member.sync(protocol_type=None, protocol_name=None)

        assert (told.error, told.protocol_type, told.protocol_name) == (NONE, None, None)

    def test_there_is_a_new_epoch(self, member: ClassicMember) -> None:
        member.coordinator.advance(1000)
        Consumer(member.coordinator, "other")

        message = f"A new rebalance is triggered in group group and member {member.id} should rejoin to catch up."
        assert code_of(member.say_sync) == (REBALANCING, message)

    def test_the_answer_waits_until_all_before_it_is_stored(self, member: ClassicMember) -> None:
        member.coordinator.holds = True
        told = member.say_sync()
        assert told == []
        member.coordinator.commit()
        assert len(told) == 1


class TestHeartbeats:
    def test_all_is_well(self, member: ClassicMember) -> None:
        assert member.heartbeat() is NONE  # what it waits for, others have

    @pytest.mark.parametrize(
        ("changed", "code"),
        [
            ({"member_id": "m"}, UNKNOWN),
            ({"member_id": "consumer", "generation": 2}, UNKNOWN),
            ({"instance_id": "none"}, UNKNOWN),
            ({"generation": 77}, ErrorCode.illegal_generation),
        ],
    )
    def test_errors(self, member: ClassicMember, changed: dict[str, Any], code: ErrorCode) -> None:
        assert code_of(lambda: member.heartbeat(**changed))[0] is code

    def test_it_is_to_join_again_when_others_have_released_its_partitions(self, member: ClassicMember) -> None:
        coordinator = member.coordinator
        coordinator.beat("consumer", 2, owned={"t": [0, 1, 2, 3]})
        coordinator.beat("consumer", 2, owned={"t": [0, 1]})

        assert member.heartbeat() is REBALANCING
        member.join()
        assert member.sync().error is NONE and member.owned == {"t": [2, 3]}
        assert member.heartbeat() is NONE

    def test_it_is_to_join_again_when_it_has_to_give_something_up(self, member: ClassicMember) -> None:
        self.test_it_is_to_join_again_when_others_have_released_its_partitions(member)
        coordinator = member.coordinator
        coordinator.advance(1000)
        Consumer(coordinator, "other")
        assert member.heartbeat() is REBALANCING

        told = member.join()  # it still owns both
        before = member.generation
        assert told.generation == before < coordinator.group.epoch
        assert member.sync().error is NONE and len(member.owned["t"]) == 1
        assert member.heartbeat() is REBALANCING
        assert member.join().generation == coordinator.group.epoch

    def test_who_is_told_to_join_and_does_not_is_removed(self, member: ClassicMember) -> None:
        coordinator = member.coordinator
        coordinator.advance(1000)
        other = Consumer(coordinator, "other")
        for _ in range(REBALANCE_MS // 5000):
            assert member.heartbeat() is REBALANCING
            other.beat()
            coordinator.advance(5000)

        assert member.id not in coordinator.group.members

    def test_who_joins_and_does_not_ask_for_its_assignment_is_removed(self, coordinator: Coordinator) -> None:
        member = ClassicMember(coordinator)
        member.join()
        member.join()
        for _ in range(REBALANCE_MS // 5000):
            assert member.id in coordinator.group.members
            member.heartbeat()
            coordinator.beat("consumer", coordinator.member("consumer").epoch)
            coordinator.advance(5000)

        assert member.id not in coordinator.group.members

    def test_who_is_silent_is_removed(self, member: ClassicMember) -> None:
        member.coordinator.advance(SESSION_MS - 1)
        assert member.heartbeat() is NONE
        member.coordinator.advance(SESSION_MS)
        assert member.id not in member.coordinator.group.members


class TestLeaving:
    def test_several_at_once_are_one_new_epoch(self, coordinator: Coordinator) -> None:
        members = [ClassicMember(coordinator), ClassicMember(coordinator, "one")]
        for member in members:
            member.enter()
        Consumer(coordinator, "other")
        epoch = coordinator.group.epoch
        leaving = [
            Leaving(members[0].id, None, "done"), Leaving("", "one"), Leaving("stranger"), Leaving("", "none"),
            Leaving("not it", "one"),
        ]  # fmt: skip

        told = coordinator.run(coordinator.requests.leave("group", leaving))

        assert told.errors == [NONE, NONE, UNKNOWN, UNKNOWN, ErrorCode.fenced_instance_id]
        assert coordinator.group.epoch == epoch + 1
        assert coordinator.noted(EpochBumped)[-1].member_ids == tuple(member.id for member in members)
        assert [event.by_administrator for event in coordinator.noted(MemberLeft)] == [False, True]

    def test_nobody_goes(self, coordinator: Coordinator) -> None:
        before = len(coordinator.log)
        told = coordinator.run(coordinator.requests.leave("group", [Leaving("stranger")]))
        assert told.errors == [UNKNOWN] and len(coordinator.log) == before

    def test_a_consumer_can_be_removed_so(self, coordinator: Coordinator) -> None:
        Consumer(coordinator, "other", instance_id="one")

        told = coordinator.run(coordinator.requests.leave("group", [Leaving("", "one")]))

        assert told.errors == [NONE] and set(coordinator.group.members) == {"consumer"}
