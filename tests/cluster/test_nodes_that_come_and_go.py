"""Nodes are restarted one after the other, killed and paused under load: no write fails, nothing is lost or doubled."""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Any

from confluent_kafka import Producer
from tests.cluster.clients import QUIET, consume_all, create_topic, isr_is_full, leaders, produce
from tests.waiting import PATIENCE_S, until

from ottla.testing.process_cluster import ProcessCluster


class Load:
    """Numbered records at a steady pace, each acknowledged by all in-sync replicas."""

    def __init__(self, cluster: ProcessCluster, topic: str, rate: int = 300) -> None:
        self.acknowledged: list[bytes] = []
        self.failed: list[str] = []
        self.sent = 0
        self._topic, self._rate = topic, rate
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2, **QUIET}
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._ends.wait(0.005):
            while self.sent < (time.monotonic() - began) * self._rate:
                self._producer.produce(self._topic, b"%d" % self.sent, on_delivery=self._delivered)
                self.sent += 1
            self._producer.poll(0)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged.append(message.value())

    def finish(self) -> None:
        self._ends.set()
        self._thread.join()
        left = self._producer.flush(PATIENCE_S)
        assert not left and not self.failed, (left, self.failed[:3])

    def check(self, cluster: ProcessCluster, topic: str) -> None:
        found = Counter(consume_all(cluster.bootstrap, topic, len(self.acknowledged)))
        lost = [value for value in self.acknowledged if value not in found]
        doubled = [value for value, count in found.items() if count > 1]
        assert not lost and not doubled, (len(lost), lost[:5], doubled[:5])
        assert len(self.acknowledged) == self.sent > 0


def test_a_rolling_restart_of_all_nodes_costs_no_write(whole: ProcessCluster) -> None:
    topic = create_topic(whole)
    load = Load(whole, topic)
    for node in whole.ids:
        until(lambda: isr_is_full(whole, topic))
        whole.restart(node)
    until(lambda: isr_is_full(whole, topic))
    load.finish()
    load.check(whole, topic)


def test_every_node_may_be_killed_in_turn(whole: ProcessCluster) -> None:
    topic = create_topic(whole)
    load = Load(whole, topic)
    for node in whole.ids:
        until(lambda: isr_is_full(whole, topic))
        whole.kill(node)
        time.sleep(0.5)
        whole.start(node)
    until(lambda: isr_is_full(whole, topic))
    load.finish()
    load.check(whole, topic)


def test_leaders_go_elsewhere_before_a_node_stops(whole: ProcessCluster) -> None:
    topic = create_topic(whole)
    until(lambda: isr_is_full(whole, topic))
    produce(whole.bootstrap, topic, [b"before"])
    whole.stop(1)
    assert 1 not in leaders(whole, topic) and -1 not in leaders(whole, topic)
    produce(whole.bootstrap, topic, [b"without"])
    whole.start(1)
    assert sorted(consume_all(whole.bootstrap, topic, 2)) == [b"before", b"without"]


def test_all_nodes_stopped_and_started_have_everything(whole: ProcessCluster) -> None:
    topic = create_topic(whole)
    values = [b"%d" % number for number in range(500)]
    produce(whole.bootstrap, topic, values)
    whole.stop(*whole.ids)
    whole.start()
    assert sorted(consume_all(whole.bootstrap, topic, len(values))) == sorted(values)


def test_all_nodes_killed_at_once_have_everything(whole: ProcessCluster) -> None:
    topic = create_topic(whole)
    values = [b"%d" % number for number in range(500)]
    produce(whole.bootstrap, topic, values)
    whole.kill(*whole.ids)
    whole.start()
    assert sorted(consume_all(whole.bootstrap, topic, len(values))) == sorted(values)
    produce(whole.bootstrap, topic, [b"after"])
