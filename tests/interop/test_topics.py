"""Topics that come, go and come back under clients that hold them."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from tests.interop.clients import CLIENTS, WITHIN_S, Client, Confluent, Sent
from tests.interop.conftest import NewTopic, create_topic, delete_topic
from tests.interop.raw import FETCH, Raw, fetch_values, frame
from tests.waiting import NEVER_MS, PATIENCE_S, until

from ottla.testing.process import NodeProcess, running_process


def test_a_topic_comes_to_be_with_its_first_record(node: NodeProcess, client: Client) -> None:
    topic = f"first-record-of-{client.name}"
    places = client.produce(node.address, topic, [Sent(None, b"%d" % n) for n in range(10)])
    assert [offset for _, offset in places] == list(range(10))
    for reader in CLIENTS:
        assert len(reader.consume(node.address, topic, 10)) == 10


def test_no_topic_comes_to_be_where_the_config_forbids_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    from confluent_kafka import KafkaError
    from confluent_kafka.admin import AdminClient

    with running_process(tmp_path_factory.mktemp("no-auto"), auto_create_topics_enable=False) as strict:
        admin = AdminClient({"bootstrap.servers": strict.address})
        error = admin.list_topics("nothing", 5).topics["nothing"].error
        assert error is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        assert "nothing" not in admin.list_topics(timeout=PATIENCE_S).topics


def made_again(address: str, topic: str) -> None:
    """By this, or by the producer or consumer that asked for it in between: nodes make what is asked for."""
    with suppress(KafkaException):
        create_topic(address, topic, 1)


def test_a_confluent_producer_and_consumer_go_on_with_a_topic_that_was_deleted_and_made_again(
    node: NodeProcess, new_topic: NewTopic
) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = new_topic(partitions=1)
    fast = {"topic.metadata.refresh.interval.ms": 100, "metadata.max.age.ms": 1000}
    producer = Producer(
        {"bootstrap.servers": node.address, "linger.ms": 0, "delivery.timeout.ms": int(PATIENCE_S * 1000)} | fast
    )
    consumer = Consumer(
        {"bootstrap.servers": node.address, "group.id": "x", "auto.offset.reset": "earliest", "fetch.wait.max.ms": 50,
         "enable.auto.commit": False} | fast
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    delivered: dict[bytes, int] = {}

    def told(error: object, message: object) -> None:
        if error is None:
            delivered[message.value()] = message.offset()  # type: ignore[attr-defined]

    for number in range(50):
        producer.produce(topic, b"old %d" % number, on_delivery=told)
    producer.flush(PATIENCE_S)
    assert len(delivered) == 50
    assert len(consumer.consume(50, 10)) == 50
    old_id = topic_id(node.address, topic)

    # when it is deleted and made again, with another id
    delete_topic(node.address, topic)
    made_again(node.address, topic)
    assert topic_id(node.address, topic) != old_id

    # then the same producer writes to the new one, from offset 0 on
    def produced_again() -> bool:
        producer.produce(topic, b"new", on_delivery=told)
        producer.flush(2)
        return b"new" in delivered

    until(produced_again, "the producer writes to the new topic")
    assert delivered[b"new"] < 50

    # and the same consumer, whose offset is now out of range, finds it
    def read_again() -> bool:
        message = consumer.poll(0.2)
        return message is not None and message.error() is None and message.value() == b"new"

    until(read_again, "the consumer reads from the new topic")
    consumer.close()


def test_a_kafka_python_producer_and_consumer_go_on_with_a_topic_that_was_deleted_and_made_again(
    node: NodeProcess, new_topic: NewTopic
) -> None:
    from kafka import KafkaConsumer, KafkaProducer, TopicPartition
    from kafka.errors import KafkaError

    topic = new_topic(partitions=1)
    producer = KafkaProducer(bootstrap_servers=node.address, metadata_max_age_ms=200, retry_backoff_ms=20)
    consumer = KafkaConsumer(
        bootstrap_servers=node.address, group_id=None, auto_offset_reset="earliest", metadata_max_age_ms=200,
        fetch_max_wait_ms=50,
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0)])
    for number in range(50):
        producer.send(topic, b"old %d" % number)
    producer.flush(PATIENCE_S)
    seen: list[bytes] = []

    def poll() -> list[bytes]:
        for messages in consumer.poll(100).values():
            seen.extend(message.value for message in messages)
        return seen

    until(lambda: len(poll()) == 50, "all old records are read")

    delete_topic(node.address, topic)
    made_again(node.address, topic)

    def produced_again() -> bool:
        try:
            told = producer.send(topic, b"new").get(2)
        except KafkaError:
            return False
        return bool(told.offset < 50)

    until(produced_again, "the producer writes to the new topic")
    # The consumer asks by name, sees that the log is shorter than it knew it, and goes on from the end of the new one.
    until(lambda: b"new" in poll() or not produced_again(), "the consumer reads from the new topic")
    producer.close(5)
    consumer.close()


def test_an_aiokafka_producer_and_consumer_go_on_with_a_topic_that_was_deleted_and_made_again(
    node: NodeProcess, new_topic: NewTopic
) -> None:
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    topic = new_topic(partitions=1)

    async def story() -> None:
        options = {"bootstrap_servers": node.address, "metadata_max_age_ms": 200}
        async with (
            AIOKafkaProducer(**options) as producer,
            AIOKafkaConsumer(topic, auto_offset_reset="earliest", fetch_max_wait_ms=50, **options) as consumer,
        ):
            for number in range(50):
                await producer.send_and_wait(topic, b"old %d" % number)
            async with asyncio.timeout(WITHIN_S):
                for _ in range(50):
                    await consumer.getone()
                await asyncio.to_thread(delete_topic, node.address, topic)
                await asyncio.to_thread(made_again, node.address, topic)
                told = await producer.send_and_wait(topic, b"new")
                assert told.offset < 50
                while (await consumer.getone()).value != b"new":
                    pass

    asyncio.run(story())


def test_partitions_are_seen_by_all_clients_and_metadata_is_refreshed(node: NodeProcess, new_topic: NewTopic) -> None:
    from confluent_kafka.admin import AdminClient
    from kafka import KafkaConsumer

    admin = AdminClient({"bootstrap.servers": node.address})
    consumer = KafkaConsumer(bootstrap_servers=node.address, group_id=None, metadata_max_age_ms=100)
    topic = new_topic(partitions=7)
    assert set(admin.list_topics(topic, 5).topics[topic].partitions) == set(range(7))
    until(lambda: consumer.partitions_for_topic(topic) == set(range(7)), "kafka-python sees the partitions")
    delete_topic(node.address, topic)
    assert topic not in admin.list_topics(timeout=PATIENCE_S).topics
    until(lambda: topic not in consumer.topics(), "kafka-python sees that the topic is gone")
    consumer.close()


def topic_id(address: str, topic: str) -> str:
    from confluent_kafka import TopicCollection
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": address})
    described = admin.describe_topics(TopicCollection([topic]))[topic].result(WITHIN_S)
    return str(described.topic_id)


def test_an_answer_that_is_being_read_is_whole_though_its_topic_is_deleted(
    node: NodeProcess, new_topic: NewTopic
) -> None:
    topic = new_topic(file_delete_delay_ms=0)
    value = b"v" * 900_000
    Confluent().produce(node.address, topic, [Sent(None, value) for _ in range(20)])
    with Raw(node.port, receive_buffer=4096) as raw:
        raw.send(frame(FETCH, 11, **fetch_values({(topic, 0): 0}, partition_max_bytes=50_000_000)))
        beginning = raw.receive(1000)
        delete_topic(node.address, topic)
        until(lambda: not list(node.data.glob(f"{topic}-0*")), "the folder is removed")
        size = int.from_bytes(beginning[:4], "big")
        rest = raw.receive(size + 4 - len(beginning))
        assert (beginning + rest).count(value) == 20
        # a fetch of what is gone says so, at once, on the same connection
        values = fetch_values({(topic, 0): 0}, max_wait_ms=NEVER_MS)
        gone = raw.ask(FETCH, 11, **values).responses[0].partitions[0]
        assert gone.error_code.name == "unknown_topic_or_partition"


def test_a_long_poll_ends_when_its_topic_is_deleted(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic()
    with Raw(node.port) as raw:
        raw.send(frame(FETCH, 11, **fetch_values({(topic, 0): 0}, max_wait_ms=NEVER_MS)))
        delete_topic(node.address, topic)
        assert raw.receive_frame()
