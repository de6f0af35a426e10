"""`ottla group` against a running node: looking at groups and deleting them."""

from __future__ import annotations

import json

import pytest
import yaml
from confluent_kafka import TopicPartition
from tests.cli.command import Run, new_topic_name, run_ottla
from tests.cli.completing import offered
from tests.cli.conftest import runner
from tests.cli.grouping import make_topic, member, offsets, rows, settle

from ottla.testing.apache_kafka import ApacheKafka


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    return make_topic(ottla, new_topic_name(request.node.name), 10, 20, 0)


@pytest.fixture
def group(ottla: Run, topic: str) -> str:
    """It has committed something in two of three partitions, and has no members."""
    name = f"{topic}-group"
    done = ottla("group", "reset", name, "--topic", f"{topic}:0,1", "--to-offset", "4", "--execute")
    assert done.returncode == 0, done.stderr
    return name


def test_a_group_without_members_is_described(ottla: Run, topic: str, group: str) -> None:
    shown = ottla("group", "describe", group, "-O", "table")
    assert shown.stderr == f"Group {group} has no members now.\n"
    head, *lines = shown.stdout.splitlines()
    assert head.split() == [
        "GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
    ]  # fmt: skip
    assert [line.split() for line in lines] == [
        [group, topic, "0", "4", "10", "6", "-", "-", "-"],
        [group, topic, "1", "4", "20", "16", "-", "-", "-"],
    ]
    plain = ottla("group", "describe", group).stdout.splitlines()
    assert plain[0].split("\t") == [group, topic, "0", "4", "10", "6", "-", "-", "-"]


def test_a_group_with_members_is_described(ottla: Run, node: str, topic: str, group: str) -> None:
    with member(node, group, topic, partitions=3, client_id="desk", group_instance_id="desk-1"):
        (told,) = rows(ottla, "group", "describe", group)
        assert (told["state"], told["type"], told["members"], told["lag"]) == ("Stable", "Classic", 1, 22)
        shape = [(row["partition"], row["current_offset"], row["lag"], row["client_id"]) for row in told["partitions"]]
        assert shape == [(0, 4, 6, "desk"), (1, 4, 16, "desk"), (2, None, None, "desk")]
        assert all(row["consumer_id"].startswith("desk") for row in told["partitions"])
        assert {row["host"] for row in told["partitions"]} == {"/127.0.0.1"}

        (state,) = rows(ottla, "group", "describe", "--state", group)
        assert (state["assignor"], state["state"], state["members"], state["coordinator"]) == ("range", "Stable", 1, 1)
        line = ottla("group", "describe", "--state", group, "-O", "table").stdout.splitlines()[1]
        assert f"{node} (1)" in line and line.split()[-1] == "1"

        (members,) = rows(ottla, "group", "members", group)
        (one,) = members["members"]
        assert (one["client_id"], one["instance_id"], one["assignment"]) == ("desk", "desk-1", {topic: [0, 1, 2]})
        assert one["subscribed_topics"] == [topic]
        verbose = ottla("group", "members", "-v", group, "-O", "table").stdout.splitlines()
        assert verbose[0].split() == [
            "GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT", "SUBSCRIBED",
        ]  # fmt: skip
        assert verbose[1].split()[2:] == ["desk-1", "/127.0.0.1", "desk", "3", f"{topic}:0,1,2", topic]

        for args, told_why in (
            (["reset", group, "--all-topics", "--to-latest"], "it is Stable with 1 member. Stop its consumers first"),
            (["seek", group, topic, "-o", "end"], "it is Stable with 1 member. Stop its consumers first"),
            (["delete", group], f"cannot delete group {group}: it has members; stop them first"),
            (["delete", group, "--topic", topic], "members of the group read the topic; stop them first"),
        ):
            refused = ottla("group", *args)
            assert refused.returncode == 1 and told_why in refused.stderr and refused.stderr.count("\n") == 1
    assert offsets(ottla, group) == {topic: {0: 4, 1: 4}}


def test_members_without_partitions_are_told(ottla: Run, node: str) -> None:
    topic = make_topic(ottla, new_topic_name("idle"), 3)
    group = f"{topic}-group"
    with member(node, group, topic, partitions=1) as first, member(node, group, topic, partitions=0) as second:
        settle([first, second], 1)
        shown = ottla("group", "describe", group)
        assert len(shown.stdout.splitlines()) == 1
        if "rebalancing" not in shown.stderr:  # the second may be on its way in
            assert shown.stderr.startswith(f"1 member of group {group} has no partition; `ottla group members")


