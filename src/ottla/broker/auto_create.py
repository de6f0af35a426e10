"""Topics that come to be because a client asked for their metadata, or for the coordinator that needs one."""

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
        """`internal` are the topics of coordinators, which know how many partitions they have and how they are kept."""
        self._controller = controller
        self._internal = internal
        self._under_way: dict[str, None] = {}
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
            _log.warning("%s could not be created on a client's first use: %s", ", ".join(names), error)
            return
        finally:
            for name in names:
                del self._under_way[name]
        for topic in created:
            if topic.error.code not in (ErrorCode.none, ErrorCode.topic_already_exists):
                _log.warning("%s could not be created on a client's first use: %s", topic.name, topic.error.message)

    def _new(self, name: str) -> NewTopic:
        internal = self._internal.get(name)
        return NewTopic(name) if internal is None else internal()

    async def stop(self) -> None:
        await self._tasks.stop()
