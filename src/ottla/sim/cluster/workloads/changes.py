"""Somebody changes the cluster all the time: topics come, grow and go, replicas move, leaders and configs change.

What was acknowledged stays so: each thing that is changed is a register with one writer. What nobody answered may have
been carried out or not, and may be so later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, ClassVar, Final
from uuid import UUID

from ottla.metadata.image import MetadataImage
from ottla.model.errors import ErrorCode
from ottla.sim.cluster.elections import elect
from ottla.sim.cluster.logs import ReplicaLogs
from ottla.sim.cluster.plan import TopicShape
from ottla.sim.cluster.producers import send
from ottla.sim.cluster.topics import create
from ottla.sim.cluster.wanted import Wanted
from ottla.sim.cluster.workload import Workload
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.batches import Values
from ottla.sim.workload.client import DELETE_TOPICS, KnownTopic, NoAnswer

CREATE_PARTITIONS, ALTER_REASSIGNMENTS, ALTER_CONFIGS = 37, 45, 44
_BY_ID: Final = 13
_FLEETING: Final = ("fleeting-a", "fleeting-b")
_TIMEOUT: Final = timedelta(seconds=3)
_TOPIC, _SET = 2, 0
_CONFIG: Final = "max.message.bytes"
_MOST_PARTITIONS: Final = 4


class Changes(Workload):
    name: ClassVar[str] = "changes"

    def start(self) -> None:
        self._client = self.cast.client("admin")
        self._random = self.cast.random(self.name)
        self._values = Values("admin", self._random, _BY_ID)
        self._there: dict[str, KnownTopic] = {}
        self._gone: dict[UUID, str] = {}
        self._replicas: dict[PartitionId, Wanted] = {}
        self._configs: dict[str, Wanted] = {}
        self._sizes: dict[UUID, Wanted] = {}
        self._running: Process[None] = self.cast.start(self._client, self._run)

    async def _run(self) -> None:
        steps = (
            self._topics,
            self._topics,
            self._grow,
            self._write,
            self._move,
            self._move,
            self._elect,
            self._configure,
        )
        while not self._client.stopping:
            await self._random.choice(steps)()
            await self._client.pause(0.3, 2.5)

    async def finish(self) -> None:
        self._client.stopping = True
        await self._running
        while self._is_moving():
            await asyncio.sleep(0.2)

    def unfinished(self) -> list[str]:
        return [self._running.name] if not self._running.done() else []

    async def _ask(self, key: int, version: int, values: dict[str, Any]) -> Any | None:
        try:
            return await self._client.ask_any(key, version, values)
        except NoAnswer:
            await self._client.refresh()
            return None

    def _counted(self, what: str, code: ErrorCode) -> bool:
        self._client.oracle.counts[f"{what}: {code.name}"] += 1
        return code is ErrorCode.none

    # -- topics that come, grow and go

    async def _topics(self) -> None:
        name = self._random.choice(_FLEETING)
        if (topic := self._there.get(name)) is not None:
            await self._delete(topic)
        else:
            shape = TopicShape(name, self._random.choice((1, 2)), 2, {"internal.segment.bytes": "3000"})
            topic = await create(self._client, shape, gone=self._gone)
            self._there[name] = topic
            self._sizes[topic.id] = Wanted(topic.partitions)

    async def _delete(self, topic: KnownTopic) -> None:
        """As often as it takes to know that it is gone."""
        for number in range(_MOST_PARTITIONS):
            self._client.oracle.forget(PartitionId(topic.id, number))
        while True:
            request = {"topics": [{"name": None, "topic_id": topic.id}], "timeout": _TIMEOUT}
            answer = await self._ask(DELETE_TOPICS, 6, request)
            if answer is not None:
                code = answer.responses[0].error_code
                if self._counted("delete topic", code) or code is ErrorCode.unknown_topic_id:
                    break
            await self._client.pause(0.1, 0.5)
        del self._there[topic.name]
        self._gone[topic.id] = topic.name

    async def _grow(self) -> None:
        for topic in list(self._there.values()):
            if topic.partitions >= _MOST_PARTITIONS:
                continue
            count = topic.partitions + 1
            size = self._sizes[topic.id]
            size.asks(count)
            wanted = [{"name": topic.name, "count": count, "assignments": None}]
            request = {"topics": wanted, "timeout": _TIMEOUT, "validate_only": False}
            answer = await self._ask(CREATE_PARTITIONS, 3, request)
            if answer is None:
                size.unanswered(count)
            elif self._counted("create partitions", answer.results[0].error_code):
                size.acknowledged(count)
                self._there[topic.name] = KnownTopic(topic.name, topic.id, count)
                self._client.oracle.watch(PartitionId(topic.id, count - 1), f"{topic.name}-{count - 1}")
            return

    async def _write(self) -> None:
        for topic in self._there.values():
            key = PartitionId(topic.id, self._random.randrange(topic.partitions))
            batch = self._values.batch(topic.name, key, self._client.env.clock.now_ms())
            leader = self._client.leaders.get(key)
            if leader is None or leader.id < 0:
                await self._client.refresh()
            else:
                await send(self._client, leader.id, -1, (batch,), version=_BY_ID)

    # -- where replicas are, and who leads

    def _some_partition(self) -> tuple[KnownTopic, PartitionId]:
        topic = self._random.choice(list(self.cast.topics.values()))
        return topic, PartitionId(topic.id, self._random.randrange(topic.partitions))

    async def _move(self) -> None:
        topic, key = self._some_partition()
        (size,) = (shape.replicas for shape in self.cast.plan.topics if shape.name == topic.name)
        replicas = tuple(self._random.sample(self.cast.plan.shape.brokers, size))
        wanted = self._replicas.setdefault(key, Wanted(tuple(self._client.oracle.partitions[key].replicas)))
        wanted.asks(replicas)
        row = {"partition_index": key.partition, "replicas": list(replicas)}
        request = {"timeout": _TIMEOUT, "topics": [{"name": topic.name, "partitions": [row]}]}
        answer = await self._ask(ALTER_REASSIGNMENTS, 0, request)
        if answer is None:
            wanted.unanswered(replicas)
            return
        code = answer.responses[0].partitions[0].error_code if answer.responses else answer.error_code
        if self._counted("reassignment", code):
            wanted.acknowledged(replicas)

    async def _elect(self) -> None:
        _, key = self._some_partition()
        await elect(self._client, self._client.oracle.partitions[key], unclean=False)

    def _is_moving(self) -> bool:
        image = self._client.oracle.image
        assert image is not None
        partitions = (image.partition(*key) for key in self._replicas)
        return any(each is not None and (each.adding_replicas or each.removing_replicas) for each in partitions)

    # -- configs

    async def _configure(self) -> None:
        topic, _ = self._some_partition()
        value = str(1_000_000 + self._random.randrange(1000))
        wanted = self._configs.setdefault(topic.name, Wanted())
        wanted.asks(value)
        config = {"name": _CONFIG, "config_operation": _SET, "value": value}
        resource = {"resource_type": _TOPIC, "resource_name": topic.name, "configs": [config]}
        answer = await self._ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
        if answer is None:
            wanted.unanswered(value)
        elif self._counted("alter configs", answer.responses[0].error_code):
            wanted.acknowledged(value)

    # -- the last look

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        image = self._client.oracle.image
        assert image is not None
        yield from self._check_topics(image)
        for key, replicas in self._replicas.items():
            partition = image.partition(*key)
            found = None if partition is None else partition.replicas
            if not replicas.allows(found):
                yield f"{self._client.oracle.name(key)} is at {found}; {replicas.kept} was acknowledged"
        for name, value in self._configs.items():
            now = image.topic_config(name).get(_CONFIG)
            if not value.allows(now):
                yield f"{_CONFIG} of {name} is {now}; {value.kept} was acknowledged"

    def _check_topics(self, image: MetadataImage) -> Iterator[str]:
        for topic_id, name in self._gone.items():
            if topic_id in image.topics:
                yield f"{name} ({topic_id}) is there, although its deletion was acknowledged"
        for topic in self._there.values():
            found = image.topics.get(topic.id)
            size = None if found is None else len(found.partitions)
            if not self._sizes[topic.id].allows(size):
                yield f"{topic.name} ({topic.id}) has {size} partitions, not {self._sizes[topic.id].kept}"
