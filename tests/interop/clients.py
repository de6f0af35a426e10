"""Three real clients behind one face, so that a test says once what must hold for each of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, Protocol

from tests.waiting import PATIENCE_S

WITHIN_S: Final = PATIENCE_S


class Sent(NamedTuple):
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes], ...] = ()
    timestamp: int | None = None
    partition: int | None = None


class Received(NamedTuple):
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp: int
    is_log_append_time: bool


class Refused(Exception):
    """A record that the node refused; `code` is the error's number."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{text} ({code})")
        self.code = code


class Client(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def codecs(self) -> tuple[str, ...]: ...

    def produce(
        self, address: str, topic: str, records: Iterable[Sent], *, acks: int = -1, codec: str = "none",
        idempotent: bool = False, max_request: int = 1_000_000,
    ) -> list[tuple[int, int]]:  # fmt: skip
        """Partition and offset of each record; offset -1 with acks=0. Raises Refused."""

    def consume(
        self, address: str, topic: str, count: int, *, start: Mapping[int, int] | None = None,
        read_committed: bool = False, fetch_max: int | None = None, partition_max: int | None = None,
    ) -> list[Received]:  # fmt: skip
        """So many records of all partitions, from the beginning or from an offset of each partition."""

    def offsets_for_times(self, address: str, topic: str, timestamps: Sequence[int]) -> list[int | None]:
        """The first offset of partition 0 at or after each time; None if there is none."""

    def first_and_end(self, address: str, topic: str, partition: int) -> tuple[int, int]: ...


class Confluent:
    name = "confluent"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(
        self, address: str, topic: str, records: Iterable[Sent], *, acks: int = -1, codec: str = "none",
        idempotent: bool = False, max_request: int = 1_000_000,
    ) -> list[tuple[int, int]]:  # fmt: skip
        from confluent_kafka import Producer

        producer = Producer(
            {
                "bootstrap.servers": address, "acks": acks, "compression.type": codec, "linger.ms": 1,
                "enable.idempotence": idempotent, "message.max.bytes": max_request,
                "delivery.timeout.ms": int(WITHIN_S * 1000),
            }
        )  # fmt: skip
        places: dict[int, tuple[int, int]] = {}
        errors: list[Any] = []

        def delivered(number: int, error: Any, message: Any) -> None:
            if error is not None:
                errors.append(error)
            else:
                places[number] = (message.partition(), message.offset())

        for number, record in enumerate(records):
            options: dict[str, Any] = {}
            if record.partition is not None:
                options["partition"] = record.partition
            if record.timestamp is not None:
                options["timestamp"] = record.timestamp
            if record.headers:
                options["headers"] = list(record.headers)
            producer.produce(
                topic, record.value, record.key,
                on_delivery=partial(delivered, number), **options,
            )  # fmt: skip
        assert producer.flush(WITHIN_S) == 0, f"not all records were delivered within {WITHIN_S} s"
        if errors:
            raise Refused(errors[0].code(), errors[0].str())
        return [places[number] for number in sorted(places)]

    def _consumer(self, address: str, **more: Any) -> Any:
        from confluent_kafka import Consumer

        return Consumer(
            {"bootstrap.servers": address, "group.id": "none", "enable.auto.commit": False, "fetch.wait.max.ms": 100}
            | {name.replace("_", "."): value for name, value in more.items()}
        )

    def consume(
        self, address: str, topic: str, count: int, *, start: Mapping[int, int] | None = None,
        read_committed: bool = False, fetch_max: int | None = None, partition_max: int | None = None,
    ) -> list[Received]:  # fmt: skip
        from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_LOG_APPEND_TIME, TopicPartition

        options: dict[str, Any] = {"isolation_level": "read_committed" if read_committed else "read_uncommitted"}
        if fetch_max is not None:
            options |= {"fetch_max_bytes": fetch_max, "message_max_bytes": min(fetch_max, 1_000_000)}
        if partition_max is not None:
            options["max_partition_fetch_bytes"] = partition_max
        consumer = self._consumer(address, **options)
        try:
            if start is None:
                partitions = consumer.list_topics(topic, WITHIN_S).topics[topic].partitions
                start = dict.fromkeys(partitions, OFFSET_BEGINNING)
            consumer.assign([TopicPartition(topic, number, offset) for number, offset in start.items()])
            received: list[Received] = []
            deadline = time.monotonic() + WITHIN_S
            while len(received) < count and time.monotonic() < deadline:
                for message in consumer.consume(count - len(received), 0.2):
                    if message.error() is not None:
                        raise Refused(message.error().code(), message.error().str())
                    kind, timestamp = message.timestamp()
                    received.append(
                        Received(
                            message.partition(),
                            message.offset(),
                            message.key(),
                            message.value(),
                            tuple(message.headers() or ()),
                            timestamp,
                            kind == TIMESTAMP_LOG_APPEND_TIME,
                        )
                    )
            return received
        finally:
            consumer.close()

    def offsets_for_times(self, address: str, topic: str, timestamps: Sequence[int]) -> list[int | None]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(address)
        try:
            asked = [[TopicPartition(topic, 0, timestamp)] for timestamp in timestamps]
            offsets = [consumer.offsets_for_times(one, WITHIN_S)[0].offset for one in asked]
            return [offset if offset >= 0 else None for offset in offsets]
        finally:
            consumer.close()

    def first_and_end(self, address: str, topic: str, partition: int) -> tuple[int, int]:
        from confluent_kafka import TopicPartition

        consumer = self._consumer(address)
        try:
            first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WITHIN_S, cached=False)
            return first, end
        finally:
            consumer.close()


