"""JoinGroup, SyncGroup, Heartbeat, LeaveGroup, DescribeGroups, ListGroups, DeleteGroups, and offsets of groups.

Requests by themselves; what comes of several is in `tests/corpus/conversations`.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.corpus.scenarios.scenario import (
    EMPTY,
    FETCHED,
    STABLE,
    STABLE_MEMBER,
    TIMED,
    UNKNOWN_ID,
    Cases,
    Scenario,
    Values,
    own,
    stand_in,
)

_JOIN, _LEAVE, _COMMIT, _DELETE, _DELETE_OFFSETS = 11, 13, 8, 42, 47
_TAKES_ID_FIRST: Final = 4
_OWN: Final = "own-"
_LONG: Final = timedelta(minutes=10)

# -- JoinGroup


def _join(group: str, member: str = "", instance: str | None = None, **values: Any) -> Values:
    given = {
        "group_id": group, "session_timeout": _LONG, "rebalance_timeout": timedelta(seconds=10),
        "member_id": member, "group_instance_id": instance, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}, {"name": "other", "metadata": b""}],
        "reason": "because",
    }  # fmt: skip
    return given | values


def _join_cases(version: int) -> Cases:
    def group(name: str) -> str:
        return own(_JOIN, version, name)

    return {
        "a stranger": _join(group("absent"), "stranger"),
        "a first member": _join(group("first")),
        "a first static member": _join(group("static"), "", "i"),
        "a stranger in a group": _join(STABLE, "stranger"),
        "a static stranger in a group": _join(STABLE, "stranger", "i"),
        "a member with a strange instance": _join(STABLE, STABLE_MEMBER, "i")
        if version >= 5
        else _join(STABLE, "stranger"),
        "no group": _join("", "stranger"),
        "no protocols": _join(group("none"), protocols=[]),
        "no protocol type": _join(group("untyped"), protocol_type=""),
        "another protocol type": _join(STABLE, "stranger", protocol_type="connect"),
        "other protocols": _join(STABLE, "stranger", protocols=[{"name": "x", "metadata": b""}]),
        **{
            f"a session of {ms} ms": _join(group("absent"), session_timeout=timedelta(milliseconds=ms))
            for ms in (0, -1, 5999, 1_800_001)
        },
        "without reason": _join(group("absent"), "stranger", reason=None),
    }


def _join_is_harmless(request: Any) -> bool:
    """Nobody joins by chance where others are, or may be by then: a rebalance waits for all of them."""
    if request.member_id:
        return bool(request.member_id != STABLE_MEMBER)
    static = getattr(request, "group_instance_id", None) is not None
    return request.__version__ >= _TAKES_ID_FIRST and not static and request.group_id.startswith(_OWN)


JOIN_GROUP: Final = Scenario(_JOIN, "JoinGroup", 0, 9, _join_cases, is_harmless=_join_is_harmless)

# -- SyncGroup


def _sync(group: str = STABLE, member: str = STABLE_MEMBER, generation: int = 1, **values: Any) -> Values:
    given = {
        "group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": None,
        "protocol_type": "consumer", "protocol_name": "range",
        "assignments": [{"member_id": STABLE_MEMBER, "assignment": b"other"}, {"member_id": "x", "assignment": b""}],
    }  # fmt: skip
    return given | values


def _sync_cases(version: int) -> Cases:
    return {
        "a member": _sync(),
        "without assignments": _sync(assignments=[]),
        "a stranger": _sync(member="stranger"),
        "no member": _sync(member=""),
        "no group": _sync(""),
        "an absent group": _sync("absent"),
        "an empty group": _sync(FETCHED),
        "a strange instance": _sync(group_instance_id="i"),
        "another protocol": _sync(protocol_name="other"),
        "another protocol type": _sync(protocol_type="connect"),
        "no protocol": _sync(protocol_name=None),
        "no protocol type": _sync(protocol_type=None),
        **{f"generation {number}": _sync(generation=number) for number in (0, 2, -1)},
    }


SYNC_GROUP: Final = Scenario(14, "SyncGroup", 0, 5, _sync_cases)

# -- Heartbeat


def _beat(group: str = STABLE, member: str = STABLE_MEMBER, generation: int = 1, instance: str | None = None) -> Values:
    return {"group_id": group, "generation_id": generation, "member_id": member, "group_instance_id": instance}


def _beat_cases(version: int) -> Cases:
    return {
        "a member": _beat(),
        "a stranger": _beat(member="stranger"),
        "no member": _beat(member=""),
        "no group": _beat(""),
        "an absent group": _beat("absent"),
        "an empty group": _beat(FETCHED),
        "a strange instance": _beat(instance="i"),
        **{f"generation {number}": _beat(generation=number) for number in (0, 2, -1)},
    }


HEARTBEAT: Final = Scenario(12, "Heartbeat", 0, 4, _beat_cases)

# -- LeaveGroup


def _leave(group: str, *members: tuple[str, str | None]) -> Values:
    rows = [{"member_id": member, "group_instance_id": instance, "reason": "because"} for member, instance in members]
    return {"group_id": group, "member_id": members[0][0] if members else "", "members": rows}


def _leave_cases(version: int) -> Cases:
    return {
        "a stranger": _leave(STABLE, ("stranger", None)),
        "strangers": _leave(STABLE, ("stranger", None), ("stranger", "i"), ("another", None)),
        "an instance": _leave(STABLE, ("", "i")),
        "nobody": _leave(STABLE, ("", None)),
        "none": _leave(STABLE),
        "no group": _leave("", ("stranger", None)),
        "an absent group": _leave("absent", ("stranger", None), ("", "i")),
        "an empty group": _leave(FETCHED, ("stranger", None)),
    }


def _leave_is_harmless(request: Any) -> bool:
    leaving = [row.member_id for row in request.members] if request.__version__ >= 3 else [request.member_id]
    return STABLE_MEMBER not in leaving


LEAVE_GROUP: Final = Scenario(_LEAVE, "LeaveGroup", 0, 5, _leave_cases, is_harmless=_leave_is_harmless)

# -- DescribeGroups, ListGroups, DeleteGroups


def _describe(*groups: str, operations: bool = False) -> Values:
    return {"groups": list(groups), "include_authorized_operations": operations}


def _describe_cases(version: int) -> Cases:
    return {
        "a group with a member": _describe(STABLE),
        "operations": _describe(STABLE, operations=True),
        "a group without": _describe(FETCHED),
        "an absent group": _describe("absent"),
        "an absent group, operations": _describe("absent", operations=True),
        "groups": _describe(FETCHED, "absent", STABLE, FETCHED),
        "no group": _describe(""),
        "none": _describe(),
    }


DESCRIBE_GROUPS: Final = Scenario(15, "DescribeGroups", 0, 6, _describe_cases)


def _list(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Values:
    return {"states_filter": list(states), "types_filter": list(types)}


def _list_cases(version: int) -> Cases:
    return {
        "all": _list(),
        "some states": _list(("Stable", "empty")),
        "a state": _list(("Stable",)),
        "a state that nobody has": _list(("nonsense",)),
        "a type": _list((), ("classic",)),
        "types": _list((), ("Consumer", "CLASSIC")),
        "another type": _list((), ("share",)),
        "a type that nobody has": _list((), ("nonsense",)),
        "both": _list(("Empty",), ("classic",)),
    }


LIST_GROUPS: Final = Scenario(16, "ListGroups", 0, 5, _list_cases)


def _delete_cases(version: int) -> Cases:
    return {
        "a group with a member": {"groups_names": [STABLE]},
        "groups": {"groups_names": [STABLE, "absent", STABLE]},
        "none": {"groups_names": []},
        "no group": {"groups_names": [""]},
    }


DELETE_GROUPS: Final = Scenario(
    _DELETE, "DeleteGroups", 0, 2, _delete_cases,
    is_harmless=lambda request: FETCHED not in request.groups_names,
)  # fmt: skip

# -- OffsetCommit, OffsetFetch, OffsetDelete


def _committed(partition: int = 0, offset: int = 7, metadata: str | None = "so far", epoch: int = -1) -> Values:
    return {
        "partition_index": partition, "committed_offset": offset, "committed_leader_epoch": epoch,
        "committed_metadata": metadata,
    }  # fmt: skip


def _named(topic: str, **values: Any) -> Values:
    return {"name": topic, "topic_id": UNKNOWN_ID if topic == "absent" else stand_in(topic)} | values


def _commit(group: str, *topics: Values, generation: int = -1, member: str = "", **values: Any) -> Values:
    given = {
        "group_id": group, "generation_id_or_member_epoch": generation, "member_id": member, "group_instance_id": None,
        "retention_time": timedelta(milliseconds=-1), "topics": list(topics),
    }  # fmt: skip
    return given | values


def _commit_cases(version: int) -> Cases:
    group = own(_COMMIT, version, "group")
    timed = _named(TIMED, partitions=[_committed()])
    return {
        "nobody's": _commit(group, timed),
        "several": _commit(group, timed, _named(EMPTY, partitions=[_committed(1), _committed(0, 2, None, 5)])),
        "an unknown partition": _commit(group, _named(TIMED, partitions=[_committed(1), _committed()])),
        "an absent topic": _commit(group, _named("absent", partitions=[_committed()]), timed),
        "a topic twice": _commit(group, timed, timed),
        "no topics": _commit(group),
        "no partitions": _commit(group, _named(TIMED, partitions=[])),
        "long metadata": _commit(group, _named(TIMED, partitions=[_committed(metadata="x" * 4097)])),
        "a member's": _commit(STABLE, timed, generation=1, member=STABLE_MEMBER),
        "a stranger's": _commit(STABLE, timed, generation=1, member="stranger"),
        "nobody's in a group with members": _commit(STABLE, timed),
        "an old generation": _commit(STABLE, timed, generation=0, member=STABLE_MEMBER),
        "a strange instance": _commit(STABLE, timed, generation=1, member=STABLE_MEMBER, group_instance_id="i"),
        "a member's of an absent group": _commit(own(_COMMIT, version, "absent"), timed, generation=1, member="m"),
        "kept for long": _commit(group, timed, retention_time=_LONG),
    }


def _commit_is_harmless(request: Any) -> bool:
    """A commit by chance makes a group by chance, which others would find."""
    return bool(request.group_id == STABLE or request.group_id.startswith(_OWN))


OFFSET_COMMIT: Final = Scenario(_COMMIT, "OffsetCommit", 2, 10, _commit_cases, is_harmless=_commit_is_harmless)


def _wanted(*topics: tuple[str, list[int]]) -> list[Values]:
    return [_named(topic, partition_indexes=partitions) for topic, partitions in topics]


def _fetch(*groups: str, topics: list[Values] | None, stable: bool = False, **values: Any) -> Values:
    each = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": topics} | values for group in groups]
    return {"group_id": groups[0] if groups else "", "topics": topics, "groups": each, "require_stable": stable}


def _fetch_cases(version: int) -> Cases:
    timed, both = _wanted((TIMED, [0])), _wanted((TIMED, [0]), (EMPTY, [0, 1]))
    return {
        "a partition": _fetch(FETCHED, topics=timed),
        "partitions": _fetch(FETCHED, topics=both),
        "stable": _fetch(FETCHED, topics=both, stable=True),
        "all": _fetch(FETCHED, topics=None),
        "all, stable": _fetch(FETCHED, topics=None, stable=True),
        "none": _fetch(FETCHED, topics=[]),
        "unknown partitions": _fetch(FETCHED, topics=_wanted((TIMED, [7, -1, 0]))),
        "no partitions": _fetch(FETCHED, topics=_wanted((TIMED, []))),
        "an absent topic": _fetch(FETCHED, topics=_wanted(("absent", [0]), (TIMED, [0]))),
        "a topic twice": _fetch(FETCHED, topics=timed + timed),
        "an absent group": _fetch("absent", topics=both),
        "all of an absent group": _fetch("absent", topics=None),
        "groups": _fetch(FETCHED, "absent", FETCHED, topics=both),
        "no groups": _fetch(topics=timed),
        "a member": _fetch(FETCHED, topics=timed, member_id=STABLE_MEMBER, member_epoch=1),
        "a stranger": _fetch(FETCHED, topics=timed, member_id="stranger", member_epoch=0),
    }


OFFSET_FETCH: Final = Scenario(9, "OffsetFetch", 1, 10, _fetch_cases)


def _delete_offsets(group: str, *topics: tuple[str, list[int]]) -> Values:
    rows = [
        {"name": topic, "partitions": [{"partition_index": number} for number in numbers]} for topic, numbers in topics
    ]
    return {"group_id": group, "topics": rows}


def _delete_offsets_cases(version: int) -> Cases:
    return {
        "nothing there": _delete_offsets(STABLE, (EMPTY, [0, 1])),
        "an absent group": _delete_offsets("absent", (TIMED, [0])),
        "an absent topic": _delete_offsets(STABLE, ("absent", [0]), (EMPTY, [0])),
        "an unknown partition": _delete_offsets(STABLE, (EMPTY, [0, 7])),
        "subscribed": _delete_offsets(STABLE, (TIMED, [0])),
        "no topics": _delete_offsets(STABLE),
        "no partitions": _delete_offsets(STABLE, (EMPTY, [])),
        "no group": _delete_offsets("", (TIMED, [0])),
        "a topic twice": _delete_offsets(STABLE, (EMPTY, [0]), (EMPTY, [1])),
    }


OFFSET_DELETE: Final = Scenario(
    _DELETE_OFFSETS, "OffsetDelete", 0, 0, _delete_offsets_cases,
    is_harmless=lambda request: request.group_id != FETCHED,
)  # fmt: skip
