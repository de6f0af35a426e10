"""A consumer in a process of its own. It says when it is ready, and begins when it is sent a line. Then signals drive
it: SIGTERM closes it, SIGUSR1 keeps it from polling for a while.

python -m tests.why.member TOPIC BUSY_SECONDS name=value...
"""

from __future__ import annotations

import signal
import sys
import time

from confluent_kafka import Consumer


def main() -> None:
    topic, busy_s, *settings = sys.argv[1:]
    goes_on = True

    def stop(*_: object) -> None:
        nonlocal goes_on
        goes_on = False

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: time.sleep(float(busy_s)))
    print("ready", flush=True)
    sys.stdin.readline()
    consumer = Consumer(dict(setting.split("=", 1) for setting in settings))
    consumer.subscribe([topic])
    while goes_on:
        consumer.poll(0.05)
    consumer.close()


if __name__ == "__main__":
    main()