class KafkaPython:
    name = "kafka-python"
    codecs = ("none", "gzip", "lz4", "zstd", *(("snappy",) if find_spec("snappy") else ()))

    def produce(
        self, address: str, topic: str, records: Iterable[Sent], *, acks: int = -1, codec: str = "none",
        idempotent: bool = False, max_request: int = 1_000_000,
    ) -> list[tuple[int, int]]:  # fmt: skip
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        producer = KafkaProducer(
            bootstrap_servers=address, acks="all" if acks == -1 else acks, linger_ms=1, enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec, max_request_size=max_request,
            delivery_timeout_ms=int(WITHIN_S * 1000), request_timeout_ms=int(WITHIN_S * 500),
        )  # fmt: skip
        try:
            futures = [
                producer.send(topic, record.value, record.key, list(record.headers), record.partition, record.timestamp)
                for record in records
            ]
            producer.flush(WITHIN_S)
            places = []
            for future in futures:
                try:
                    told = future.get(WITHIN_S)
                except KafkaError as error:
                    raise Refused(getattr(error, "errno", -1), str(error)) from error
                places.append((told.partition, told.offset))
            return places
        finally:
            producer.close(WITHIN_S)

    def _consumer(self, address: str, **more: Any) -> Any:
        from kafka import KafkaConsumer

        return KafkaConsumer(
            bootstrap_servers=address, group_id=None, auto_offset_reset="earliest", fetch_max_wait_ms=100, **more
        )

    def consume(
        self, address: str, topic: str, count: int, *, start: Mapping[int, int] | None = None,
        read_committed: bool = False, fetch_max: int | None = None, partition_max: int | None = None,
    ) -> list[Received]:  # fmt: skip
        from kafka import TopicPartition

        options: dict[str, Any] = {"isolation_level": "read_committed" if read_committed else "read_uncommitted"}
        if fetch_max is not None:
            options["fetch_max_bytes"] = fetch_max
        if partition_max is not None:
            options["max_partition_fetch_bytes"] = partition_max
        consumer = self._consumer(address, **options)
        try:
            numbers = list(start) if start is not None else sorted(consumer.partitions_for_topic(topic))
            consumer.assign([TopicPartition(topic, number) for number in numbers])
            for number in numbers:
                if start is None:
                    consumer.seek_to_beginning(TopicPartition(topic, number))
                else:
                    consumer.seek(TopicPartition(topic, number), start[number])
            received: list[Received] = []
            deadline = time.monotonic() + WITHIN_S
            while len(received) < count and time.monotonic() < deadline:
                for messages in consumer.poll(200).values():
                    received += [
                        Received(
                            m.partition, m.offset, m.key, m.value, tuple(m.headers), m.timestamp, m.timestamp_type == 1
                        )
                        for m in messages
                    ]
            return received[:count]
        finally:
            consumer.close()

    def offsets_for_times(self, address: str, topic: str, timestamps: Sequence[int]) -> list[int | None]:
        from kafka import TopicPartition

        consumer, where = self._consumer(address), TopicPartition(topic, 0)
        try:
            found = [consumer.offsets_for_times({where: timestamp}).get(where) for timestamp in timestamps]
            return [at.offset if at is not None else None for at in found]
        finally:
            consumer.close()

    def first_and_end(self, address: str, topic: str, partition: int) -> tuple[int, int]:
        from kafka import TopicPartition

        consumer, where = self._consumer(address), TopicPartition(topic, partition)
        try:
            return consumer.beginning_offsets([where])[where], consumer.end_offsets([where])[where]
        finally:
            consumer.close()