def test_groups_are_listed_by_state_and_type(ottla: Run, node: str, topic: str, group: str) -> None:
    assert group in ottla("group", "list").stdout.splitlines()
    told = {row["group"]: row for row in rows(ottla, "group", "list")}
    assert told[group] == {"group": group, "type": "Classic", "state": "Empty", "protocol": None, "coordinator": 1}
    with member(node, f"{topic}-live", topic, partitions=3):
        stable = ottla("group", "list", "--state", "stable,PreparingRebalance").stdout.splitlines()
        assert f"{topic}-live" in stable and group not in stable
    assert group in ottla("group", "list", "-s", "Empty", "-t", "classic").stdout.splitlines()
    assert group not in ottla("group", "list", "-t", "consumer").stdout.splitlines()
    wrong = ottla("group", "list", "-s", "hungry")
    assert wrong.returncode == 2 and "'hungry' must be one of Empty, Stable" in wrong.stderr


def test_lag_is_summed_up_and_can_fail_a_script(ottla: Run, topic: str, group: str) -> None:
    (told,) = rows(ottla, "group", "lag", group)
    assert (told["lag"], told["partitions"], told["unknown"]) == (22, 2, 0)
    assert told["largest"] == {"topic": topic, "partition": 1, "lag": 16}
    assert ottla("group", "lag", group).stdout.split("\t") == [
        group, "Empty", "0", topic, "2", "22", f"16 ({topic}-1)\n",
    ]  # fmt: skip
    assert ottla("group", "lag", group, "--fail-above", "22").returncode == 0
    late = ottla("group", "lag", group, "--fail-above", "21")
    assert (late.returncode, late.stderr) == (3, f"Group {group} is more than 21 behind.\n")
    assert ottla("group", "lag", group, "-t", "another", "--fail-above", "0").returncode == 0

    other = make_topic(ottla, f"{topic}-other", 5)
    ottla("group", "seek", group, other, "-o", "3")
    lines = [line.split("\t") for line in ottla("group", "lag", group).stdout.splitlines()]
    assert [line[3:6] for line in lines] == [[topic, "2", "22"], [other, "1", "2"], ["(all)", "3", "24"]]


def test_a_group_that_is_not_there_is_told_with_the_one_that_is_meant(ottla: Run, group: str) -> None:
    for command in ("describe", "members", "lag"):
        missing = ottla("group", command, f"{group}x")
        assert missing.returncode == 1
        assert missing.stderr == f"ottla: there is no group {group}x; did you mean {group}?\n"
    unlike = ottla("group", "describe", "xyzzy")
    assert unlike.stderr == "ottla: there is no group xyzzy; `ottla group list` shows those that are there\n"
    deleted = ottla("group", "delete", f"{group}x")
    assert deleted.returncode == 1
    assert deleted.stderr == f"ottla: cannot delete group {group}x: there is no such group; did you mean {group}?\n"
    for args in (["describe"], ["describe", "g", "--all"], ["members"]):
        assert ottla("group", *args).returncode == 2


def test_groups_and_offsets_are_deleted(ottla: Run, topic: str, group: str) -> None:
    some = ottla("group", "delete", group, "--topic", f"{topic}:1,2")
    assert (some.returncode, some.stderr) == (0, f"Deleted the offsets of group {group} in {topic}, partition 1.\n")
    assert offsets(ottla, group) == {topic: {0: 4}}
    none = ottla("group", "delete", group, "--topic", f"{topic}:1")
    assert (none.returncode, none.stderr) == (0, f"Group {group} has no offsets there.\n")
    gone = ottla("group", "delete", group, group)
    assert (gone.returncode, gone.stderr) == (0, f"Deleted group {group}.\n")
    assert group not in ottla("group", "list").stdout.splitlines()
    again = ottla("group", "delete", group, "-O", "yaml")
    assert again.returncode == 1
    (row,) = yaml.safe_load(again.stdout)
    assert (row["group"], row["deleted"]) == (group, False) and row["reason"].startswith("there is no such group")


def test_a_group_whose_topic_has_gone_has_no_offsets_there(ottla: Run, topic: str, group: str) -> None:
    kept = make_topic(ottla, f"{topic}-kept", 5)
    ottla("group", "seek", group, kept, "-o", "1")
    ottla("topic", "delete", topic)
    assert offsets(ottla, group) == {kept: {0: 1}}


