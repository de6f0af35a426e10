"""Consumers of three libraries that are members of a group, each in a thread that polls."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from tests.interop.clients import WITHIN_S

SESSION_MS: Final = 45_000
SHORT_SESSION_MS: Final = 2000
"""Of those who are to be missed soon. All others are patient: nobody is missed because the machine is slow."""


class GroupConsumer:
    """`assigned` and `received` say what it has; `close` leaves the group, `stop_polling` only falls silent."""

    def __init__(
        self, address: str, topic: str, group: str, assignor: str, instance_id: str | None = None,
        session_ms: int = SESSION_MS,
    ) -> None:  # fmt: skip
        self.address, self.topic, self.group, self.assignor = address, topic, group, assignor
        self.instance_id = instance_id
        self.session_ms = session_ms
        self.assigned: frozenset[int] = frozenset()
        self.received: list[tuple[int, int]] = []
        self.changes = 0  # how often it was told of partitions that come or go, where the library tells
        self._ends = threading.Event()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=group, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self.consume()
        except BaseException as error:
            self._failed = error
            raise

    def consume(self) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self._ends.set()
        self._thread.join(WITHIN_S)
        assert not self._thread.is_alive()
        assert self._failed is None


class ConfluentMember(GroupConsumer):
    name = "confluent"
    assignors: tuple[str, ...] = ("range", "roundrobin", "cooperative-sticky")

    def protocol(self) -> dict[str, Any]:
        return {
            "partition.assignment.strategy": self.assignor, "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": 200,
        }  # fmt: skip

    def consume(self) -> None:
        from confluent_kafka import Consumer

        config: dict[str, Any] = {
            "bootstrap.servers": self.address, "group.id": self.group, "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500, **self.protocol(),
        }  # fmt: skip
        if self.instance_id is not None:
            config["group.instance.id"] = self.instance_id
        consumer = Consumer(config)
        consumer.subscribe([self.topic], on_assign=self._changed, on_revoke=self._changed, on_lost=self._changed)
        while not self._ends.is_set():
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                self.received.append((message.partition() or 0, message.offset() or 0))
            self.assigned = frozenset(place.partition for place in consumer.assignment())
        consumer.close()

    def _changed(self, consumer: Any, partitions: Any) -> None:
        self.changes += 1


class ConsumerProtocolMember(ConfluentMember):
    """Speaks the consumer protocol (KIP-848): the coordinator assigns, and says how often it wants to be told."""

    name = "confluent-consumer"
    assignors = ("uniform", "range")

    def protocol(self) -> dict[str, Any]:
        return {"group.protocol": "consumer", "group.remote.assignor": self.assignor}


class KafkaPythonMember(GroupConsumer):
    name = "kafka-python"
    assignors = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        from kafka import KafkaConsumer
        from kafka.coordinator.assignors.range import RangePartitionAssignor
        from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        known = {
            "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }  # fmt: skip
        consumer = KafkaConsumer(
            self.topic, bootstrap_servers=self.address, group_id=self.group, auto_offset_reset="earliest",
            partition_assignment_strategy=[known[self.assignor]], session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=200, group_instance_id=self.instance_id,
        )  # fmt: skip
        while not self._ends.is_set():
            for records in consumer.poll(timeout_ms=50).values():
                self.received.extend((record.partition, record.offset) for record in records)
            self.assigned = frozenset(place.partition for place in consumer.assignment())
        consumer.close()


class AiokafkaMember(GroupConsumer):
    name = "aiokafka"
    assignors = ("range", "roundrobin", "sticky")

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        from aiokafka import AIOKafkaConsumer
        from aiokafka.coordinator.assignors.range import RangePartitionAssignor
        from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
        from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

        known = {
            "range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor,
            "sticky": StickyPartitionAssignor,
        }  # fmt: skip
        consumer = AIOKafkaConsumer(
            self.topic, bootstrap_servers=self.address, group_id=self.group, auto_offset_reset="earliest",
            partition_assignment_strategy=[known[self.assignor]], session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=200, group_instance_id=self.instance_id,
        )  # fmt: skip
        await consumer.start()
        while not self._ends.is_set():
            for records in (await consumer.getmany(timeout_ms=50)).values():
                self.received.extend((record.partition, record.offset) for record in records)
            self.assigned = frozenset(place.partition for place in consumer.assignment())
        await consumer.stop()


MEMBERS: Final = (ConfluentMember, KafkaPythonMember, AiokafkaMember)
ALL_MEMBERS: Final = {member.name: member for member in (*MEMBERS, ConsumerProtocolMember)}