class Aiokafka:
    name = "aiokafka"
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")

    def produce(
        self, address: str, topic: str, records: Iterable[Sent], *, acks: int = -1, codec: str = "none",
        idempotent: bool = False, max_request: int = 1_000_000,
    ) -> list[tuple[int, int]]:  # fmt: skip
        return asyncio.run(self._produce(address, topic, list(records), acks, codec, idempotent, max_request))

    async def _produce(
        self, address: str, topic: str, records: Sequence[Sent], acks: int, codec: str, idempotent: bool,
        max_request: int,
    ) -> list[tuple[int, int]]:  # fmt: skip
        from aiokafka import AIOKafkaProducer
        from aiokafka.errors import KafkaError

        producer = AIOKafkaProducer(
            bootstrap_servers=address, acks="all" if acks == -1 else acks, enable_idempotence=idempotent,
            compression_type=None if codec == "none" else codec, max_request_size=max_request,
        )  # fmt: skip
        await producer.start()
        try:
            futures = [
                await producer.send(
                    topic, record.value, record.key, record.partition, record.timestamp, list(record.headers)
                )
                for record in records
            ]
            async with asyncio.timeout(WITHIN_S):
                told = [await future for future in futures]
            # with acks=0 there is nothing to tell
            return [(one.partition, one.offset) if one is not None else (-1, -1) for one in told]
        except KafkaError as error:
            raise Refused(getattr(error, "errno", -1), str(error)) from error
        finally:
            await producer.stop()

    def consume(
        self, address: str, topic: str, count: int, *, start: Mapping[int, int] | None = None,
        read_committed: bool = False, fetch_max: int | None = None, partition_max: int | None = None,
    ) -> list[Received]:  # fmt: skip
        options: dict[str, Any] = {"isolation_level": "read_committed" if read_committed else "read_uncommitted"}
        if fetch_max is not None:
            options["fetch_max_bytes"] = fetch_max
        if partition_max is not None:
            options["max_partition_fetch_bytes"] = partition_max
        return asyncio.run(self._consume(address, topic, count, start, options))

    async def _consume(
        self, address: str, topic: str, count: int, start: Mapping[int, int] | None, options: dict[str, Any]
    ) -> list[Received]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        # Without a group, a subscription is an assignment of all partitions.
        topics = [topic] if start is None else []
        consumer = AIOKafkaConsumer(
            *topics, bootstrap_servers=address, auto_offset_reset="earliest", fetch_max_wait_ms=100, **options
        )
        await consumer.start()
        try:
            if start is not None:
                consumer.assign([TopicPartition(topic, number) for number in start])
                for number, offset in start.items():
                    consumer.seek(TopicPartition(topic, number), offset)
            received: list[Received] = []
            deadline = time.monotonic() + WITHIN_S
            while len(received) < count and time.monotonic() < deadline:
                for messages in (await consumer.getmany(timeout_ms=200)).values():
                    received += [
                        Received(
                            m.partition, m.offset, m.key, m.value, tuple(m.headers), m.timestamp, m.timestamp_type == 1
                        )
                        for m in messages
                    ]
            return received[:count]
        finally:
            await consumer.stop()

    def offsets_for_times(self, address: str, topic: str, timestamps: Sequence[int]) -> list[int | None]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def ask() -> list[int | None]:
            async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
                where = TopicPartition(topic, 0)
                found = [(await consumer.offsets_for_times({where: timestamp}))[where] for timestamp in timestamps]
                return [at.offset if at is not None else None for at in found]

        return asyncio.run(ask())

    def first_and_end(self, address: str, topic: str, partition: int) -> tuple[int, int]:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        async def ask() -> tuple[int, int]:
            async with AIOKafkaConsumer(bootstrap_servers=address) as consumer:
                where = TopicPartition(topic, partition)
                return (await consumer.beginning_offsets([where]))[where], (await consumer.end_offsets([where]))[where]

        return asyncio.run(ask())


CLIENTS: Final[tuple[Client, ...]] = (Confluent(), KafkaPython(), Aiokafka())
