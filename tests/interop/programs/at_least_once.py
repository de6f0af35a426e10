# mypy: ignore-errors
"""Commits after processing: `at_least_once.py BOOTSTRAP TOPIC GROUP SESSION_MS ASSIGNOR`. Nothing is missed."""

import sys

from confluent_kafka import Consumer

bootstrap, topic, group, session_ms, assignor = sys.argv[1:6]


def on_assign(consumer, partitions):
    print("assigned", *(p.partition for p in partitions), flush=True)


def on_revoke(consumer, partitions):
    print("revoked", *(p.partition for p in partitions), flush=True)


consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": int(session_ms),
        "heartbeat.interval.ms": int(session_ms) // 5,
        "partition.assignment.strategy": assignor,
    }
)
consumer.subscribe([topic], on_assign=on_assign, on_revoke=on_revoke)
try:
    while True:
        msg = consumer.poll(0.2)
        if msg is None:
            continue
        if msg.error():
            print("error", msg.error(), file=sys.stderr)
            continue
        print("processed", msg.value().decode(), flush=True)
        try:
            consumer.commit(message=msg, asynchronous=False)
        except Exception as error:
            print("not committed", error, file=sys.stderr)
finally:
    consumer.close()
