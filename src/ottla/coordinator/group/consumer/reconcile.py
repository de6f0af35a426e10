"""How a member gets from what it has to what it is to have.

    STABLE                  has what the target of its epoch gave it
      | a new target: it has partitions that others are to have
      v
    UNREVOKED_PARTITIONS    keeps its epoch until it says that it has given them up
      | it has (a heartbeat names what it owns)
      v
    UNRELEASED_PARTITIONS   in the new epoch, with what is free; others still have some of its partitions
      | they have given them up
      v
    STABLE

A partition is never with two members: it is given to one only when nobody has it, or has yet to give it up.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple
from uuid import UUID

from ottla.coordinator.group.assignors.spec import Assignment
from ottla.coordinator.group.consumer.members import Assigned, Member, MemberState
from ottla.model.errors import ErrorCode, KafkaError

_NONE: Mapping[int, int] = {}


class Situation(NamedTuple):
    """What matters besides the member itself."""

    target_epoch: int
    target: Assignment
    is_subscribed: Callable[[UUID], bool]
    """Whether the member wants a topic, and the topic exists."""
    has_owner: Callable[[UUID, int], bool]
    owned: Mapping[UUID, Collection[int]] | None
    """What the member says it owns; None: the same as before."""
    subscription_changed: bool = False


def reconcile(member: Member, now: Situation) -> Member:
    """The next state of the member; itself if nothing changes."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch != now.target_epoch:
                return _advance(member, member.epoch, now)
            return _drop_unsubscribed(member, now) if now.subscription_changed else member
        case MemberState.UNREVOKED_PARTITIONS:
            if _still_owns(member.revoking, now.owned):
                return _drop_unsubscribed(member, now) if now.subscription_changed else member
            return _advance(member, member.epoch, now)
        case MemberState.UNRELEASED_PARTITIONS:
            return _advance(member, member.epoch, now)
        case MemberState.UNKNOWN:
            if now.owned is not None and not now.owned:
                return _advance(member, now.target_epoch, now)
            raise KafkaError(
                ErrorCode.fenced_member_epoch,
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin.",
            )


def _still_owns(revoking: Assigned, owned: Mapping[UUID, Collection[int]] | None) -> bool:
    if owned is None:
        return True
    return any(
        partition in given_up
        for topic_id, partitions in owned.items()
        if (given_up := revoking.get(topic_id)) is not None
        for partition in partitions
    )


def _advance(member: Member, epoch: int, now: Situation) -> Member:
    """As far towards the target as can be: keep what is in it, give up what is not, then take what is free."""
    keep: dict[UUID, dict[int, int]] = {}
    give_up: dict[UUID, dict[int, int]] = {}
    for topic_id, epochs in member.assigned.items():
        wanted = now.target.get(topic_id, ()) if now.is_subscribed(topic_id) else ()
        if kept := {partition: since for partition, since in epochs.items() if partition in wanted}:
            keep[topic_id] = kept
        if len(kept) < len(epochs):
            give_up[topic_id] = {partition: since for partition, since in epochs.items() if partition not in wanted}
    if give_up and _still_owns(give_up, now.owned):
        return _moved(member, epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=keep, revoking=give_up
        )  # fmt: skip
    must_wait = _take_free(member, keep, now)
    state = MemberState.UNRELEASED_PARTITIONS if must_wait else MemberState.STABLE
    return _moved(member, now.target_epoch)._replace(state=state, assigned=keep, revoking={})


def _take_free(member: Member, keep: dict[UUID, dict[int, int]], now: Situation) -> bool:
    """Puts what nobody has to what is kept; says whether there is something that somebody has."""
    must_wait = False
    for topic_id, wanted in now.target.items():
        if not now.is_subscribed(topic_id):
            continue
        kept, own = keep.get(topic_id, _NONE), member.revoking.get(topic_id, _NONE)
        free = {}
        for partition in sorted(wanted):
            if partition in kept:
                continue
            if now.has_owner(topic_id, partition) and partition not in own:
                must_wait = True
            else:
                free[partition] = now.target_epoch
        if free:
            keep[topic_id] = {**kept, **free}
    return must_wait


def _drop_unsubscribed(member: Member, now: Situation) -> Member:
    """Within its epoch: it gives up the topics that it does not want any more."""
    keep = {topic_id: epochs for topic_id, epochs in member.assigned.items() if now.is_subscribed(topic_id)}
    if len(keep) == len(member.assigned):
        return member
    give_up = dict(member.revoking)
    for topic_id, epochs in member.assigned.items():
        if topic_id not in keep:
            give_up[topic_id] = {**give_up.get(topic_id, _NONE), **epochs}
    if _still_owns(give_up, now.owned):
        return _moved(member, member.epoch)._replace(
            state=MemberState.UNREVOKED_PARTITIONS, assigned=keep, revoking=give_up
        )
    return _moved(member, member.epoch)._replace(assigned=keep)


def _moved(member: Member, epoch: int) -> Member:
    return member._replace(epoch=epoch, previous_epoch=member.epoch)
