"""ConsumerGroupHeartbeat: the one request of a member, with which it joins, tells what it wants and has, and leaves.

A heartbeat that says nothing new costs a few look-ups, however large the group is. One that does writes, in this order:
the member, its pattern's end, the group's new epoch, the new target, how far the member has come.
"""

from __future__ import annotations

from functools import partial

from ottla.coordinator.group.classic.requests import Client
from ottla.coordinator.group.consumer.core import MAX_INT, Core
from ottla.coordinator.group.consumer.group import ConsumerGroup, State
from ottla.coordinator.group.consumer.members import AWAY, JOINING, LEFT, Member, MemberState
from ottla.coordinator.group.consumer.patterns import Change, Patterns
from ottla.coordinator.group.consumer.reconcile import Situation, reconcile
from ottla.coordinator.group.consumer.records import (
    PARTITIONS,
    GroupEpoch,
    current_record,
    deletion,
    group_record,
    member_deletions,
    member_record,
    target_record,
)
from ottla.coordinator.group.consumer.removal import Removal, known_member
from ottla.coordinator.group.consumer.replaying import replay_onto
from ottla.coordinator.group.consumer.requests import NOT_SAID, HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.group.consumer.targets import Target, Targets
from ottla.coordinator.group.events import (
    Cause,
    EpochBumped,
    GroupReconciled,
    MemberFenced,
    MemberJoined,
    MemberReconciled,
    MemberRefused,
    RevocationAcknowledged,
    RevocationAsked,
    StaticMemberReplaced,
    SubscriptionChanged,
)
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline
from ottla.model.errors import ErrorCode, KafkaError


