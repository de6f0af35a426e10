"""Members of groups of the consumer protocol (KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from tests.broker.apis.asking import OFFSET_COMMIT, OFFSET_FETCH
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, ms
from tests.waiting import attempts

CONSUMER_GROUP_HEARTBEAT, CONSUMER_GROUP_DESCRIBE = 68, 69
LEAVES, LEAVES_FOR_A_WHILE = -1, -2
_NOT_SAID: Final = timedelta(milliseconds=-1)


class Modern:
    """It keeps what it was told last: its epoch and its partitions."""

    def __init__(self, talk: Talk, name: str, group: str, instance: str | None = None, version: int = 1) -> None:
        self.talk, self.name, self.group, self.instance, self.version = talk, name, group, instance, version
        self.id = name
        self.epoch = 0
        self.owned: tuple[Any, ...] = ()

    def join(self, topics: Sequence[str] | None = (ORDERS,), **values: Any) -> Any:
        given = {"rebalance_timeout": ms(5000), "subscribed_topic_names": topics, "topic_partitions": []}
        return self.heartbeat(**{"member_epoch": 0} | given | values)

    def heartbeat(self, **values: Any) -> Any:
        return self._take(self.talk.ask(self.name, CONSUMER_GROUP_HEARTBEAT, self.version, **self._values(values)))

    def heartbeat_until(self, holds: Callable[[Any], bool], **values: Any) -> Any:
        return self._take(
            self.talk.ask_until(self.name, holds, CONSUMER_GROUP_HEARTBEAT, self.version, **self._values(values))
        )

    def settle(self, partitions: int) -> Any:
        """Until it has been given so many partitions; it says that it has them."""
        for _ in attempts(lambda: f"{self.name} has {self.owned}"):
            if _count(self.owned) == partitions:
                break
            values = self._values({"topic_partitions": self.places()})
            self._take(self.talk.murmur(self.name, CONSUMER_GROUP_HEARTBEAT, self.version, **values))
        return self.tell()

    def tell(self) -> Any:
        """That it has what it was given, and no more."""
        return self.heartbeat(topic_partitions=self.places())

    def leave(self, epoch: int = LEAVES) -> Any:
        return self.heartbeat(member_epoch=epoch)

    def places(self) -> list[dict[str, Any]]:
        return [{"topic_id": topic.topic_id, "partitions": topic.partitions} for topic in self.owned]

    def _values(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, "instance_id": self.instance,
            "rack_id": None, "rebalance_timeout": _NOT_SAID, "subscribed_topic_names": None,
            "subscribed_topic_regex": None, "server_assignor": None, "topic_partitions": None, **values,
        }  # fmt: skip

    def _take(self, answer: Any) -> Any:
        if not isinstance(answer, str) and not answer.error_code:
            self.id, self.epoch = answer.member_id or self.id, answer.member_epoch
            if answer.assignment is not None:
                self.owned = answer.assignment.topic_partitions
        return answer

    def describe(self, *groups: str, version: int = 1) -> Any:
        return self.talk.ask(
            "admin", CONSUMER_GROUP_DESCRIBE, version, group_ids=groups or [self.group],
            include_authorized_operations=False,
        )  # fmt: skip

    def commit(self, version: int = 9, **values: Any) -> Any:
        rows = [{"partition_index": 0, "committed_offset": 5, "committed_leader_epoch": -1, "committed_metadata": ""}]
        topics = [{"name": ORDERS, "topic_id": self.talk.topic_ids[ORDERS], "partitions": rows}]
        given = {
            "group_id": self.group, "generation_id_or_member_epoch": self.epoch, "member_id": self.id,
            "group_instance_id": self.instance, "retention_time": _NOT_SAID, "topics": topics,
        }  # fmt: skip
        return self.talk.ask(self.name, OFFSET_COMMIT, version, **given | values)

    def fetch(self, version: int = 9, **values: Any) -> Any:
        topics = [{"name": ORDERS, "topic_id": self.talk.topic_ids[ORDERS], "partition_indexes": [0, 1]}]
        group = {"group_id": self.group, "member_id": self.id, "member_epoch": self.epoch, "topics": topics} | values
        return self.talk.ask(self.name, OFFSET_FETCH, version, groups=[group], require_stable=False)


def _count(topics: Any) -> int:
    return sum(len(topic.partitions) for topic in topics)
