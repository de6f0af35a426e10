"""Reads numbers, writes each once, and commits how far it came, in one transaction: `python transform.py ADDRESS NAME`.

Ends by itself only if it is fenced; whoever watches it starts it again. A line on its input names one of `STEPS`: it
kills itself, without a word to anybody, when it comes there.
"""

from __future__ import annotations

import os
import signal
import sys
from enum import StrEnum
from threading import Thread, Timer
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SOURCE: Final = "numbers"
SINK: Final = "squares"
GROUP: Final = "transform"
LOGGED: Final = {"debug": "eos,cgrp,broker", "log_level": 7}
"""To stderr, so that a client that does not go on can be asked why afterwards."""


class Step(StrEnum):
    """Where a client is when it dies."""

    BEGUN = "begun"
    PRODUCED = "produced"
    FLUSHED = "flushed"
    OFFSETS_SENT = "offsets sent"
    COMMITTING = "committing"
    COMMITTED = "committed"


class Death:
    def __init__(self) -> None:
        self._step: Step | None = None
        Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in sys.stdin:
            self._step = Step(line.strip())

    def at(self, step: Step) -> None:
        if step is not self._step:
            return
        if step is Step.COMMITTING:
            Timer(0.002, _die).start()  # while the request is under way, here or there
        else:
            _die()


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main(address: str, name: str) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
            **LOGGED,
        }
    )
    consumer.subscribe([SOURCE])
    producer = Producer(
        {"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": 10_000, **LOGGED}
    )
    producer.init_transactions(60)
    death = Death()
    while True:
        messages = [message for message in consumer.consume(5, 0.2) if message.error() is None]
        if not messages:
            continue
        try:
            producer.begin_transaction()
            death.at(Step.BEGUN)
            for message in messages:
                producer.produce(SINK, message.value(), partition=message.partition() or 0)
            death.at(Step.PRODUCED)
            producer.flush(30)
            death.at(Step.FLUSHED)
            after = {(each.topic() or "", each.partition() or 0): (each.offset() or 0) + 1 for each in messages}
            offsets = [TopicPartition(topic, partition, offset) for (topic, partition), offset in after.items()]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            death.at(Step.OFFSETS_SENT)
            death.at(Step.COMMITTING)
            _commit(producer)
            death.at(Step.COMMITTED)
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
