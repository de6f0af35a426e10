"""Topics that come to be because a client asked for their metadata, or because a part of the broker needs one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping

from ottla.env.tasks import Tasks
from ottla.metadata.controller.requests import CreateTopics, NewTopic
from ottla.metadata.controller_port import ControllerPort
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import INTERNAL_TOPICS

_log = logging.getLogger("ottla.broker")


class AutoCreate:
    """Asks the controller and does not wait: the client is told that the topic is unknown, and asks again."""

    def __init__(self, controller: ControllerPort, internal: Mapping[str, Callable[[], NewTopic]]) -> None:
        """`internal` are those of the broker's parts, who know how many partitions each has and how it is kept."""
        self._controller = controller
        self._internal = internal
        self._under_way: dict[str, None] = {}
        self._why_not: dict[str, str] = {}  # of internal ones, which are asked for again and again until they are there
        self._tasks = Tasks(lambda error: _log.error("topics could not be created: %s", error))

    def start(self, names: Iterable[str]) -> None:
        unknown = INTERNAL_TOPICS - self._internal.keys()
        wanted = [name for name in names if name not in self._under_way and name not in unknown]
        if wanted:
            self._under_way.update(dict.fromkeys(wanted))
            self._tasks.start(self._create(wanted), "create topics")

    async def _create(self, names: list[str]) -> None:
        try:
            created = await self._controller.submit(CreateTopics(tuple(map(self._new, names))))
        except KafkaError as error:
            for name in names:
                self._tell(name, str(error))
            return
        finally:
            for name in names:
                del self._under_way[name]
        for topic in created:
            if topic.error.code in (ErrorCode.none, ErrorCode.topic_already_exists):
                self._why_not.pop(topic.name, None)
            else:
                self._tell(topic.name, str(topic.error.message))

    def _tell(self, name: str, why: str) -> None:
        if self._why_not.get(name) == why:
            return
        if name in self._internal:
            self._why_not[name] = why
            _log.warning("%s, which is needed here, could not be created: %s", name, why)
        else:
            _log.warning("%s could not be created on a client's first use: %s", name, why)

    def _new(self, name: str) -> NewTopic:
        internal = self._internal.get(name)
        return NewTopic(name) if internal is None else internal()

    async def stop(self) -> None:
        await self._tasks.stop()
