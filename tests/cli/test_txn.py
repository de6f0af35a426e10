"""`ottla txn` against a running node: looking at transactions, explaining them, ending them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from tests.broker.apis.transacting import Place
from tests.cli.command import Run, new_topic_name
from tests.cli.conftest import runner

from ottla.testing.node import running_node

OPEN, IDLE = "transfer", "resting"


@pytest.fixture
def place(node: str, request: pytest.FixtureRequest) -> Place:
    return Place(node, new_topic_name(request.node.name))


@pytest.fixture
def producer(node: str, place: Place) -> Producer:
    """One that has a transaction open, in one of two partitions."""
    producer = Producer({"bootstrap.servers": node, "transactional.id": f"{place.story}-{OPEN}", "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(place.topic, b"value", partition=1)
    assert producer.flush(30) == 0
    return producer


def test_listing_and_describing(ottla: Run, place: Place, producer: Producer) -> None:
    name = f"{place.story}-{OPEN}"
    assert name in ottla("txn", "list").stdout.splitlines()
    assert name in ottla("txn", "list", "--state", "ongoing").stdout.splitlines()
    assert name not in ottla("txn", "list", "--state", "Empty").stdout.splitlines()
    assert name not in ottla("txn", "list", "--state", "ongoing", "--longer-than", "1h").stdout.splitlines()
    (row,) = [row for row in json.loads(ottla("txn", "list", "-O", "json").stdout) if row["transactional_id"] == name]
    assert row["state"] == "Ongoing" and row["coordinator"] == 1

    (described,) = json.loads(ottla("txn", "describe", name, "-O", "json").stdout)
    assert described["partitions"] == [f"{place.topic}-1"]
    assert (described["state"], described["timeout_ms"]) == ("Ongoing", 60_000)
    assert 0 <= described["duration_ms"] < 60_000
    assert f"{place.topic}-1" in ottla("txn", "describe", name, "-O", "table").stdout

    missing = ottla("txn", "describe", "nobody")
    assert missing.returncode != 0 and "there is no transactional id nobody" in missing.stderr


@pytest.mark.parametrize("how", ["topic", "colon", "dash"])
def test_why_a_consumer_of_committed_records_waits(ottla: Run, place: Place, producer: Producer, how: str) -> None:
    what = {"topic": place.topic, "colon": f"{place.topic}:1", "dash": f"{place.topic}-1"}[how]
    told = ottla("txn", "why", what)
    assert told.returncode == 1
    first, second, third, fourth = told.stdout.splitlines()
    assert first == f"{place.topic}-1: consumers of committed records stop at offset 0."
    assert f"{place.story}-{OPEN}, producer" in second and second.endswith("it is Ongoing.")
    assert "is aborted in" in third
    assert fourth.endswith(f"ottla txn abort {place.story}-{OPEN}")

    (stop,) = json.loads(ottla("txn", "why", what, "-O", "json").stdout)
    assert stop["times_out_ms"] == stop["since_ms"] + 60_000
    assert (stop["partition"], stop["stable_offset"], stop["is_hanging"]) == (1, 0, False)


def test_where_none_is_open_nobody_waits(ottla: Run, place: Place) -> None:
    told = ottla("txn", "why", place.topic)
    assert told.returncode == 0
    assert told.stdout.startswith(f"No transaction is open in {place.topic}")


def test_aborting_fences_the_producer(ottla: Run, place: Place, producer: Producer) -> None:
    name = f"{place.story}-{OPEN}"
    done = ottla("txn", "abort", name)
    assert (done.returncode, done.stderr) == (0, f"The transaction of {name} is aborted, and its producer fenced.\n")
    assert place.ends(1) == [2, 2]
    with pytest.raises(KafkaException):
        producer.commit_transaction(30)
    again = json.loads(ottla("txn", "abort", name, "-O", "json").stdout)
    assert again["aborted"] is False


def test_one_that_is_known_does_not_hang(ottla: Run, place: Place) -> None:
    who = place.producer(f"{place.story}-{OPEN}")
    place.produce(who)
    assert ottla("txn", "find-hanging", place.topic, "--older-than", "0s").returncode == 0

    refused = ottla("txn", "abort", "--topic", f"{place.topic}:0", "--producer", str(place.id_of(who)))
    assert refused.returncode != 0 and "does not hang" in refused.stderr


def test_one_that_hangs_is_found_explained_and_ended(tmp_path: Path) -> None:
    """Without verification a transaction may begin where its coordinator does not know of it."""
    with running_node(tmp_path, transaction_partition_verification_enable=False) as node:
        ottla, place = runner(node.address), Place(node.address, "story")
        who = place.producer("story-tx")
        assert place.produce(who, 0, 9) == ["none", 0]
        assert place.ends() == [1, 0]
        assert ottla("txn", "find-hanging").stdout == "", "it may still be going on"

        found = ottla("txn", "find-hanging", "--older-than", "0s", "-O", "json")
        told = ottla("txn", "why", place.topic)
        done = ottla("txn", "abort", "--topic", f"{place.topic}:0", "--producer", str(place.id_of(who)))

        assert found.returncode == 1
        (row,) = json.loads(found.stdout)
        assert (row["topic"], row["partition"], row["start_offset"]) == (place.topic, 0, 0)
        assert "it hangs" in told.stdout
        assert done.returncode == 0, done.stderr
        assert place.ends() == [2, 2]
        gone = ottla("txn", "abort", "--topic", f"{place.topic}:0", "--producer", str(place.id_of(who)))
        assert gone.returncode != 0 and "has no transaction open" in gone.stderr


def test_what_is_not_said_well(ottla: Run) -> None:
    for args in (
        (),
        ("name", "--topic", "t:0", "--producer", "1"),
        ("--topic", "t:0"),
        ("--topic", "t", "--producer", "1"),
    ):
        assert ottla("txn", "abort", *args).returncode == 2
