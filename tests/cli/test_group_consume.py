"""`ottla consume --group`: a member like any other, that commits what it printed."""

from __future__ import annotations

import signal
import subprocess

import pytest
from tests.cli.command import OTTLA, Run, new_topic_name, run_ottla
from tests.cli.grouping import make_topic, member, offsets, rows
from tests.waiting import PATIENCE_S, attempts

from ottla.testing.apache_kafka import ApacheKafka


@pytest.fixture(params=["node", pytest.param("kafka", marks=pytest.mark.kafka)])
def address(request: pytest.FixtureRequest) -> str:
    found = request.getfixturevalue(request.param)
    return found.bootstrap if isinstance(found, ApacheKafka) else str(found)


@pytest.fixture
def run(address: str) -> Run:
    from tests.cli.conftest import runner

    return runner(address)


@pytest.fixture
def topic(run: Run, request: pytest.FixtureRequest) -> str:
    return make_topic(run, new_topic_name(request.node.name), 5, 3)


def test_it_goes_on_where_the_group_was(run: Run, topic: str) -> None:
    group = f"{topic}-group"
    first = run("consume", topic, "-g", group, "--from-beginning", "-e")
    assert (first.returncode, first.stderr) == (0, "")
    assert sorted(first.stdout.split()) == ["0", "0", "1", "1", "2", "2", "3", "4"]
    assert offsets(run, group) == {topic: {0: 5, 1: 3}}
    run("produce", topic, "-p", "1", "new")
    # -o counts only where nothing is committed
    assert run("consume", topic, "-g", group, "-o", "beginning", "-e").stdout == "new\n"
    assert offsets(run, group) == {topic: {0: 5, 1: 4}}


def test_what_was_not_printed_is_not_committed(run: Run, topic: str) -> None:
    group = f"{topic}-group"
    assert len(run("consume", topic, "-g", group, "--from-beginning", "-n", "3").stdout.split()) == 3
    (told,) = rows(run, "group", "describe", group)
    assert sum(row["current_offset"] or 0 for row in told["partitions"]) == 3
    rest = run("consume", topic, "-g", group, "--from-beginning", "-e")
    assert len(rest.stdout.split()) == 5
    assert rows(run, "group", "lag", group)[0]["lag"] == 0


def test_it_begins_where_told_where_nothing_is_committed(run: Run, topic: str) -> None:
    group = f"{topic}-group"
    run("group", "reset", group, "--topic", f"{topic}:1", "--to-offset", "1", "--execute")
    read = run("consume", topic, "-g", group, "-o", "-2", "-e", "-f", r"%p/%o\n")
    assert sorted(read.stdout.split()) == ["0/3", "0/4", "1/1", "1/2"]
    timed = run("consume", topic, "-g", f"{group}-2", "--from-time", "1700000002", "-e", "-f", r"%p/%o\n")
    assert sorted(timed.stdout.split()) == ["0/2", "0/3", "0/4", "1/2"]


def test_nothing_is_committed_if_so_told(run: Run, topic: str) -> None:
    group = f"{topic}-group"
    run("group", "reset", group, "--topic", topic, "--to-earliest", "--execute")
    for _ in range(2):
        done = run("consume", topic, "-g", group, "--no-commit", "-e")
        assert (done.stderr, len(done.stdout.split())) == ("", 8)
    assert offsets(run, group) == {topic: {0: 0, 1: 0}}


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_it_leaves_the_group_when_it_is_stopped(run: Run, address: str, topic: str, by: signal.Signals) -> None:
    group = f"{topic}-group"
    process = subprocess.Popen(
        [*OTTLA, "consume", topic, "-g", group, "--from-beginning", "-b", address],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert all(process.stdout.readline() for _ in range(8))
    assert rows(run, "group", "describe", "--state", group)[0]["members"] == 1
    process.send_signal(by)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (0, "", "")
    assert rows(run, "group", "describe", "--state", group)[0]["members"] == 0  # it did not just vanish
    assert offsets(run, group) == {topic: {0: 5, 1: 3}}


def test_two_members_share_and_both_leave(run: Run, address: str, topic: str) -> None:
    group = f"{topic}-group"

    def reader() -> subprocess.Popen[str]:
        command = [*OTTLA, "consume", topic, "-g", group, "--from-beginning", "-b", address, "-f", "%p "]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    processes = [reader(), reader()]
    for _ in range(200):
        told = rows(run, "group", "members", group) if group in run("group", "list").stdout.split() else []
        if told and sorted(len(member["assignment"].get(topic, ())) for member in told[0]["members"]) == [1, 1]:
            break
    else:
        pytest.fail("they do not share")
    run("produce", topic, "-p", "0", "x")
    run("produce", topic, "-p", "1", "y")
    for _ in range(200):
        if rows(run, "group", "lag", group)[0]["lag"] == 0:
            break
    for process in processes:
        process.send_signal(signal.SIGINT)
    ends = [process.communicate(timeout=PATIENCE_S) for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert {number for out, _ in ends for number in out.split()} == {"0", "1"}
    assert offsets(run, group) == {topic: {0: 6, 1: 4}}


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-g", "g", "-p", "0"], "the members of a group share its partitions out themselves"),
        (["--no-commit"], "--no-commit needs --group"),
        (["-g", "g", "-o", "stored", "--no-commit"], "--no-commit needs --group"),
    ],
)
def test_what_makes_no_sense_in_a_group_is_refused(args: list[str], told: str) -> None:
    refused = run_ottla("consume", "t", *args)
    assert refused.returncode == 2 and told in refused.stderr


def test_who_gets_no_partition_ends_all_the_same(ottla: Run, node: str) -> None:
    topic = make_topic(ottla, new_topic_name("crowded"), 3)
    with member(node, f"{topic}-group", topic, partitions=1) as first:
        process = subprocess.Popen(
            [*OTTLA, "consume", topic, "-g", f"{topic}-group", "--from-beginning", "-e", "-b", node],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        for _ in attempts("it ends"):
            if process.poll() is not None:
                break
            first.poll(0.1)
        out, err = process.communicate()
        # one of the two has the partition; who has it gets all of it, as nothing is committed
        assert (process.returncode, err) == (0, "") and len(out.split()) in (0, 3)
