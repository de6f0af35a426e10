"""Members of consumer groups that speak the protocol by hand, in any version; topics go by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from tests.broker.apis import asking
from tests.broker.apis.asking import ask

Owned = Mapping[str, Sequence[int]]
REBALANCE_MS = 60_000


class Told(NamedTuple):
    error: str
    message: str | None
    member: str | None
    epoch: int
    interval_ms: int
    assigned: dict[str, list[int]] | None


class Place:
    """A server and the topics that are asked about."""

    def __init__(self, address: str, *topics: str) -> None:
        self.address = address
        self.topics = topics

    def ids(self) -> dict[str, UUID]:
        found = asking.metadata(self.address, *self.topics)
        return {topic.name: topic.topic_id for topic in found.topics if topic.topic_id is not None}

    def beat(
        self, group: str, member: str, epoch: int, version: int = 1, *, topics: Sequence[str] | None = None,
        pattern: str | None = None, owned: Owned | None = None, timeout_ms: int = -1, instance: str | None = None,
        rack: str | None = None, assignor: str | None = None,
    ) -> Told:  # fmt: skip
        ids = self.ids() if owned else {}
        rows = None
        if owned is not None:
            rows = [{"topic_id": ids.get(name, UUID(int=99)), "partitions": numbers} for name, numbers in owned.items()]
        answer = ask(
            self.address, asking.CONSUMER_GROUP_HEARTBEAT, version, group_id=group, member_id=member,
            member_epoch=epoch, instance_id=instance, rack_id=rack,
            rebalance_timeout=timedelta(milliseconds=timeout_ms), subscribed_topic_names=topics,
            subscribed_topic_regex=pattern, server_assignor=assignor, topic_partitions=rows,
        )  # fmt: skip
        assigned = None
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self.ids().items()}
            assigned = {
                names.get(row.topic_id, "?"): sorted(row.partitions) for row in answer.assignment.topic_partitions
            }
        interval_ms = answer.heartbeat_interval // timedelta(milliseconds=1)
        return Told(
            answer.error_code.name, answer.error_message, answer.member_id, answer.member_epoch, interval_ms, assigned
        )  # fmt: skip

    def join(self, group: str, member: str, topics: Sequence[str] | None = ("t",), **said: Any) -> Told:
        first: dict[str, Any] = {"owned": {}, "timeout_ms": REBALANCE_MS}
        return self.beat(group, member, 0, topics=topics, **(first | said))

    def leave(self, group: str, member: str, **said: Any) -> Told:
        return self.beat(group, member, -1, **said)

    def describe(self, group: str, version: int = 1) -> dict[str, Any]:
        (found,) = ask(
            self.address, asking.CONSUMER_GROUP_DESCRIBE, version, group_ids=[group], include_authorized_operations=True
        ).groups
        return {
            "error": found.error_code.name,
            "message": found.error_message,
            "state": found.group_state,
            "epochs": (found.group_epoch, found.assignment_epoch),
            "assignor": found.assignor_name,
            "operations": found.authorized_operations,
            "members": sorted(_member(member, version) for member in found.members),
        }

    def listed(self, **filters: Sequence[str]) -> list[tuple[str, str, str, str]]:
        given: dict[str, Sequence[str]] = {"states_filter": [], "types_filter": []} | filters
        found = ask(self.address, asking.LIST_GROUPS, 5, **given).groups
        return sorted((row.group_id, row.protocol_type, row.group_state, row.group_type) for row in found)


def _member(member: Any, version: int) -> tuple[Any, ...]:
    return (
        member.member_id, member.instance_id, member.rack_id, member.member_epoch, member.client_id,
        sorted(member.subscribed_topic_names), member.subscribed_topic_regex, _parts(member.assignment),
        _parts(member.target_assignment), member.member_type if version >= 1 else None,
    )  # fmt: skip


def _parts(assignment: Any) -> list[tuple[str, list[int]]]:
    return sorted((row.topic_name, sorted(row.partitions)) for row in assignment.topic_partitions)
