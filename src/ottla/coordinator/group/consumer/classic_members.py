"""Members of a consumer group that speak the classic protocol, while a group is on its way from one to the other.

They join, ask for their assignment, and are told when to join again, as in a classic group; but nobody leads, nobody
waits for others, and their generation is their epoch. A member that has to give up partitions joins twice: the first
answer leaves them out, the second one, when it owns them no more, brings it to the new epoch.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from ottla.coordinator.group.classic.embedded_protocol import (
    Subscription,
    Unreadable,
    read_subscription,
    version_to_answer,
    write_assignment,
)
from ottla.coordinator.group.classic.requests import (
    NO_MEMBER_ID,
    JoinAnswer,
    JoinCallback,
    JoinRequest,
    LeaveAnswer,
    Leaving,
    SyncAnswer,
    SyncCallback,
    SyncRequest,
)
from ottla.coordinator.group.classic.subscriptions import CONSUMER
from ottla.coordinator.group.consumer.core import Core
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.heartbeat import Heartbeat, updated_member
from ottla.coordinator.group.consumer.members import JOINING, ClassicMember, Member, MemberState
from ottla.coordinator.group.consumer.removal import Removal, known_member
from ottla.coordinator.group.consumer.requests import HeartbeatRequest
from ottla.coordinator.group.consumer.targets import Target
from ottla.coordinator.group.events import Cause, IdGiven, MemberLeft
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.model.errors import ErrorCode, KafkaError

_NO_PATTERN: Final = ""
_DONE: Final[Outcome[None]] = Outcome(None)


class ClassicMembers:
    def __init__(self, core: Core, removal: Removal, heartbeat: Heartbeat) -> None:
        self._core = core
        self._removal = removal
        self._heartbeat = heartbeat

    # -- JoinGroup

    def join(self, group: ConsumerGroup, request: JoinRequest, answer: JoinCallback) -> Outcome[None]:
        """Raises KafkaError with what the member is told, if it is nothing but an error."""
        member_id = request.member_id or self._core.new_id()
        self._heartbeat.check_room(group, member_id, request.client)
        if not _is_supported(group, request):
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol, f"Member {member_id}'s protocols are not supported."
            )  # fmt: skip
        if request.takes_id_first and request.member_id == NO_MEMBER_ID and request.instance_id is None:
            self._core.note(IdGiven, group, group.epoch, member_id, *request.client)
            answer(JoinAnswer(ErrorCode.member_id_required, member_id))
            return _DONE
        says = self._as_heartbeat(member_id, request)
        records: list[StoredRecord] = []
        member = self._member(group, request, says, records)
        classic = ClassicMember(request.session_timeout_ms, request.protocols)
        updated = updated_member(member, says)._replace(classic=classic)
        former = group.static_member(request.instance_id)
        if former is not None and self._core.downgrades.is_last(group, former):
            return self._join_as_last(group, member, updated, says, answer)
        reconciled = self._heartbeat.advance(group, member, updated, says, records)

        def committed() -> None:
            self._removal.has_joined(group, reconciled)
            answer(_joined(reconciled))

        return Outcome(None, records, partial(self._removal.restore, group.id, (member.id,)), committed)

    def _as_heartbeat(self, member_id: str, request: JoinRequest) -> HeartbeatRequest:
        subscription = _subscription(request)
        image = self._core.image()
        owned = ((image.topic(name), partitions) for name, partitions in subscription.owned.items())
        return HeartbeatRequest(
            request.group_id,
            member_id,
            JOINING,
            request.client,
            request.instance_id,
            subscription.rack or None,
            request.rebalance_timeout_ms,
            frozenset(subscription.topics),
            _NO_PATTERN,
            owned={topic.id: partitions for topic, partitions in owned if topic is not None},
        )

    def _member(
        self, group: ConsumerGroup, request: JoinRequest, says: HeartbeatRequest, records: list[StoredRecord]
    ) -> Member:
        instance_id = request.instance_id
        if instance_id is None:
            return group.members.get(says.member_id) or Member(says.member_id)
        if request.member_id != NO_MEMBER_ID:
            return self._removal.known_static_member(group, request.member_id, instance_id, "join")
        former = group.static_member(instance_id)
        if former is None:
            return Member(says.member_id)
        return self._heartbeat.replace(group, former, says, records)

    def _join_as_last(
        self, group: ConsumerGroup, member: Member, updated: Member, says: HeartbeatRequest, answer: JoinCallback
    ) -> Outcome[None]:
        """It takes the place of the last consumer: the group becomes a classic one with it in it.

        Members share out the partitions anew if it is out of date who is to have which; or if someone still has
        partitions that others are to have, for which Kafka does not look.
        """
        unused: list[StoredRecord] = []
        epoch, change = self._heartbeat.epoch_after(group, member, updated, says, unused)
        target = Target(group.target.now.epoch, group.target_of(updated))
        others = (known for _, known in group.members.items() if known.instance_id != updated.instance_id)
        is_stale = target.epoch < epoch or not all(other.is_reconciled_to(target.epoch) for other in others)
        if not is_stale:
            updated = self._heartbeat.reconciled(group, member, updated, target, change, says, unused)
        outcome = self._core.downgrades.replaced_by(group, updated, is_stale=is_stale)
        return Outcome(None, outcome.records, outcome.undone, lambda: answer(_joined(updated)))

    # -- SyncGroup

    def sync(self, group: ConsumerGroup, request: SyncRequest, answer: SyncCallback) -> Outcome[None]:
        member, classic = self._classic_member(group, request.member_id, request.instance_id, "sync")
        _check_generation(member, request.generation)
        protocol = classic.protocols[0]
        if request.protocol_type not in (None, CONSUMER):
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol,
                f"The protocol type {request.protocol_type} from member {member.id} request is not equal to the group "
                f"protocol type {CONSUMER}.",
            )
        if request.protocol_name not in (None, protocol.name):
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol,
                f"The protocol name {request.protocol_name} from member {member.id} request is not equal to the "
                f"protocol name {protocol.name} returned in the join response.",
            )
        if group.target.now.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
            self._removal.await_join(group, member)
            raise KafkaError(
                ErrorCode.rebalance_in_progress,
                f"A new rebalance is triggered in group {group.id} and member {member.id} should rejoin to catch up.",
            )
        image = self._core.image()
        topics = ((image.topics.get(topic_id), partitions) for topic_id, partitions in member.assigned.items())
        places = {topic.name: partitions for topic, partitions in topics if topic is not None}
        assignment = write_assignment(version_to_answer(protocol.metadata), places)

        def committed() -> None:
            self._removal.has_synced(group, member)
            answer(SyncAnswer(ErrorCode.none, request.protocol_type, request.protocol_name, assignment))

        return Outcome(None, committed=committed)

    # -- Heartbeat

    def heartbeat(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> Outcome[ErrorCode]:  # fmt: skip
        member, _ = self._classic_member(group, member_id, instance_id, "heartbeat")
        _check_generation(member, generation)
        self._removal.renew_session(group, member)
        if not self._should_join_again(group, member):
            return Outcome(ErrorCode.none)
        self._removal.await_join(group, member)
        return Outcome(ErrorCode.rebalance_in_progress)

    def _should_join_again(self, group: ConsumerGroup, member: Member) -> bool:
        """To come to the new epoch, to say what it has given up, or to get what others have given up since."""
        if member.epoch < group.target.now.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
            return True
        return member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member)

    # -- LeaveGroup

    def leave(self, group: ConsumerGroup, leaving: Sequence[Leaving]) -> Outcome[LeaveAnswer]:
        """Also of members of the consumer protocol, which an administrator can remove so."""
        errors: list[ErrorCode] = []
        gone: dict[str, Member] = {}
        for member_id, instance_id, reason in leaving:
            try:
                member = self._leaving(group, member_id, instance_id)
            except KafkaError as error:
                errors.append(error.code)
                continue
            errors.append(ErrorCode.none)
            gone[member.id] = member
            self._core.note(
                MemberLeft, group, group.epoch, member.id, member.instance_id, member.client_id, reason,
                member_id == NO_MEMBER_ID,
            )  # fmt: skip
        answer = LeaveAnswer(errors)
        if not gone:
            return Outcome(answer)
        return self._removal.remove(group, tuple(gone.values()), Cause.MEMBER_LEFT, answer)

    def _leaving(self, group: ConsumerGroup, member_id: str, instance_id: str | None) -> Member:
        if instance_id is None:
            return known_member(group, member_id)
        known = group.static_member(instance_id)
        if member_id == NO_MEMBER_ID and known is not None:
            return known
        return self._removal.known_static_member(group, member_id, instance_id, "leave")

    # -- who asks

    def _classic_member(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, operation: str
    ) -> tuple[Member, ClassicMember]:
        if instance_id is None:
            member = known_member(group, member_id)
        else:
            member = self._removal.known_static_member(group, member_id, instance_id, operation)
        if member.classic is None:
            raise KafkaError(ErrorCode.unknown_member_id, f"Member {member_id} does not use the classic protocol.")
        return member, member.classic


def _is_supported(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Whether there is a protocol that all classic members know, the new one included."""
    counts = group.counts
    return request.protocol_type == CONSUMER and any(
        counts.classic_protocols.get(protocol.name, 0) == counts.classic_members for protocol in request.protocols
    )


