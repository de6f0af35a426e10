"""`ottla topic table` and `ottla topic compact` against a running node."""

import json

import pytest
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


@pytest.mark.timeout(240)
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


def test_a_topic_that_is_not_compacted(ottla: Run) -> None:
    ottla("topic", "create", "plain-topic")
    told = ottla("topic", "compact", "plain-topic", "--now")
    assert told.returncode == 1
    assert "cleanup.policy is not compact" in told.stderr