def test_watching_elsewhere_than_on_a_terminal_is_lines(ottla: Run, node: str, topic: str, group: str) -> None:
    shown = ottla("group", "watch", group, "-n", "2", "-i", "0.2")
    first, second = (line.split("\t") for line in shown.stdout.splitlines())
    assert first[1:] == [group, "Empty", "0", "22", "-", "-", "-", "no"]
    assert second[1:] == [group, "Empty", "0", "22", "0.0", "0.0", "-", "yes"]
    told = [json.loads(line) for line in ottla("group", "watch", group, "-n", "1", "-O", "json").stdout.splitlines()]
    assert (told[0]["group"], told[0]["lag"], told[0]["falls_behind"]) == (group, 22, False)
    missing = ottla("group", "watch", f"{group}x", "-n", "1")
    assert missing.returncode == 1 and f"did you mean {group}?" in missing.stderr


def test_groups_are_completed_wherever_one_is_named(node: str, topic: str, group: str) -> None:
    start = group[:-3]
    for words in (["group", "describe"], ["group", "reset"], ["consume", "t", "-g"], ["config", "get", "group"]):
        assert offered(*words, start, address=node) == [group], words
    assert offered("group", "reset", group, "--topic", topic[:-1], address=node)[0].startswith(topic[:-1])
    assert offered("group", "list", "--state", "s", address=node) == ["Stable"]


def test_nobody_there_is_told_in_one_line() -> None:
    for command in (["list"], ["describe", "g"], ["lag"], ["watch"], ["delete", "g"]):
        shown = run_ottla("group", *command, "-b", "127.0.0.1:1")
        assert shown.returncode == 1 and shown.stderr.count("\n") == 1
        assert "no broker answers at 127.0.0.1:1" in shown.stderr


@pytest.mark.parametrize("where", ["node", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_groups_of_the_consumer_protocol(request: pytest.FixtureRequest, where: str) -> None:
    found = request.getfixturevalue(where)
    address = found.bootstrap if isinstance(found, ApacheKafka) else str(found)
    run = runner(address)
    topic = make_topic(run, new_topic_name("next-generation"), 10, 20, 0)
    group = f"{topic}-group"
    own = {"group_protocol": "consumer", "client_id": "desk", "session_timeout_ms": None}
    with member(address, group, topic, partitions=3, **own) as consumer:
        consumer.commit(offsets=[TopicPartition(topic, 1, 5)], asynchronous=False)
        (told,) = rows(run, "group", "describe", group)
        assert (told["type"], told["state"], told["members"], told["lag"]) == ("Consumer", "Stable", 1, 15)
        assert [row["current_offset"] for row in told["partitions"]] == [None, 5, None]
        assert {row["client_id"] for row in told["partitions"]} == {"desk"}
        (state,) = rows(run, "group", "describe", "--state", group)
        assert state["assignor"] == "uniform" and state["epoch"] == state["assignment_epoch"] >= 1
        (members,) = rows(run, "group", "members", group)
        (one,) = members["members"]
        assert one["assignment"] == one["target_assignment"] == {topic: [0, 1, 2]}
        assert (one["protocol"], one["epoch"], one["subscribed_topics"]) == ("consumer", state["epoch"], [topic])
        verbose = run("group", "members", group, "-v", "-O", "table").stdout.splitlines()
        assert verbose[0].split()[4:] == ["#PARTITIONS", "EPOCH", "ASSIGNMENT", "TARGET", "SUBSCRIBED", "PROTOCOL"]
        assert group in run("group", "list", "--type", "consumer", "--state", "stable").stdout.split()
        for args in (["reset", group, "--all-topics", "--to-latest", "--execute"], ["delete", group]):
            refused = run("group", *args)
            assert refused.returncode == 1 and "stop" in refused.stderr.lower()
        assert "members of the group read the topic" in run("group", "delete", group, "--topic", topic).stderr
    assert run("group", "seek", group, topic, "-o", "2").returncode == 0
    assert offsets(run, group) == {topic: {0: 2, 1: 2, 2: 0}}
    assert run("group", "delete", group).returncode == 0
    assert group not in run("group", "list").stdout.split()


def test_a_member_by_the_consumer_protocol_commits_what_it_printed(ottla: Run, topic: str) -> None:
    group = f"{topic}-next"
    read = ottla("consume", topic, "-g", group, "-X", "group.protocol=consumer", "-o", "-3", "-e", "-f", r"%p/%o\n")
    assert sorted(read.stdout.split()) == ["0/7", "0/8", "0/9", "1/17", "1/18", "1/19"]
    assert offsets(ottla, group) == {topic: {0: 10, 1: 20}}
    again = ottla("consume", topic, "-g", group, "-X", "group.protocol=consumer", "--from-beginning", "-e")
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
