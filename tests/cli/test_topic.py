"""`ottla topic` against a running node."""

import pytest
from tests.cli.command import Run


def test_a_topic_is_created_listed_described_and_deleted(ottla: Run) -> None:
    created = ottla("topic", "create", "life", "-p", "3", "-c", "retention.ms=1000", "-c", "cleanup.policy=compact")
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
        (["refused", "-c", "retention.ms=x"], "Invalid value x for configuration retention.ms"),
    ],
)
def test_what_the_broker_refuses_is_told_in_one_line(ottla: Run, args: list[str], message: str) -> None:
    refused = ottla("topic", "create", *args)
    assert refused.returncode == 1
    assert message in refused.stderr and refused.stderr.count("\n") == 1


def test_a_missing_topic_is_told(ottla: Run) -> None:
    assert "topic nope: there is no such topic" in ottla("topic", "describe", "nope").stderr
    deleted = ottla("topic", "delete", "nope")
    assert deleted.returncode == 1
    assert "cannot delete topic nope: there is no such topic" in deleted.stderr
