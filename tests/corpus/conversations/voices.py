"""Those who talk in conversations: members of groups, and administrators. Each keeps to versions of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from tests.broker.apis.asking import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.corpus.conversations.talk import Talk

from ottla.model.errors import ErrorCode

ORDERS, OTHER = "orders", "other"
Protocols = Sequence[tuple[str, bytes]]


def subscription(*topics: str) -> bytes:
    """As consumers write it, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def assignment(topic: str, *partitions: int) -> bytes:
    """As leaders write it, version 0."""
    numbers = b"".join(number.to_bytes(4, "big") for number in partitions)
    name = len(topic).to_bytes(2, "big") + topic.encode()
    return b"\x00\x00\x00\x00\x00\x01" + name + len(partitions).to_bytes(4, "big") + numbers + b"\xff\xff\xff\xff"


RANGE: Final[Protocols] = (("range", subscription(ORDERS)),)


class Versions(NamedTuple):
    """Of the APIs of groups, as a client has them that knows one of them in some version."""

    commit: int
    fetch: int
    join: int
    heartbeat: int
    leave: int
    sync: int
    describe: int
    list: int
    delete: int


def versions(number: int) -> Versions:
    """Those with this number, or the nearest there is."""
    oldest_and_newest = ((2, 10), (1, 10), (0, 9), (0, 4), (0, 5), (0, 5), (0, 6), (0, 5), (0, 2))
    return Versions(*(min(max(number, oldest), newest) for oldest, newest in oldest_and_newest))


NEWEST: Final = versions(99)


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


class Voice:
    """A member, or one who would be."""

    def __init__(
        self, talk: Talk, name: str, group: str, instance: str | None = None, versions: Versions = NEWEST
    ) -> None:
        self.talk, self.name, self.group, self.instance, self.versions = talk, name, group, instance, versions
        self.id = ""
        self.generation = -1

    def _values(self, values: dict[str, Any]) -> dict[str, Any]:
        return {"group_id": self.group, "member_id": self.id, "group_instance_id": self.instance} | values

    # -- JoinGroup

    def say_join(
        self, protocols: Protocols = RANGE, *, session: int = 10_000, rebalance: int = 5_000, **values: Any
    ) -> None:
        given = {
            "session_timeout": ms(session), "rebalance_timeout": ms(rebalance), "protocol_type": "consumer",
            "protocols": [{"name": name, "metadata": metadata} for name, metadata in protocols], "reason": None,
        }  # fmt: skip
        self.talk.say(self.name, JOIN_GROUP, self.versions.join, **self._values(given | values))

    def hear_join(self) -> Any:
        answer = self.talk.hear(self.name)
        code = getattr(answer, "error_code", None)
        if code in (ErrorCode.none, ErrorCode.member_id_required):
            self.id = answer.member_id
        if code is ErrorCode.none:
            self.generation = answer.generation_id
        return answer

    def join(self, protocols: Protocols = RANGE, **values: Any) -> Any:
        self.say_join(protocols, **values)
        return self.hear_join()

    def say_join_with_id(self, protocols: Protocols = RANGE, **values: Any) -> None:
        """As clients do: those who are given an id come again with it."""
        if self.versions.join >= 4 and self.instance is None and not self.id:
            self.join(protocols, **values)
        self.say_join(protocols, **values)

    def join_with_id(self, protocols: Protocols = RANGE, **values: Any) -> Any:
        self.say_join_with_id(protocols, **values)
        return self.hear_join()

    # -- SyncGroup

    def say_sync(self, *shares: tuple[str, bytes], **values: Any) -> None:
        given = {
            "generation_id": self.generation, "protocol_type": "consumer", "protocol_name": "range",
            "assignments": [{"member_id": member, "assignment": share} for member, share in shares],
        }  # fmt: skip
        self.talk.say(self.name, SYNC_GROUP, self.versions.sync, **self._values(given | values))

    def hear_sync(self) -> Any:
        return self.talk.hear(self.name)

    def sync(self, *shares: tuple[str, bytes], **values: Any) -> Any:
        self.say_sync(*shares, **values)
        return self.hear_sync()

    def enter(self, protocols: Protocols = RANGE, *, share: bytes = b"all", **values: Any) -> None:
        """Alone in its group, it leads and has everything."""
        self.join_with_id(protocols, **values)
        kind, name = values.get("protocol_type", "consumer"), protocols[0][0] if protocols else ""
        self.sync((self.id, share), protocol_type=kind, protocol_name=name)

    # -- the rest

    def heartbeat(self, **values: Any) -> Any:
        given = self._values({"generation_id": self.generation} | values)
        return self.talk.ask(self.name, HEARTBEAT, self.versions.heartbeat, **given)

    def heartbeat_until(self, code: ErrorCode) -> None:
        given = self._values({"generation_id": self.generation})
        self.talk.ask_until(
            self.name, lambda answer: answer.error_code is code, HEARTBEAT, self.versions.heartbeat, **given
        )  # fmt: skip

    def leave(self, *leaving: tuple[str, str | None], **values: Any) -> Any:
        who = leaving or ((self.id, self.instance),)
        members = [{"member_id": member, "group_instance_id": instance, "reason": None} for member, instance in who]
        given = self._values({"members": members} | values)
        return self.talk.ask(self.name, LEAVE_GROUP, self.versions.leave, **given)

    def commit(self, offset: int = 5, partition: int = 0, topic: str = ORDERS, **values: Any) -> Any:
        rows = [
            {"partition_index": partition, "committed_offset": offset,
             "committed_leader_epoch": values.pop("epoch", -1), "committed_metadata": values.pop("metadata", "")}
        ]  # fmt: skip
        return self.commit_rows({topic: rows}, **values)

    def commit_rows(self, topics: dict[str, list[dict[str, Any]]], **values: Any) -> Any:
        named = [
            {"name": topic, "topic_id": self.talk.topic_ids.get(topic), "partitions": rows}
            for topic, rows in topics.items()
        ]
        given = {"generation_id_or_member_epoch": self.generation, "retention_time": ms(-1), "topics": named}
        return self.talk.ask(self.name, OFFSET_COMMIT, self.versions.commit, **self._values(given | values))


