"""`ottla topic` against a running node."""

import json
import time
from collections.abc import Callable

import pytest
import yaml
from tests.cli.command import Run, run_ottla

from ottla.testing.apache_kafka import ApacheKafka, tool


def test_a_topic_is_created_listed_described_and_deleted(ottla: Run) -> None:
    created = ottla("topic", "create", "life", "-p", "3", "-c", "retention.ms=1s", "-c", "cleanup.policy=compact")
    assert (created.returncode, created.stderr) == (0, "Created topic life: 3 partitions, 1 replica.\n")
    assert "life" in ottla("topic", "list").stdout.splitlines()

    described = ottla("topic", "describe", "life").stdout.splitlines()
    assert described[0] == "life"
    assert described[2:4] == ["  partitions  3", "  replicas    1"]
    assert [line.strip() for line in described[4:6]] == ["configs     cleanup.policy=compact", "retention.ms=1000"]
    assert [line.split("\t")[:2] for line in described[6:]] == [["0", "1"], ["1", "1"], ["2", "1"]]

    deleted = ottla("topic", "delete", "life")
    assert (deleted.returncode, deleted.stderr) == (0, "Deleted topic life.\n")
    assert "life" not in ottla("topic", "list").stdout.splitlines()


def test_lists_and_descriptions_come_as_json_and_yaml(ottla: Run) -> None:
    ottla("topic", "create", "formats", "-p", "2", "-c", "retention.ms=1000")
    ottla("produce", "formats", "a", "b", "-p", "1")
    row = {"topic": "formats", "partitions": 2, "replicas": 1, "internal": False}
    assert row in json.loads(ottla("topic", "list", "--output", "json").stdout)
    assert row in yaml.safe_load(ottla("topic", "list", "--output", "yaml").stdout)
    assert ottla("topic", "list", "--output", "table").stdout.startswith("TOPIC")

    (told,) = json.loads(ottla("topic", "describe", "formats", "-O", "json").stdout)
    assert told["configs"] == {"retention.ms": "1000"} and len(told["id"]) == 22
    assert [(part["partition"], part["begins"], part["ends"]) for part in told["partitions"]] == [(0, 0, 0), (1, 0, 2)]
    assert yaml.safe_load(ottla("topic", "describe", "formats", "-O", "yaml").stdout) == [told]


def test_a_topic_that_is_there_is_not_created_again(ottla: Run) -> None:
    assert ottla("topic", "create", "twice").returncode == 0
    again = ottla("topic", "create", "twice")
    assert (again.returncode, again.stderr) == (
        1,
        "ottla: cannot create topic twice: a topic of that name is already there\n",
    )
    assert ottla("topic", "create", "twice", "--if-not-exists").returncode == 0


def test_a_check_creates_nothing(ottla: Run) -> None:
    checked = ottla("topic", "create", "maybe", "-p", "2", "--check")
    assert (checked.returncode, checked.stderr) == (0, "Would create topic maybe: 2 partitions, 1 replica.\n")
    assert "maybe" not in ottla("topic", "list").stdout.splitlines()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["bad name"], "cannot create topic bad name"),
        (["refused", "-p", "0"], "cannot create topic refused"),
        (["refused", "-r", "3"], "cannot create topic refused"),
        (["refused", "-c", "no.such=1"], "Unknown topic config name: no.such"),
        (["refused", "-c", "retention.sm=1"], "Unknown topic config name: retention.sm; did you mean retention.ms"),
        (["refused", "-c", "retention.ms=x"], "Invalid value x for configuration retention.ms"),
    ],
)
def test_what_the_broker_refuses_is_told_in_one_line(ottla: Run, args: list[str], message: str) -> None:
    refused = ottla("topic", "create", *args)
    assert refused.returncode == 1
    assert message in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "args",
    [
        ["create", "refused", "-p", "2147483648"],
        ["create", "refused", "-r", "32768"],
        ["create", "refused", "-r", "-2"],
        ["clone", "refused", "too", "-r", "32768"],
        ["alter", "refused", "-y", "-p", "2147483648"],
    ],
)
def test_numbers_for_which_the_protocol_has_no_room_are_refused(ottla: Run, args: list[str]) -> None:
    refused = ottla("topic", *args)
    assert refused.returncode == 2 and "is not in the range" in refused.stderr


def test_a_missing_topic_is_told_with_one_that_is_like_it(ottla: Run) -> None:
    assert "there is no topic zzz; `ottla topic list` shows" in ottla("topic", "describe", "zzz").stderr
    ottla("topic", "create", "shipments")
    for args in (["topic", "describe"], ["consume", "-e"]):
        assert "did you mean shipments?" in ottla(*args, "shipmnets").stderr
    deleted = ottla("topic", "delete", "nope")
    assert deleted.returncode == 1
    assert "cannot delete topic nope: there is no such topic" in deleted.stderr


def test_a_topic_is_cloned_with_its_records(ottla: Run) -> None:
    ottla("topic", "create", "original", "-p", "3", "-c", "retention.ms=-1")
    lines = "".join(
        json.dumps(
            {"key": f"k{i}", "payload": None if i == 4 else f"v{i}", "ts": 1000 + i, "partition": i % 3,
             "headers": ["h", str(i)]}
        ) + "\n"
        for i in range(9)
    )  # fmt: skip
    assert ottla("produce", "original", "-J", stdin=lines).returncode == 0

    done = ottla("topic", "clone", "original", "copy", "--data")
    assert done.returncode == 0, done.stderr
    assert done.stderr == "Created topic copy: 3 partitions, 1 config set.\nCopied 9 records from original to copy.\n"

    def content(topic: str) -> list[dict[str, object]]:
        read = [
            json.loads(line) for line in ottla("consume", topic, "--from-beginning", "-e", "-J").stdout.splitlines()
        ]
        return sorted(
            ({**record, "topic": ""} for record in read), key=lambda record: (record["partition"], record["offset"])
        )

    assert content("copy") == content("original")
    assert len(content("copy")) == 9
    (told,) = json.loads(ottla("topic", "describe", "copy", "-O", "json").stdout)
    assert told["configs"] == {"retention.ms": "-1"}
    again = ottla("topic", "clone", "original", "copy")
    assert again.returncode == 1 and "already there" in again.stderr


@pytest.mark.kafka
def test_topics_are_listed_in_a_third_of_the_time_that_kafkas_tool_takes(kafka: ApacheKafka) -> None:
    def seconds(list_topics: Callable[[], object]) -> float:
        begun = time.perf_counter()
        list_topics()
        return time.perf_counter() - begun

    theirs = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap, "--list")
    ours = min(seconds(lambda: run_ottla("topic", "list", address=kafka.bootstrap)) for _ in range(5))
    assert ours <= 0.35 * min(seconds(lambda: tool(*theirs)) for _ in range(3))
