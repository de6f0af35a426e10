"""Reads numbers, writes each once, and commits how far it came, in one transaction: `python transform.py ADDRESS NAME`.

Ends by itself only if it is fenced; whoever watches it kills it and starts it again.
"""

from __future__ import annotations

import sys
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SOURCE: Final = "numbers"
SINK: Final = "squares"
GROUP: Final = "transform"


def main(address: str, name: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            "log_level": 0,
        }
    )
    consumer.subscribe([SOURCE])
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": 10_000, "log_level": 0}
    )
    producer.init_transactions(60)
    while True:
        messages = [message for message in consumer.consume(5, 0.2) if message.error() is None]
        if not messages:
            continue
        try:
            producer.begin_transaction()
            for message in messages:
                producer.produce(SINK, message.value(), partition=message.partition() or 0)
            after = {(each.topic() or "", each.partition() or 0): (each.offset() or 0) + 1 for each in messages}
            offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in after.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            _commit(producer)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            producer.abort_transaction(60)
            _go_back(consumer)


def _commit(producer: Producer) -> None:
    while True:
        try:
            producer.commit_transaction(30)
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def _go_back(consumer: Consumer) -> None:
    """To where the last transaction that was committed has left off."""
    for place in consumer.committed(consumer.assignment(), 60):
        consumer.seek(TopicPartition(place.topic, place.partition, max(place.offset, 0)))


if __name__ == "__main__":
    main(*sys.argv[1:])
