"""Transactional producers of real clients: what they commit is read, what they abort is not, zombies are fenced."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import ProducerFenced
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.interop.clients import WITHIN_S, Client
from tests.interop.conftest import NewTopic

from ottla.testing.process import NodeProcess

_numbers = count()
Values = list[bytes | None]
Write = Callable[[str, str, str, list[tuple[bool, list[bytes]]]], None]


def with_confluent(address: str, name: str, topic: str, transactions: list[tuple[bool, list[bytes]]]) -> None:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name})
    producer.init_transactions(WITHIN_S)
    for is_commit, values in transactions:
        producer.begin_transaction()
        for number, value in enumerate(values):
            producer.produce(topic, value, partition=number % 2)
        producer.flush(WITHIN_S)
        (producer.commit_transaction if is_commit else producer.abort_transaction)(WITHIN_S)


def with_aiokafka(address: str, name: str, topic: str, transactions: list[tuple[bool, list[bytes]]]) -> None:
    async def run() -> None:
        producer = AIOKafkaProducer(bootstrap_servers=address, transactional_id=name)
        await producer.start()
        try:
            for is_commit, values in transactions:
                await producer.begin_transaction()
                for number, value in enumerate(values):
                    await producer.send_and_wait(topic, value, partition=number % 2)
                await (producer.commit_transaction() if is_commit else producer.abort_transaction())
        finally:
            await producer.stop()

    asyncio.run(asyncio.wait_for(run(), WITHIN_S))


@pytest.mark.parametrize("write", [with_confluent, with_aiokafka])
def test_readers_of_committed_records_get_these_and_no_others(
    node: NodeProcess, new_topic: NewTopic, client: Client, write: Write
) -> None:
    topic = new_topic(partitions=2)
    transactions = [
        (number % 3 != 1, [b"%d-%d" % (number, each) for each in range(4)]) for number in range(6)
    ]  # fmt: skip
    write(node.address, f"tx-{next(_numbers)}", topic, transactions)

    committed = [value for is_commit, values in transactions if is_commit for value in values]
    everything = [value for _, values in transactions for value in values]
    read = client.consume(node.address, topic, len(committed), read_committed=True)
    assert sorted(record.value or b"" for record in read) == sorted(committed)
    read = client.consume(node.address, topic, len(everything))
    assert sorted(record.value or b"" for record in read) == sorted(everything)


def test_a_zombie_is_fenced(node: NodeProcess, new_topic: NewTopic) -> None:
    topic, name = new_topic(), f"tx-{next(_numbers)}"
    zombie = Producer({"bootstrap.servers": node.address, "transactional.id": name})
    zombie.init_transactions(WITHIN_S)
    zombie.begin_transaction()
    zombie.produce(topic, b"of the zombie")
    zombie.flush(WITHIN_S)

    heir = Producer({"bootstrap.servers": node.address, "transactional.id": name})
    heir.init_transactions(WITHIN_S)
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(WITHIN_S)

    assert fenced.value.args[0].code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH)
    heir.begin_transaction()
    heir.produce(topic, b"of the heir")
    heir.commit_transaction(WITHIN_S)
    assert _committed_values(node.address, topic) == [b"of the heir"]


def test_a_zombie_with_aiokafka_is_fenced(node: NodeProcess, new_topic: NewTopic) -> None:
    topic, name = new_topic(), f"tx-{next(_numbers)}"

    async def run() -> None:
        zombie = AIOKafkaProducer(bootstrap_servers=node.address, transactional_id=name)
        heir = AIOKafkaProducer(bootstrap_servers=node.address, transactional_id=name)
        await zombie.start()
        try:
            await zombie.begin_transaction()
            await zombie.send_and_wait(topic, b"of the zombie")
            await heir.start()
            with pytest.raises(ProducerFenced):
                await zombie.commit_transaction()
            async with heir.transaction():
                await heir.send(topic, b"of the heir")
        finally:
            await zombie.stop()
            await heir.stop()

    asyncio.run(asyncio.wait_for(run(), WITHIN_S))
    assert _committed_values(node.address, topic) == [b"of the heir"]


def test_offsets_go_with_the_transaction(node: NodeProcess, new_topic: NewTopic) -> None:
    source, sink, group = new_topic(), new_topic(), f"group-{next(_numbers)}"
    with_confluent(node.address, f"tx-{next(_numbers)}", source, [(True, [b"1"]), (True, [b"2"])])
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": group, "enable.auto.commit": False,
         "auto.offset.reset": "earliest", "isolation.level": "read_committed"}
    )  # fmt: skip
    consumer.subscribe([source])
    producer = Producer({"bootstrap.servers": node.address, "transactional.id": f"tx-{next(_numbers)}"})
    producer.init_transactions(WITHIN_S)
    for is_commit in (True, False):
        message = None
        while message is None:
            message = consumer.poll(1)
        assert message.error() is None
        producer.begin_transaction()
        producer.produce(sink, message.value())
        producer.send_offsets_to_transaction(
            consumer.position([TopicPartition(source, 0)]), consumer.consumer_group_metadata(), WITHIN_S
        )
        (producer.commit_transaction if is_commit else producer.abort_transaction)(WITHIN_S)
        done = consumer.committed([TopicPartition(source, 0)], WITHIN_S)[0].offset
        if is_commit:
            first = done
        assert done == first
    consumer.close()
    assert _committed_values(node.address, sink) == [b"1"]


def test_aiokafka_moves_records_with_their_offsets(node: NodeProcess, new_topic: NewTopic) -> None:
    source, sink, group = new_topic(), new_topic(), f"group-{next(_numbers)}"
    with_confluent(node.address, f"tx-{next(_numbers)}", source, [(True, [b"1", b"2"][:1]), (True, [b"3"])])

    async def run() -> int | None:
        consumer = AIOKafkaConsumer(
            source, bootstrap_servers=node.address, group_id=group, enable_auto_commit=False,
            auto_offset_reset="earliest", isolation_level="read_committed",
        )  # fmt: skip
        producer = AIOKafkaProducer(bootstrap_servers=node.address, transactional_id=f"tx-{next(_numbers)}")
        await consumer.start()
        await producer.start()
        try:
            for _ in range(2):
                message = await consumer.getone()
                async with producer.transaction():
                    await producer.send(sink, message.value)
                    here = AioTopicPartition(source, 0)
                    await producer.send_offsets_to_transaction({here: message.offset + 1}, group)
            offset: int | None = await consumer.committed(AioTopicPartition(source, 0))
            return offset
        finally:
            await producer.stop()
            await consumer.stop()

    assert asyncio.run(asyncio.wait_for(run(), WITHIN_S)) == 3  # the first one's marker is between them
    assert _committed_values(node.address, sink) == [b"1", b"3"]


def _committed_values(address: str, topic: str) -> Values:
    consumer = Consumer(
        {"bootstrap.servers": address, "group.id": "looking", "isolation.level": "read_committed",
         "enable.partition.eof": True, "auto.offset.reset": "earliest"}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Values = []
    while (message := consumer.poll(WITHIN_S)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found
