"""A transaction goes on although the coordinator of the group whose offsets it carries has died."""

from __future__ import annotations

import threading
import time

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.cluster.clients import a_name, create_topic, leaders
from tests.waiting import until

from ottla.coordinator.group.hashing import group_hash
from ottla.testing.process_cluster import ProcessCluster

OFFSETS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
SOON_S = 20


def coordinator(cluster: ProcessCluster, topic: str, key: str) -> int:
    leading = leaders(cluster, topic)
    return leading[group_hash(key) % len(leading)]


def member(cluster: ProcessCluster, topic: str, transactional_id: str) -> tuple[str, Consumer]:
    """Of a group whose coordinator can die without the transaction's."""
    while True:
        group = a_name("group")
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, "log_level": 0})
        consumer.committed([TopicPartition(topic, 0)], SOON_S)
        if coordinator(cluster, OFFSETS, group) != coordinator(cluster, TRANSACTIONS, transactional_id):
            return group, consumer
        consumer.close()


def test_offsets_are_sent_to_the_next_coordinator_of_the_group(whole: ProcessCluster) -> None:
    """librdkafka keeps who coordinated a group, and looks for another one only while Metadata names the one before."""
    topic, name = create_topic(whole), a_name("transformer")
    producer = Producer({"bootstrap.servers": whole.bootstrap, "transactional.id": name, "log_level": 0})
    producer.init_transactions(SOON_S)
    group, consumer = member(whole, topic, name)

    def write(offset: int) -> None:
        producer.begin_transaction()
        for partition in range(3):  # so that it has connections to all nodes, and waits for none later
            producer.produce(topic, b"%d" % offset, partition=partition)
        assert producer.flush(SOON_S) == 0

    def send_offset(offset: int) -> None:
        offsets = [TopicPartition(topic, 0, offset)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), SOON_S)

    write(1)
    send_offset(1)
    producer.commit_transaction(SOON_S)
    write(2)
    victim = coordinator(whole, OFFSETS, group)
    whole.kill(victim)
    until(lambda: victim not in leaders(whole, topic))
    producer.list_topics(topic, SOON_S)  # the producer learns who is there now
    time.sleep(1)  # and nothing happens any more that would make it look by chance
    sending = threading.Thread(target=send_offset, args=(2,), daemon=True)
    sending.start()
    sending.join(SOON_S)
    assert not sending.is_alive(), "it waits for a coordinator that is no more"
    producer.commit_transaction(SOON_S)
    (found,) = consumer.committed([TopicPartition(topic, 0)], SOON_S)
    assert found.offset == 2
    consumer.close()