class Heartbeat:
    def __init__(self, core: Core, removal: Removal, patterns: Patterns) -> None:
        self._core = core
        self._removal = removal
        self._patterns = patterns
        self._targets = Targets(core)

    def __call__(self, request: HeartbeatRequest) -> Outcome[HeartbeatAnswer]:
        """Raises KafkaError with what the member is told; nothing has happened then."""
        if request.epoch in (LEFT, AWAY):
            return self._removal.leave(request)
        records: list[StoredRecord] = []
        group = self._group(request, records)
        self.check_room(group, request.member_id, request.client)
        if request.instance_id is None:
            member = self._dynamic_member(group, request)
        else:
            member = self._static_member(group, request.instance_id, request, records)
        reconciled = self.advance(group, member, updated_member(member, request), request, records)
        settings = self._core.settings(group.id)
        self._removal.renew_session(group, reconciled)
        tells = request.epoch == JOINING or request.is_full or reconciled.assigned != member.assigned
        answer = HeartbeatAnswer(
            reconciled.id, reconciled.epoch, settings.heartbeat_interval_ms, reconciled.assigned if tells else None
        )
        if not records:
            return Outcome(answer)
        restored = partial(self._removal.restore, group.id, (member.id,))
        return Outcome(answer, records, restored, partial(self._note_when_stable, group.id))

    def advance(
        self,
        group: ConsumerGroup,
        member: Member,
        updated: Member,
        request: HeartbeatRequest,
        records: list[StoredRecord],
    ) -> Member:
        """What a member has said takes effect; gives the member as it is then."""
        epoch, change = self.epoch_after(group, member, updated, request, records)
        target = self._targets.of(group, epoch, member, updated, records)
        return self.reconciled(group, member, updated, target, change, request, records)

    # -- who asks

    def _group(self, request: HeartbeatRequest, records: list[StoredRecord]) -> ConsumerGroup:
        group = self._core.groups.get(request.group_id)
        if group is not None:
            return group
        if request.epoch != JOINING:
            if self._core.neighbours.has(request.group_id):
                raise self._core.absent(request.group_id)
            raise KafkaError(ErrorCode.group_id_not_found, f"Consumer group {request.group_id} not found.")
        room = self._core.neighbours.make_room(request.group_id)
        records += room
        # It is in the table once its first record is replayed; until then it is what a classic group leaves to it.
        group = ConsumerGroup(request.group_id, Timeline())
        for record in room:
            replay_onto(group, record)
        for _, member in group.members.items():
            self._removal.renew_session(group, member)
        return group

    def check_room(self, group: ConsumerGroup, member_id: str, client: Client) -> None:
        most = self._core.limits.max_size
        if len(group.members) >= most and member_id not in group.members:
            error = ErrorCode.group_max_size_reached
            self._core.note(MemberRefused, group, group.epoch, member_id, client.id, error.name)
            raise KafkaError(error, f"The consumer group has reached its maximum capacity of {most} members.")

    def _dynamic_member(self, group: ConsumerGroup, request: HeartbeatRequest) -> Member:
        if request.epoch != JOINING:
            member = known_member(group, request.member_id)
            self._check_epoch(group, member, request)
            return member
        return group.members.get(request.member_id) or Member(request.member_id or self._core.new_id())

    def _static_member(
        self, group: ConsumerGroup, instance_id: str, request: HeartbeatRequest, records: list[StoredRecord]
    ) -> Member:
        if request.epoch != JOINING:
            member = self._removal.known_static_member(group, request.member_id, instance_id, "heartbeat")
            self._check_epoch(group, member, request)
            return member
        former = group.static_member(instance_id)
        if former is None:
            return group.members.get(request.member_id) or Member(request.member_id or self._core.new_id())
        if former.classic is None and former.epoch != AWAY:
            raise KafkaError(
                ErrorCode.unreleased_instance_id,
                f"Static member {request.member_id} with instance id {instance_id} cannot join the group because "
                f"the instance id is owned by {former.id} member.",
            )
        return self.replace(group, former, request, records)

    def replace(
        self, group: ConsumerGroup, former: Member, request: HeartbeatRequest, records: list[StoredRecord]
    ) -> Member:
        """The same instance under a new id takes over what it has and is to have."""
        member = former._replace(id=request.member_id or self._core.new_id(), epoch=JOINING, previous_epoch=JOINING)
        records += (
            *member_deletions(group.id, former.id),
            member_record(group.id, member),
            target_record(group.id, member.id, group.targets.get(former.id) or {}),
            current_record(group.id, member),
        )
        return member

    def _check_epoch(self, group: ConsumerGroup, member: Member, request: HeartbeatRequest) -> None:
        """A member whose last answer was lost comes with the epoch before, and owns nothing that it was not given."""
        if request.epoch == member.epoch:
            return
        is_newer = request.epoch > member.epoch
        if not is_newer and request.epoch == member.previous_epoch and _owns_only_its_own(member, request):
            return
        self._core.note(MemberFenced, group, group.epoch, member.instance_id, member.id, "heartbeat")
        raise KafkaError(
            ErrorCode.fenced_member_epoch,
            f"The consumer group member has a {'greater' if is_newer else 'smaller'} member epoch ({request.epoch}) "
            f"than the one known by the group coordinator ({member.epoch}). "
            "The member must abandon all its partitions and rejoin.",
        )

    def _note_joined(self, group: ConsumerGroup, member: Member) -> None:
        former = group.static_member(member.instance_id)
        if former is not None:  # nobody has come: it is the same under another id
            self._core.note(
                StaticMemberReplaced, group, group.epoch, member.instance_id, former.id, member.id, False,
                member.client_id, member.client_host,
            )  # fmt: skip
            return
        session_ms = self._core.settings(group.id).session_timeout_ms
        self._core.note(
            MemberJoined, group, group.epoch, member.id, member.instance_id, member.client_id, member.client_host, None,
            session_ms, member.rebalance_timeout_ms, member.subscription,
        )  # fmt: skip

    # -- what follows

    def epoch_after(
        self,
        group: ConsumerGroup,
        member: Member,
        updated: Member,
        request: HeartbeatRequest,
        records: list[StoredRecord],
    ) -> tuple[int, Change]:
        if updated != member:
            records.append(member_record(group.id, updated))
        change = self._patterns.update(group, member, updated, request, records)
        if member.id not in group.members:
            self._note_joined(group, updated)
        return self._epoch(group, member, updated, change, records), change

    def _epoch(
        self, group: ConsumerGroup, old: Member, new: Member, change: Change, records: list[StoredRecord]
    ) -> int:  # fmt: skip
        """The group's, after what the member said and what has happened to the topics."""
        bump = new.topics != old.topics or change is Change.KNOWN
        now_ms = self._core.now_ms()
        if not bump and not group.must_look_at_metadata(now_ms):
            return group.epoch
        less, more = [old.topics], [new.topics]
        if old.pattern and old.pattern != new.pattern and group.counts.patterns.get(old.pattern) == 1:
            matches = group.patterns.get(old.pattern)
            less += [matches.topics] if matches is not None else []
        metadata_hash = self._core.hash_of(group, group.counts.topics_with(less, more))
        epoch = group.epoch
        if bump or metadata_hash != group.latest.now.metadata_hash:
            epoch += 1
            records.append(group_record(group.id, GroupEpoch(epoch, metadata_hash)))
            self._note_bump(group, epoch, old, new, bump)
        group.looked_at_metadata(now_ms + MAX_INT, epoch)
        if group.has_partitions_record.now:
            records.append(deletion(PARTITIONS, group.id))
        return epoch

    def _note_bump(self, group: ConsumerGroup, epoch: int, old: Member, new: Member, bump: bool) -> None:
        if not bump:
            self._core.note(EpochBumped, group, epoch, Cause.PARTITIONS_CHANGED, ())
        elif new.id not in group.members and not old.topics and not old.pattern:
            self._core.note(EpochBumped, group, epoch, Cause.MEMBER_JOINED, (new.id,))
        else:
            self._core.note(SubscriptionChanged, group, epoch, new.id, new.subscription)
            self._core.note(EpochBumped, group, epoch, Cause.MEMBER_CHANGED, (new.id,))

    def reconciled(
        self,
        group: ConsumerGroup,
        before: Member,
        member: Member,
        target: Target,
        change: Change,
        request: HeartbeatRequest,
        records: list[StoredRecord],
    ) -> Member:
        subscription_changed = member.topics != before.topics or change is not Change.NONE
        if not subscription_changed and member.is_reconciled_to(target.epoch):
            return member
        topics, owners, image = group.topics_of(member), group.counts.owners, self._core.image()
        reconciled = reconcile(
            member,
            Situation(
                target.epoch,
                target.assignment,
                lambda topic_id: (topic := image.topics.get(topic_id)) is not None and topic.name in topics,
                lambda topic_id, partition: partition in owners.get(topic_id, ()),
                request.owned,
                subscription_changed,
            ),
        )
        if reconciled == member:
            return member
        records.append(current_record(group.id, reconciled))
        self._removal.limit_revocation(group, reconciled)
        self._note_progress(group, member, reconciled, target.epoch)
        return reconciled

    def _note_progress(self, group: ConsumerGroup, before: Member, after: Member, epoch: int) -> None:
        if before.revoking and before.revoking != after.revoking:
            self._core.note(RevocationAcknowledged, group, group.epoch, after.id, before.revoking)
        if after.state is MemberState.UNREVOKED_PARTITIONS:
            self._core.note(RevocationAsked, group, group.epoch, after.id, after.revoking)
        elif after.is_reconciled_to(epoch):
            self._core.note(MemberReconciled, group, epoch, after.id)

    def _note_when_stable(self, group_id: str) -> None:
        group = self._core.groups.get(group_id)
        if group is not None and group.state is State.STABLE:
            self._core.note(GroupReconciled, group, group.epoch, len(group.members))


def updated_member(member: Member, request: HeartbeatRequest) -> Member:
    """The member with what it says of itself."""
    says_nothing = (
        request.topics is None
        and request.pattern is None
        and request.rebalance_timeout_ms == NOT_SAID
        and request.instance_id in (None, member.instance_id)
        and request.rack is None
        and request.assignor is None
    )
    if says_nothing and (member.client_id, member.client_host) == request.client and member.classic is None:
        return member
    timeout_ms = request.rebalance_timeout_ms
    return member._replace(
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack=member.rack if request.rack is None else request.rack,
        client_id=request.client.id,
        client_host=request.client.host,
        topics=member.topics if request.topics is None else request.topics,
        pattern=member.pattern if request.pattern is None else request.pattern,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NOT_SAID else timeout_ms,
        assignor=member.assignor if request.assignor is None else request.assignor,
        classic=None,
    )


def _owns_only_its_own(member: Member, request: HeartbeatRequest) -> bool:
    if request.owned is None:
        return False
    return all(
        topic_id in member.assigned and all(partition in member.assigned[topic_id] for partition in partitions)
        for topic_id, partitions in request.owned.items()
    )
