# mypy: ignore-errors
"""An idempotent producer with lz4 and a delivery report: `producer.py BOOTSTRAP TOPIC COUNT`."""

import sys
import time

from confluent_kafka import Producer

bootstrap, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
delivered = 0


def delivery_report(err, msg):
    global delivered
    if err is not None:
        print(f"failed {msg.value().decode()}: {err}", flush=True)
    else:
        delivered += 1
        print(f"delivered {msg.value().decode()}", flush=True)


producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "compression.type": "lz4"})
for number in range(count):
    producer.produce(topic, key=f"key-{number % 7}", value=str(number), on_delivery=delivery_report)
    producer.poll(0)
    time.sleep(0.002)
producer.flush()
print(f"done {delivered}", flush=True)
