"""Groups for the tests of commands: with offsets, and with members that stay for a while."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer
from tests.cli.command import Run
from tests.waiting import attempts


def rows(run: Run, *args: str) -> Any:
    """What a command tells as JSON."""
    done = run(*args, "-O", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def offsets(run: Run, group: str) -> dict[str, dict[int, int]]:
    """What a group has committed."""
    (told,) = rows(run, "group", "describe", group)
    found: dict[str, dict[int, int]] = {}
    for row in told["partitions"]:
        if row["current_offset"] is not None:
            found.setdefault(row["topic"], {})[row["partition"]] = row["current_offset"]
    return found


def make_topic(run: Run, name: str, *records: int) -> str:
    """With a partition for each number of records; their times are 1700000000000 and a second later each."""
    assert run("topic", "create", name, "-p", str(len(records))).returncode == 0
    lines = "".join(
        f'{{"payload":"{number}","ts":{1_700_000_000_000 + number * 1000},"partition":{partition}}}\n'
        for partition, count in enumerate(records)
        for number in range(count)
    )
    assert run("produce", name, "-J", stdin=lines).returncode == 0
    return name


@contextmanager
def member(address: str, group: str, *topics: str, partitions: int, **properties: str | None) -> Iterator[Consumer]:
    """Until it has so many partitions; then it only lives on."""
    own = {name.replace("_", "."): value for name, value in properties.items()}
    given: dict[str, Any] = {
        "bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest",
        "enable.auto.commit": False, "session.timeout.ms": 45_000, **own,
    }  # fmt: skip
    consumer = Consumer({name: value for name, value in given.items() if value is not None})
    consumer.subscribe(list(topics))
    try:
        settle([consumer], partitions)
        yield consumer
    finally:
        consumer.close()


def settle(consumers: list[Consumer], partitions: int) -> None:
    for _ in attempts(f"{partitions} partitions are assigned"):
        if sum(len(consumer.assignment()) for consumer in consumers) == partitions:
            break
        for consumer in consumers:
            consumer.poll(0.05)
