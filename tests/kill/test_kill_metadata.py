"""kill -9 while topics come and go: what was promised is there after the restart, what was deleted is gone."""

from __future__ import annotations

import random
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.interop.clients import Confluent, Sent
from tests.interop.raw import Raw
from tests.waiting import PATIENCE_S, until

from ottla.model.errors import ErrorCode
from ottla.testing.process import NodeProcess, running_process

CREATE_TOPICS, DELETE_TOPICS = 19, 20
TIMEOUT = timedelta(seconds=10)


class Churn:
    """Creates and deletes topics until it is told to stop or the node is gone; knows what was promised."""

    def __init__(self, port: int, dice: random.Random) -> None:
        self.there: set[str] = set()
        self.unsure: set[str] = set()  # asked for, not answered
        self._port = port
        self._dice = dice
        self._number = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                if self.there and self._dice.random() < 0.4:
                    name = self._dice.choice(sorted(self.there))
                    self.there.discard(name)
                    self.unsure.add(name)
                    with Raw(self._port) as raw:
                        answer = raw.ask(DELETE_TOPICS, 5, topic_names=[name], timeout=TIMEOUT)
                    assert answer.responses[0].error_code == ErrorCode.none, answer
                    self.unsure.discard(name)
                else:
                    name = f"churn-{self._number}"
                    self._number += 1
                    self.unsure.add(name)
                    topic = new_topic(name, self._dice.randrange(1, 4))
                    with Raw(self._port) as raw:
                        answer = raw.ask(CREATE_TOPICS, 5, topics=[topic], timeout=TIMEOUT, validate_only=False)
                    assert answer.topics[0].error_code == ErrorCode.none, answer
                    self.unsure.discard(name)
                    self.there.add(name)
            except OSError:
                return  # the node was killed under it


def new_topic(name: str, partitions: int) -> dict[str, Any]:
    configs = [{"name": "file.delete.delay.ms", "value": "50"}]
    given = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    return given | {"assignments": [], "configs": configs}


def topics_of(node: NodeProcess) -> dict[str, int]:
    from confluent_kafka.admin import AdminClient

    found = AdminClient({"bootstrap.servers": node.address}).list_topics(timeout=PATIENCE_S).topics
    return {name: len(topic.partitions) for name, topic in found.items()}


def folders_of(node: NodeProcess) -> set[str]:
    """Without those set aside: a folder whose topic's deletion was promised just before a kill (as in Kafka)."""
    names = {path.name for path in node.data.iterdir() if path.is_dir() and path.name.startswith("churn-")}
    return {name for name in names if not name.endswith("-stray")}


def churn_and_kill(folder: Path, kills: int, seed: int) -> None:
    dice = random.Random(seed)
    with running_process(folder) as node:
        churn = Churn(node.port, dice)
        for _ in range(kills):
            stop = threading.Event()
            thread = threading.Thread(target=churn.run, args=(stop,), daemon=True)
            thread.start()
            time.sleep(dice.uniform(0.1, 0.5))
            node.kill()
            stop.set()
            thread.join(60)
            assert not thread.is_alive()
            node.start()
            # then what was promised is there, and nothing else but what was under way
            found = topics_of(node)
            assert churn.there <= found.keys(), churn.there - found.keys()
            assert found.keys() - churn.there <= churn.unsure, found.keys() - churn.there - churn.unsure
            churn.there = set(found)
            churn.unsure.clear()
            # and each can be written to, in every partition
            for name in dice.sample(sorted(found), min(3, len(found))):
                sent = [Sent(None, b"x", partition=number) for number in range(found[name])]
                assert len(Confluent().produce(node.address, name, sent)) == found[name]
        wanted = {f"{name}-{number}" for name, count in topics_of(node).items() for number in range(count)}
        until(  # folders of deleted topics go a little later
            lambda: folders_of(node) == wanted, lambda: f"left over or missing: {folders_of(node) ^ wanted}"
        )
        assert "Traceback" not in node.log(), node.log()[-5000:]
        node.stop()
        node.start()
        assert topics_of(node).keys() == churn.there


def test_topics_come_and_go_over_a_few_kills(tmp_path: Path) -> None:
    churn_and_kill(tmp_path, kills=4, seed=11)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_topics_come_and_go_over_many_kills(tmp_path: Path) -> None:
    churn_and_kill(tmp_path, kills=40, seed=int(time.time()))
