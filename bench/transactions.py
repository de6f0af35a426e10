"""`python -m bench.transactions`: transactions beside Apache Kafka: how many a second, and what a commit takes.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from confluent_kafka import Producer

from bench.bars import Bar, Direction
from bench.nodes import Node
from bench.parts import Part, Plan, run

SMALL, MANY, BATCHED = 1500, 150, 100
PRODUCERS, PARTITIONS = 10, 4
VALUE = b"v" * 100
LOAD_SECONDS, COMMIT_EVERY_S = 5.0, 0.1
_WITHIN_S = 60


def _producer(node: Node, name: str | None, **more: Any) -> Producer:
    settings = {"bootstrap.servers": f"127.0.0.1:{node.port}", "linger.ms": 0, "log_level": 0} | more
    settings |= {"transactional.id": name} if name is not None else {"enable.idempotence": True}
    producer = Producer(settings)
    if name is not None:
        producer.init_transactions(_WITHIN_S)
    return producer


def _run(producer: Producer, topic: str, transactions: int, records: int) -> list[float]:
    """Seconds that each commit took."""
    took = []
    for _ in range(transactions):
        producer.begin_transaction()
        for number in range(records):
            producer.produce(topic, VALUE, partition=number % PARTITIONS)
        producer.flush(_WITHIN_S)
        began = time.perf_counter()
        producer.commit_transaction(_WITHIN_S)
        took.append(time.perf_counter() - began)
    return took


def _figures(node: Node, work: Callable[[], list[float]]) -> dict[str, Any]:
    before, began = node.cpu_seconds(), time.perf_counter()
    took = sorted(work())
    seconds = time.perf_counter() - began
    cpu = node.cpu_seconds() - before
    return {
        "rate": round(len(took) / seconds, 1),
        "commit_p50_ms": round(took[len(took) // 2] * 1000, 3),
        "commit_p99_ms": round(took[len(took) * 99 // 100] * 1000, 3),
        "node_cpu_seconds_per_thousand": round(cpu / len(took) * 1000, 3),
    }


def one_record(node: Node, number: int) -> dict[str, Any]:
    """One producer, one record in each transaction."""
    topic = f"small-{number}"
    node.create_topic(topic, PARTITIONS)
    producer = _producer(node, topic)
    _run(producer, topic, SMALL // 5, 1)
    figures = _figures(node, lambda: _run(producer, topic, SMALL, 1))
    node.delete_topic(topic)
    return figures


def ten_producers(node: Node, number: int) -> dict[str, Any]:
    """Ten producers at once, 100 records over four partitions in each transaction."""
    topic = f"many-{number}"
    node.create_topic(topic, PARTITIONS)
    producers = [_producer(node, f"{topic}-{each}") for each in range(PRODUCERS)]

    def all_of_them() -> list[float]:
        with ThreadPoolExecutor(PRODUCERS) as pool:
            runs = [pool.submit(_run, each, topic, MANY, BATCHED) for each in producers]
            return [seconds for each in runs for seconds in each.result()]

    figures = _figures(node, all_of_them)
    node.delete_topic(topic)
    return figures


def commits_every_100_ms(node: Node, number: int) -> dict[str, Any]:
    """What a producer writes that commits every 100 ms, against one without transactions."""
    topic = f"steady-{number}"
    node.create_topic(topic, PARTITIONS)
    plain = _throughput(_producer(node, None, **{"linger.ms": 5}), topic, transactional=False)
    within = _throughput(_producer(node, topic, **{"linger.ms": 5}), topic, transactional=True)
    node.delete_topic(topic)
    return {"plain_per_second": round(plain), "per_second": round(within), "of_plain": round(within / plain, 3)}


def _throughput(producer: Producer, topic: str, *, transactional: bool) -> float:
    began = now = commit_at = time.perf_counter()
    count = 0
    if transactional:
        producer.begin_transaction()
    while now - began < LOAD_SECONDS:
        for _ in range(500):
            while True:
                try:
                    producer.produce(topic, VALUE, partition=count % PARTITIONS)
                    break
                except BufferError:
                    producer.poll(0.01)
            count += 1
        producer.poll(0)
        now = time.perf_counter()
        if transactional and now - commit_at >= COMMIT_EVERY_S:
            producer.commit_transaction(_WITHIN_S)
            producer.begin_transaction()
            commit_at = now = time.perf_counter()
    if transactional:
        producer.commit_transaction(_WITHIN_S)
    else:
        producer.flush(_WITHIN_S)
    return count / (time.perf_counter() - began)


PARTS: dict[str, Part] = {
    "1 producer x 1 record": one_record,
    "10 producers x 100 records": ten_producers,
    "commits every 100 ms": commits_every_100_ms,
}


def _bars() -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    bars = []
    for name, ratio in (("1 producer x 1 record", 1.2), ("10 producers x 100 records", 1.2)):
        bars += [
            Bar(f"transactions a second, {name}", name, "rate", "1/s", least, ratio),
            Bar(f"commit, median, {name}", name, "commit_p50_ms", "ms", most, 1.0),
            Bar(f"commit, 99th of 100, {name}", name, "commit_p99_ms", "ms", most, 1.0),
            Bar(f"CPU of 1,000 transactions, {name}", name, "node_cpu_seconds_per_thousand", "s", most, 1.0),
        ]
    bars.append(
        Bar(
            "throughput with commits every 100 ms, of plain",
            "commits every 100 ms",
            "of_plain",
            "",
            least,
            0.9,
            absolute=True,
        )
    )
    return tuple(bars)


if __name__ == "__main__":
    sys.exit(run(Plan("transactions", __doc__ or "", PARTS, _bars())))
