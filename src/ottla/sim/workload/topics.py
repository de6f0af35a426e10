"""Makes and deletes topics, and holds the node to what it acknowledged."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from ottla.model.errors import ErrorCode
from ottla.sim.workload.client import CREATE_TOPICS, DELETE_TOPICS, Client, KnownTopic, NoAnswer

_CREATE_VERSION: Final = 7
_DELETE_VERSION: Final = 6
_TIMEOUT: Final = timedelta(seconds=3)


class TopicKeeper:
    """The only one who makes and deletes the topics it is asked for, so it knows what must be there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._configs: dict[str, Mapping[str, str]] = {}

    async def create(self, name: str, partitions: int, configs: Mapping[str, str]) -> KnownTopic | None:
        """None if it is not known whether it exists now; then the next attempt asks for the same configs again."""
        configs = self._configs.setdefault(name, configs)
        wanted: dict[str, Any] = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": [{"name": config, "value": value} for config, value in configs.items()],
        }
        try:
            request = {"topics": [wanted], "timeout": _TIMEOUT, "validate_only": False}
            answer, life = await self._client.ask(CREATE_TOPICS, _CREATE_VERSION, request)
        except NoAnswer:
            return None
        (row,) = answer.topics
        if row.error_code is not ErrorCode.none:
            self._client.history.counts[f"create: {row.error_code.name}"] += 1
            return None
        topic = self._known(life, KnownTopic(name, row.topic_id, partitions))
        self._client.history.counts["topics created"] += 1
        self._client.history.moment()
        return topic

    async def create_surely(self, name: str, partitions: int, configs: Mapping[str, str]) -> KnownTopic:
        while (topic := await self.create(name, partitions, configs) or await self.find(name)) is None:
            await self._client.pause(0.05, 0.3)
        return topic

    async def find(self, name: str) -> KnownTopic | None:
        """What the node says of a topic that this keeper has made or tried to make."""
        try:
            connection = await self._client.connection()
            found = (await self._client.topics(name)).get(name)
        except NoAnswer:
            return None
        return None if found is None else self._known(connection.life, found)

    async def delete(self, topic: KnownTopic) -> bool:
        """True if it is known to be gone."""
        history = self._client.history
        story = history.topics[topic.id]
        if story.delete_asked_at is None:
            story.delete_asked_at = history.now()
        request = {"topics": [{"name": None, "topic_id": topic.id}], "timeout": _TIMEOUT}
        try:
            answer, life = await self._client.ask(DELETE_TOPICS, _DELETE_VERSION, request)
        except NoAnswer:
            return False
        (row,) = answer.responses
        if row.error_code in (ErrorCode.none, ErrorCode.unknown_topic_id):
            history.counts["topics deleted"] += 1
            self._configs.pop(topic.name, None)
            story.deleted_in_life = life
            history.moment()
            return True
        history.counts[f"delete: {row.error_code.name}"] += 1
        return False

    async def check(self, name: str, expected: UUID | None) -> None:
        """Asks for a topic whose state is known for certain."""
        try:
            found = (await self._client.topics(name)).get(name)
        except NoAnswer:
            return
        if (found.id if found else None) != expected:
            self._client.history.complain(f"{name} is {found}, but {expected} was acknowledged")

    def _known(self, life: int, topic: KnownTopic) -> KnownTopic:
        self._client.history.made(life, topic.name, topic.id, topic.partitions, self._configs.get(topic.name, {}))
        return topic
