"""`ottla topic table` and `ottla topic compact` against a running node."""

import json
import threading

import pytest
from confluent_kafka import Producer
from tests.cli.command import Run


def fill(ottla: Run, topic: str) -> None:
    ottla("topic", "create", topic, "-p", "2", "-c", "cleanup.policy=compact")
    for n in range(3):
        ottla("produce", topic, f"red={n}", f"blue={n * 10}", "-K", "=", "-p", "0")
    ottla("produce", topic, "green=1", "-K", "=", "-p", "1")


def test_a_topic_as_a_table(anywhere: Run) -> None:
    fill(anywhere, "table")
    told = anywhere("topic", "table", "table", "-O", "json")
    assert told.returncode == 0, told.stderr
    rows = json.loads(told.stdout)
    assert [(row["key"], row["value"], row["partition"], row["offset"]) for row in rows] == [
        ("blue", "20", 0, 5),
        ("green", "1", 1, 0),
        ("red", "2", 0, 4),
    ]
    one = anywhere("topic", "table", "table", "--key", "red")
    assert one.stdout.split("\t")[:4] == ["red", "2", "0", "4"]


def test_a_key_that_is_not_there(ottla: Run) -> None:
    fill(ottla, "missing")
    told = ottla("topic", "table", "missing", "--key", "black")
    assert (told.returncode, told.stderr) == (
        1,
        "ottla: topic missing has no value for the key 'black', or it was deleted\n",
    )


@pytest.mark.timeout(400)
def test_a_topic_is_compacted_now(ottla: Run) -> None:
    fill(ottla, "dirty")
    (before,) = json.loads(ottla("topic", "describe", "dirty", "-O", "json").stdout)
    assert before["partitions"][0]["compaction"]["active_bytes"] > 0

    done = ottla("topic", "compact", "dirty", "--now", "-O", "json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert (first["dirty_bytes"], first["active_bytes"], first["state"]) == (0, 0, "idle")
    assert first["saved_bytes"] > 0
    assert second["clean_bytes"] > 0

    read = ottla("consume", "dirty", "-o", "beginning", "-e", "-f", "%p %o %k=%s\\n")
    assert sorted(read.stdout.splitlines()) == ["0 4 red=2", "0 5 blue=20", "1 0 green=1"]
    (after,) = json.loads(ottla("topic", "describe", "dirty", "-O", "json").stdout)
    assert after["configs"] == {"cleanup.policy": "compact"}
    assert after["partitions"][0]["ends"] == 6


@pytest.mark.timeout(400)
def test_a_topic_is_compacted_while_somebody_writes_to_it(ottla: Run, node: str) -> None:
    fill(ottla, "busy")
    producer, is_over = Producer({"bootstrap.servers": node, "linger.ms": 0}), threading.Event()

    def write() -> None:
        while not is_over.wait(0.01):
            producer.produce("busy", b"new", b"black", partition=0)
            producer.flush()

    writing = threading.Thread(target=write)
    writing.start()
    try:
        done = ottla("topic", "compact", "busy", "--now", "--wait", "100", "-O", "json")
    finally:
        is_over.set()
        writing.join()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["first_dirty_offset"] >= 6
    (after,) = json.loads(ottla("topic", "describe", "busy", "-O", "json").stdout)
    assert after["configs"] == {"cleanup.policy": "compact"}
    read = ottla("consume", "busy", "-o", "beginning", "-e", "-f", "%p %o %k=%s\\n").stdout.splitlines()
    assert {"0 4 red=2", "0 5 blue=20", "1 0 green=1"} <= set(read)
    assert not {"0 0 red=0", "0 3 blue=10"} & set(read)


def test_an_open_transaction_keeps_it_from_being_clean(ottla: Run, node: str) -> None:
    fill(ottla, "held-up")
    producer = Producer({"bootstrap.servers": node, "transactional.id": "holds-up"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("held-up", b"1", b"black", partition=0)
    producer.flush(30)
    told = ottla("topic", "compact", "held-up", "--now", "--wait", "1")
    assert told.returncode == 1
    assert "`ottla txn why held-up`" in told.stderr
    (after,) = json.loads(ottla("topic", "describe", "held-up", "-O", "json").stdout)
    assert after["configs"] == {"cleanup.policy": "compact"}, "its configs are as they were"
    producer.abort_transaction(30)


def test_a_record_without_a_key_is_refused_and_why(ottla: Run) -> None:
    fill(ottla, "keyed")
    told = ottla("produce", "keyed", "no key")
    assert told.returncode == 1
    assert "its records need keys" in told.stderr


def test_a_topic_that_is_not_compacted(ottla: Run) -> None:
    ottla("topic", "create", "plain-topic")
    told = ottla("topic", "compact", "plain-topic", "--now")
    assert told.returncode == 1
    assert "cleanup.policy is not compact" in told.stderr
