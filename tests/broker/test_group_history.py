"""The history of groups on a node: its topic, restarts, elections, deletion, the log and metrics."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.broker.apis.committing import committed
from tests.broker.watching import scrape
from tests.cli.command import run_ottla
from tests.waiting import PATIENCE_S, until

from ottla.broker.stalled_commits import StalledCommits
from ottla.model.names import HISTORY_TOPIC
from ottla.replica.partition import Leadership
from ottla.testing.node import RunningNode, running_node

SETTINGS: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0, "offsets_topic_num_partitions": 4, "group_min_session_timeout_ms": 500,
}  # fmt: skip


@contextmanager
def member(address: str, group: str, name: str, topic: str = "orders") -> Iterator[Callable[[], set[int]]]:
    """In a thread that polls; gives what it has."""
    from confluent_kafka import Consumer

    settings = {
        "bootstrap.servers": address, "group.id": group, "client.id": name, "session.timeout.ms": 45_000,
        "heartbeat.interval.ms": 200, "allow.auto.create.topics": True, "topic.metadata.refresh.interval.ms": 500,
        "auto.commit.interval.ms": 50, "auto.offset.reset": "earliest",
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    ends = Event()
    assigned: set[int] = set()

    def poll() -> None:
        nonlocal assigned
        while not ends.is_set():
            consumer.poll(0.05)
            assigned = {place.partition for place in consumer.assignment()}

    thread = Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield lambda: assigned
    finally:
        ends.set()
        thread.join()
        consumer.close()


def why(address: str, group: str) -> dict[str, Any]:
    import json

    asked = run_ottla("group", "why", group, "-O", "json", "-n", "50", address=address)
    assert asked.returncode == 0, asked.stderr
    told: dict[str, Any] = json.loads(asked.stdout)
    return told


def settled(address: str, group: str, rebalances: int) -> dict[str, Any]:
    def is_there() -> bool:
        asked = run_ottla("group", "why", group, "-O", "json", address=address)
        return asked.returncode == 0 and why(address, group)["rebalances"] >= rebalances

    until(is_there, f"{rebalances} rebalances of {group}")
    return why(address, group)


def make_topic(address: str) -> None:
    assert run_ottla("topic", "create", "orders", "-p", "4", address=address).returncode == 0


def test_it_is_internal_and_nobody_may_write_to_it(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one"):
            settled(running.address, "g", 1)
            shown = run_ottla("topic", "list", address=running.address).stdout
            assert "orders" in shown and HISTORY_TOPIC not in shown
            refused = run_ottla("produce", HISTORY_TOPIC, "x", address=running.address)
            assert refused.returncode != 0
            offsets = running.node.image.topic("__consumer_offsets")
            history = running.node.image.topic(HISTORY_TOPIC)
            assert offsets is not None and history is not None
            assert {number: each.replicas for number, each in history.partitions.items()} == {
                number: each.replicas for number, each in offsets.partitions.items()
            }


def test_nothing_is_made_for_those_who_have_no_group(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        assert run_ottla("produce", "orders", "x", address=running.address).returncode == 0
        assert running.node.image.topic(HISTORY_TOPIC) is None


def test_one_who_asks_for_it_first_gets_it_with_the_right_partitions(tmp_path: Path) -> None:
    from confluent_kafka import Consumer

    with running_node(tmp_path, **SETTINGS) as running:
        asking = Consumer({"bootstrap.servers": running.address, "group.id": "x", "allow.auto.create.topics": True})
        asking.assign([TopicPartition(HISTORY_TOPIC, 0)])
        until(lambda: asking.poll(0.1) or running.node.image.topic(HISTORY_TOPIC), "it is there")
        made = running.node.image.topic(HISTORY_TOPIC)
        assert made is not None and len(made.partitions) == SETTINGS["offsets_topic_num_partitions"]
        asking.close()


def test_it_survives_a_restart_and_goes_on(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one"):
            before = settled(running.address, "g", 1)
        until(lambda: why(running.address, "g")["members"] == 0, "it left")
    with running_node(tmp_path, **SETTINGS) as running:
        assert {finding["kind"] for finding in why(running.address, "g")["findings"]} == {"started", "closed"}
        with member(running.address, "g", "one"):
            after = settled(running.address, "g", before["rebalances"] + 2)
    numbers = [entry["number"] for entry in after["history"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(set(numbers)) == len(numbers) == 3


def test_it_survives_a_forced_election(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one"):
            settled(running.address, "g", 1)
            elect_again(running, "__consumer_offsets")
            elect_again(running, HISTORY_TOPIC)
            with member(running.address, "g", "two"):
                told = settled(running.address, "g", 2)
            told = settled(running.address, "g", 3)
    assert [entry["number"] for entry in told["history"]] == [2, 1, 0]
    gone = told["history"][0]["changes"][0]
    assert (gone["what"], gone["who"]["client"]) == ("left", "two")


def elect_again(running: RunningNode, topic: str) -> None:
    """Each partition is led in a new epoch: its coordinator resigns, and loads anew."""

    def elect() -> None:
        for (name, _), partition in running.node.replicas.by_name.items():
            if name == topic:
                now: Leadership = partition.leadership
                partition.lead_or_follow(now._replace(leader_epoch=now.leader_epoch + 1))

    running.on_loop(elect)


def test_it_goes_with_its_group(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one"):
            settled(running.address, "g", 1)
        until(lambda: why(running.address, "g")["members"] == 0, "it left")
        assert run_ottla("group", "delete", "g", "--yes", address=running.address).returncode == 0
        with member(running.address, "g", "other"):
            told = settled(running.address, "g", 1)
        assert told["history"][-1]["number"] == 0
        assert told["history"][-1]["changes"][0]["who"]["client"] == "other"


def test_it_is_in_the_log_and_in_metrics(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0", **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one"):
            settled(running.address, "g", 1)
        until(lambda: "one at 127.0.0.1 left" in caplog.text, "the log tells")
        assert "group g: rebalanced to generation 1" in caplog.text
        told = scrape(running)
    assert told.value("ottla_group_rebalances_total", protocol="classic", cause="joined") == 1
    assert told.value("ottla_group_rebalances_total", protocol="classic", cause="left") == 1
    assert told.value("ottla_group_rebalance_seconds_count", protocol="classic") == 1
    assert told.value("kafka_server_group_coordinator_metrics_group_completed_rebalance_count") == 1


def test_more_partitions_are_named_as_the_cause(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        with member(running.address, "g", "one") as has:
            settled(running.address, "g", 1)
            assert run_ottla("topic", "alter", "orders", "-p", "7", "--yes", address=running.address).returncode == 0
            until(lambda: len(has()) == 7, "it has them")
            told = settled(running.address, "g", 2)
    (finding,) = (each for each in told["findings"] if each["kind"] == "partitions-changed")
    assert finding["summary"] == "the topics changed: orders: 4 partitions became orders: 7"


def test_commits_that_stall_are_told(tmp_path: Path) -> None:
    from confluent_kafka import Consumer

    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        node = running.node
        looks = StalledCommits(node.env, node.timers, node.groups, node.replicas, 100, 500)
        running.on_loop(looks.start)
        assert run_ottla("produce", "orders", "-p", "0", "a", "b", "c", address=running.address).returncode == 0
        stuck = Consumer(
            {
                "bootstrap.servers": running.address, "group.id": "g", "client.id": "stuck",
                "auto.offset.reset": "earliest", "enable.auto.commit": False,
            }
        )  # fmt: skip
        stuck.subscribe(["orders"])
        (first,) = stuck.consume(1, timeout=PATIENCE_S)
        stuck.commit(message=first, asynchronous=False)
        until(lambda: "commits-stalled" in kinds(running.address), "it is told")
        (finding,) = (each for each in why(running.address, "g")["findings"] if each["kind"] == "commits-stalled")
        assert "orders-0 by 2" in finding["evidence"][0]
        stuck.close()
        running.wait_for(looks.stop())


def test_a_group_that_has_read_everything_is_not_stalled(tmp_path: Path) -> None:
    with running_node(tmp_path, **SETTINGS) as running:
        make_topic(running.address)
        node = running.node
        with member(running.address, "g", "one"):
            settled(running.address, "g", 1)
            assert run_ottla("produce", "orders", "a", "b", "c", address=running.address).returncode == 0
            until(lambda: read_by(running, "g") == 3, "all is committed")
            looks = StalledCommits(node.env, node.timers, node.groups, node.replicas, 50, 400)
            running.on_loop(looks.start)
            time.sleep(1)
            running.wait_for(looks.stop())
            assert "commits-stalled" not in kinds(running.address)


def read_by(running: RunningNode, group: str) -> int:
    return sum(offset for _, offset, *_ in committed(running.address, group).get("orders", []) if offset > 0)


def kinds(address: str) -> set[str]:
    return {finding["kind"] for finding in why(address, "g")["findings"]}
