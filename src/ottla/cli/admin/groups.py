"""Groups: which there are, who coordinates them, who is in them; and deleting them."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple, cast

from ottla.cli.admin.moving import MOVING, Moving, asked_again
from ottla.cli.admin.session import Refusal, Session, raise_for, refusal
from ottla.cli.cluster_options import Address
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.names import TopicPartition

LIST_GROUPS, CONSUMER_GROUP_DESCRIBE = 16, 69
_GROUP_KEY: Final = 0
_DESCRIBE_MANY: Final = 200
CLASSIC, CONSUMER = "Classic", "Consumer"
INACTIVE: Final = ("Empty", "Dead")


class ListedGroup(NamedTuple):
    id: str
    type: str | None
    """None if the broker does not tell (before Kafka 3.8)."""
    state: str
    protocol_type: str
    coordinator: int


class Member(NamedTuple):
    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[TopicPartition, ...] | None
    """None where only its own kind of client can read it."""
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    rack: str | None = None
    epoch: int | None = None
    """Of members of the consumer protocol, like all below."""
    target: tuple[TopicPartition, ...] | None = None
    is_classic: bool | None = None


class Group(NamedTuple):
    id: str
    type: str
    state: str
    assignor: str
    coordinator: int
    members: tuple[Member, ...] = ()
    epoch: int | None = None
    """Of groups of the consumer protocol, like the next."""
    assignment_epoch: int | None = None

    @property
    def exists(self) -> bool:
        return self.state != "Dead"

    @property
    def is_active(self) -> bool:
        return self.state not in INACTIVE


# -- listing


@asked_again
async def list_groups(session: Session, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """All groups of all brokers, or those in the states and of the types, sorted by name."""
    from ottla.cli.admin.brokers import know_brokers

    await know_brokers(session)
    found: dict[str, ListedGroup] = {}
    for broker in sorted(session.brokers):
        for group in await _listed_by(session, broker, states, types):
            found[group.id] = group
            session.coordinators[group.id] = broker
    wanted = {kind.lower() for kind in types}
    return sorted(
        group for group in found.values() if not wanted or (group.type is not None and group.type.lower() in wanted)
    )


async def _listed_by(
    session: Session, broker: int, states: Sequence[str], types: Sequence[str]
) -> list[ListedGroup]:  # fmt: skip
    from ottla.wire.build import build, request_type

    version = await session.newest(LIST_GROUPS, 5, broker=broker)
    if version is None:
        raise OttlaError(f"broker {broker} does not list groups; is it a Kafka broker?")
    if types and version < 5:
        raise OttlaError(f"broker {broker} does not know types of groups, as Kafka before 3.8: leave --type out")
    if states and version < 4:
        raise OttlaError(f"broker {broker} cannot list by state, as Kafka before 2.6: leave --state out")
    request = build(
        request_type(LIST_GROUPS, version),
        {"states_filter": tuple(states), "types_filter": tuple(kind.lower() for kind in types)},
    )
    answer = await session.call(request, broker=broker)
    raise_for(answer.error_code, None, f"groups of broker {broker}")
    return [
        ListedGroup(
            group.group_id,
            _type(getattr(group, "group_type", "")),
            getattr(group, "group_state", ""),
            group.protocol_type,
            broker,
        )
        for group in answer.groups
    ]


def _type(text: str) -> str | None:
    return text.capitalize() or None


# -- coordinators


@asked_again
async def coordinators(session: Session, group_ids: Iterable[str]) -> dict[str, int]:
    """By group the broker that coordinates it; those that were just listed need not be looked for."""
    ids = list(dict.fromkeys(group_ids))
    await asyncio.gather(*(_find(session, group_id) for group_id in ids if group_id not in session.coordinators))
    return {group_id: session.coordinators[group_id] for group_id in ids}


async def _find(session: Session, group_id: str) -> None:
    from kio.schema.find_coordinator.v3.request import FindCoordinatorRequest

    answer = await session.call(FindCoordinatorRequest(key=group_id, key_type=cast(Any, _GROUP_KEY)))
    raise_for(answer.error_code, answer.error_message, f"the coordinator of group {group_id}")
    session.brokers[answer.node_id] = Address(answer.host, answer.port)
    session.coordinators[group_id] = answer.node_id


# -- describing


@asked_again
async def describe(session: Session, group_ids: Sequence[str]) -> dict[str, Group]:
    """Each group as it is; one that is not there has the state Dead. OttlaError if one cannot be asked."""
    by_broker: dict[int, list[str]] = defaultdict(list)
    for group_id, broker in (await coordinators(session, group_ids)).items():
        by_broker[broker].append(group_id)
    found: dict[str, Group] = {}
    for broker, ids in by_broker.items():
        for at in range(0, len(ids), _DESCRIBE_MANY):
            part = ids[at : at + _DESCRIBE_MANY]
            found |= await _consumer_groups(session, broker, part)
            found |= await _classic_groups(session, broker, [group_id for group_id in part if group_id not in found])
    return {group_id: found[group_id] for group_id in group_ids}


async def described(session: Session, group_ids: Sequence[str], *, leave_out_missing: bool = False) -> dict[str, Group]:
    """Like `describe`; OttlaError for a group that is not there, unless it may have gone since it was listed."""
    found = await describe(session, group_ids)
    if leave_out_missing:
        return {group_id: group for group_id, group in found.items() if group.exists}
    for group in found.values():
        if not group.exists:
            raise OttlaError(await no_such_group(session, group.id))
    return found


async def no_such_group(session: Session, name: str) -> str:
    return (
        f"there is no group {name}{await similar(session, name) or '; `ottla group list` shows those that are there'}"
    )


async def similar(session: Session, name: str) -> str:
    from ottla.model.near_miss import did_you_mean

    return did_you_mean(name, [group.id for group in await list_groups(session)])


async def _consumer_groups(session: Session, broker: int, group_ids: Sequence[str]) -> dict[str, Group]:
    """Those of the consumer protocol; none where the broker does not know it."""
    from ottla.wire.build import build, request_type

    version = await session.newest(CONSUMER_GROUP_DESCRIBE, 1, broker=broker)
    if version is None:
        return {}
    request = build(
        request_type(CONSUMER_GROUP_DESCRIBE, version),
        {"group_ids": group_ids, "include_authorized_operations": False},
    )
    answer = await session.call(request, broker=broker)
    found = {}
    for group in answer.groups:
        if group.error_code in (ErrorCode.group_id_not_found, ErrorCode.unsupported_version):
            continue  # a classic one, or none
        raise_for(group.error_code, group.error_message, f"group {group.group_id}")
        members = tuple(sorted(map(_member_of_consumers, group.members)))
        found[group.group_id] = Group(
            group.group_id,
            CONSUMER,
            group.group_state,
            group.assignor_name,
            broker,
            members,
            group.group_epoch,
            group.assignment_epoch,
        )
    return found


def _member_of_consumers(member: Any) -> Member:
    kind = getattr(member, "member_type", -1)
    return Member(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or None,
        member.rack_id,
        member.member_epoch,
        _partitions(member.target_assignment),
        None if kind < 0 else kind == 0,
    )


def _partitions(assignment: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(TopicPartition(topic.topic_name, n) for topic in assignment.topic_partitions for n in topic.partitions)
    )


async def _classic_groups(session: Session, broker: int, group_ids: Sequence[str]) -> dict[str, Group]:
    from kio.schema.describe_groups.v5.request import DescribeGroupsRequest

    from ottla.cli.admin.embedded import assigned_partitions, subscribed_topics

    if not group_ids:
        return {}
    request = DescribeGroupsRequest(groups=cast(Any, tuple(group_ids)), include_authorized_operations=False)
    found = {}
    for group in (await session.call(request, broker=broker)).groups:
        raise_for(group.error_code, None, f"group {group.group_id}")
        is_of_consumers = group.protocol_type == "consumer"
        members = tuple(
            sorted(
                Member(
                    member.member_id,
                    member.group_instance_id,
                    member.client_id,
                    member.client_host,
                    assigned_partitions(member.member_assignment) if is_of_consumers else None,
                    subscribed_topics(member.member_metadata) if is_of_consumers else (),
                )
                for member in group.members
            )
        )
        found[group.group_id] = Group(group.group_id, CLASSIC, group.group_state, group.protocol_data, broker, members)
    return found


# -- deleting


async def delete_groups(session: Session, group_ids: Sequence[str]) -> dict[str, Refusal | None]:
    """For each group None, or why it could not be deleted."""
    outcome: dict[str, Refusal | None] = {}
    try:
        await _delete(session, group_ids, outcome)
    except Moving as error:
        refused = Refusal(error.code, str(error))
        return {group_id: outcome.get(group_id, refused) for group_id in dict.fromkeys(group_ids)}
    return {group_id: outcome[group_id] for group_id in dict.fromkeys(group_ids)}


@asked_again
async def _delete(session: Session, group_ids: Sequence[str], outcome: dict[str, Refusal | None]) -> None:
    """Those of which the outcome is not known yet."""
    from kio.schema.delete_groups.v2.request import DeleteGroupsRequest

    by_broker: dict[int, list[str]] = defaultdict(list)
    left = [group_id for group_id in group_ids if group_id not in outcome]
    for group_id, broker in (await coordinators(session, left)).items():
        by_broker[broker].append(group_id)
    moving = ErrorCode.none
    for broker, ids in by_broker.items():
        answer = await session.call(DeleteGroupsRequest(groups_names=cast(Any, tuple(ids))), broker=broker)
        for result in answer.results:
            if result.error_code in MOVING:
                moving = result.error_code
            else:
                outcome[result.group_id] = refusal(result.error_code, None)
    raise_for(moving, None, "the coordinator moves")
