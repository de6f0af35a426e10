# mypy: ignore-errors
"""Commits before processing: `at_most_once.py BOOTSTRAP TOPIC GROUP SESSION_MS`. Nothing is processed twice."""

import sys

from confluent_kafka import Consumer

bootstrap, topic, group, session_ms = sys.argv[1:5]
consumer = Consumer(
    {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": int(session_ms),
        "heartbeat.interval.ms": int(session_ms) // 5,
    }
)
consumer.subscribe([topic])
try:
    while True:
        msg = consumer.poll(0.2)
        if msg is None or msg.error():
            continue
        try:
            consumer.commit(message=msg, asynchronous=False)
        except Exception as error:
            print("not committed", error, file=sys.stderr)
            continue  # whether it was stored is not known, so it is not processed
        print("processed", msg.value().decode(), flush=True)
finally:
    consumer.close()