class Admin:
    """One who looks, and cleans up."""

    def __init__(self, talk: Talk, group: str, versions: Versions = NEWEST, name: str = "admin") -> None:
        self.talk, self.group, self.versions, self.name = talk, group, versions, name

    def describe(self, *groups: str, operations: bool = False) -> Any:
        return self._describe(self.talk.ask, groups, operations)

    def describe_until(self, state: str) -> Any:
        return self.talk.ask_until(
            self.name, lambda answer: answer.groups[0].group_state == state, DESCRIBE_GROUPS, self.versions.describe,
            groups=[self.group], include_authorized_operations=False,
        )  # fmt: skip

    def _describe(self, ask: Callable[..., Any], groups: Sequence[str], operations: bool) -> Any:
        values = {"groups": groups or [self.group], "include_authorized_operations": operations}
        return ask(self.name, DESCRIBE_GROUPS, self.versions.describe, **values)

    def list(self, states: Sequence[str] = (), types: Sequence[str] = ()) -> Any:
        return self.talk.ask(self.name, LIST_GROUPS, self.versions.list, states_filter=states, types_filter=types)

    def delete(self, *groups: str) -> Any:
        return self.talk.ask(self.name, DELETE_GROUPS, self.versions.delete, groups_names=groups or [self.group])

    def delete_offsets(self, topics: Mapping[str, Sequence[int]], group: str | None = None) -> Any:
        rows = [
            {"name": topic, "partitions": [{"partition_index": number} for number in numbers]}
            for topic, numbers in topics.items()
        ]
        return self.talk.ask(self.name, OFFSET_DELETE, 0, group_id=self.group if group is None else group, topics=rows)

    def fetch(
        self, topics: Mapping[str, Sequence[int]] | None = None, *groups: str, stable: bool = False, **values: Any
    ) -> Any:
        """Of one group, or of several the same."""
        rows = None if topics is None else [
            {"name": topic, "topic_id": self.talk.topic_ids.get(topic), "partition_indexes": numbers}
            for topic, numbers in topics.items()
        ]  # fmt: skip
        each = [
            {"group_id": group, "member_id": None, "member_epoch": -1, "topics": rows} | values
            for group in groups or (self.group,)
        ]
        given = {"group_id": self.group, "topics": rows, "require_stable": stable, "groups": each}
        return self.talk.ask(self.name, OFFSET_FETCH, self.versions.fetch, **given)