def _subscription(request: JoinRequest) -> Subscription:
    """All protocols of a consumer come with the same. Each may be chosen if the group becomes a classic one."""
    first, *others = request.protocols
    try:
        subscription = read_subscription(first.metadata)
    except Unreadable as error:
        raise KafkaError(
            ErrorCode.unknown_server_error,
            f"Malformed embedded consumer protocol in subscription deserialization: {error}",
        ) from error
    for protocol in others:
        try:
            read_subscription(protocol.metadata)
        except Unreadable as error:
            raise KafkaError(
                ErrorCode.inconsistent_group_protocol,
                f"The subscription that comes with the protocol {protocol.name} cannot be read: {error}.",
            ) from error
    return subscription


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise KafkaError(
            ErrorCode.illegal_generation,
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member "
            f"{member.id}.",
        )


def _joined(member: Member) -> JoinAnswer:
    assert member.classic is not None
    return JoinAnswer(ErrorCode.none, member.id, member.epoch, CONSUMER, member.classic.protocols[0].name)


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    for topic_id, partitions in (group.targets.get(member.id) or {}).items():
        owners, own = group.counts.owners.get(topic_id, {}), member.assigned.get(topic_id, {})
        if any(partition in owners and partition not in own for partition in partitions):
            return True
    return False
