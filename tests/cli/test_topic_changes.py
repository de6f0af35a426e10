"""`ottla topic alter` and `ottla topic purge`."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.cli.command import Run, new_topic_name

from ottla.cli.topic.alter import _share_that_stays


@pytest.fixture
def topic(anywhere: Run, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    anywhere("topic", "create", name, "-p", "2")
    return name


def described(run: Run, topic: str) -> dict[str, Any]:
    (told,) = json.loads(run("topic", "describe", topic, "-O", "json").stdout)
    return dict(told)


def spans(run: Run, topic: str) -> list[tuple[int, int]]:
    return [(part["begins"], part["ends"]) for part in described(run, topic)["partitions"]]


def fill(run: Run, topic: str) -> None:
    lines = "".join(f'{{"payload":"{i}","ts":{1_700_000_000_000 + i * 1000},"partition":{i % 2}}}\n' for i in range(10))
    assert run("produce", topic, "-J", stdin=lines).returncode == 0


def test_partitions_are_added_with_a_warning_about_keys(anywhere: Run, topic: str) -> None:
    done = anywhere("topic", "alter", topic, "--partitions", "4", "--yes")
    assert done.returncode == 0, done.stderr
    assert "goes from 2 to 4 partitions" in done.stderr and "50% of the keys stay" in done.stderr
    assert done.stderr.endswith(f"Changed topic {topic}: 2 to 4 partitions.\n")
    assert len(described(anywhere, topic)["partitions"]) == 4


def test_without_a_terminal_and_yes_nothing_is_done(anywhere: Run, topic: str) -> None:
    for args in (["alter", topic, "-p", "3"], ["purge", topic]):
        fill(anywhere, topic)
        refused = anywhere("topic", *args)
        assert refused.returncode == 2 and "say --yes if it is meant" in refused.stderr
    assert len(described(anywhere, topic)["partitions"]) == 2
    assert spans(anywhere, topic) == [(0, 10), (0, 10)]


def test_configs_are_changed_with_the_partitions(anywhere: Run, topic: str) -> None:
    done = anywhere("topic", "alter", topic, "-p", "3", "-y", "-c", "retention.ms=1d", "-c", "segment.bytes=2MiB")
    assert done.returncode == 0, done.stderr
    assert described(anywhere, topic)["configs"] == {"retention.ms": "86400000", "segment.bytes": "2097152"}
    assert anywhere("topic", "alter", topic, "--default", "retention.ms").returncode == 0
    assert described(anywhere, topic)["configs"] == {"segment.bytes": "2097152"}


def test_what_is_refused_in_part_is_not_done_in_part(anywhere: Run, topic: str) -> None:
    refused = anywhere("topic", "alter", topic, "-p", "3", "-y", "-c", "retention.ms=x")
    assert refused.returncode == 1
    assert len(described(anywhere, topic)["partitions"]) == 2
    refused = anywhere("topic", "alter", topic, "-p", "1000000", "-y", "-c", "retention.ms=1d")
    assert refused.returncode == 1
    assert described(anywhere, topic)["configs"] == {}


def test_a_check_changes_nothing(anywhere: Run, topic: str) -> None:
    checked = anywhere("topic", "alter", topic, "-p", "5", "-c", "retention.ms=1d", "--check")
    assert (checked.returncode, checked.stderr) == (0, f"Would change topic {topic}: 2 to 5 partitions, 1 config.\n")
    assert len(described(anywhere, topic)["partitions"]) == 2 and described(anywhere, topic)["configs"] == {}


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["-p", "1", "--yes"], "a topic cannot lose any"),
        (["-p", "2", "--yes"], "has 2 partitions already"),
        (["-c", "retention.ms=x"], "Invalid value x for configuration retention.ms"),
        (["-c", "retenton.ms=1"], "did you mean retention.ms?"),
    ],
)
def test_what_cannot_be_changed_is_told(anywhere: Run, topic: str, args: list[str], complaint: str) -> None:
    refused = anywhere("topic", "alter", topic, *args)
    assert refused.returncode == 1 and complaint in refused.stderr and refused.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "left"),
    [
        ([], [(5, 5), (5, 5)]),
        (["-p", "1"], [(0, 5), (5, 5)]),
        (["--before-offset", "3"], [(3, 5), (3, 5)]),
        (["--before-offset", "99"], [(5, 5), (5, 5)]),
        (["--before-time", "1700000006"], [(3, 5), (3, 5)]),
        (["--before-time", "1m ago"], [(5, 5), (5, 5)]),
    ],
)
def test_records_are_purged(anywhere: Run, topic: str, args: list[str], left: list[tuple[int, int]]) -> None:
    fill(anywhere, topic)
    done = anywhere("topic", "purge", topic, *args, "--yes")
    assert done.returncode == 0, done.stderr
    assert spans(anywhere, topic) == left
    assert f"of topic {topic}.\n" in done.stderr
    assert [tuple(map(int, line.split("\t"))) for line in done.stdout.splitlines()] == [
        (number, 0, begins, ends) for number, (begins, ends) in enumerate(left) if "-p" not in args or number == 1
    ]
    assert "nothing to delete" in anywhere("topic", "purge", topic, *args, "--yes").stderr


def test_a_partition_that_is_not_there_is_not_purged(anywhere: Run, topic: str) -> None:
    refused = anywhere("topic", "purge", topic, "-p", "7", "--yes")
    assert refused.returncode == 1 and "has no partition 7, only 0 to 1" in refused.stderr


@pytest.mark.parametrize(
    ("before", "after", "stays"), [(1, 2, 0.5), (2, 4, 0.5), (3, 6, 0.5), (2, 3, 1 / 3), (10, 11, 1 / 11)]
)
def test_how_many_keys_stay(before: int, after: int, stays: float) -> None:
    assert _share_that_stays(before, after) == pytest.approx(stays)
