"""What a person sees of a cluster, and how he moves partitions in it: the same of Apache Kafka's and of ours."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from tests.cli.command import Run, new_topic_name, run_ottla
from tests.cli.conftest import runner
from tests.waiting import until

from ottla.testing.apache_kafka import free_port, tool
from ottla.testing.apache_kafka_cluster import ApacheKafkaCluster, running_cluster


class Three(NamedTuple):
    """A cluster of three nodes."""

    ottla: Run
    bootstrap: str
    kill: Callable[[int], None]
    start: Callable[[int], None]

    def told(self, *args: str) -> Any:
        done = self.ottla(*args, "-O", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def done(self, *args: str) -> str:
        """What it remarked."""
        done = self.ottla(*args)
        assert done.returncode == 0, done.stderr
        return done.stderr

    def well(self) -> None:
        done = self.ottla("cluster", "status", "--wait", "60", "--brokers", "3")
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def kafka_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheKafkaCluster]:
    folder = tmp_path_factory.mktemp("kafka-cluster")
    with running_cluster(folder, 3, broker_session_timeout_ms=5000, broker_heartbeat_interval_ms=500) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def our_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Its data folder and addresses."""
    folder = tmp_path_factory.mktemp("cluster")
    started = run_ottla(
        "up", "--brokers", "3", "--port", str(free_port()), "--data", str(folder), "--detach", "-O", "json"
    )  # fmt: skip
    assert started.returncode == 0, started.stderr
    yield folder, json.loads(started.stdout)["address"]
    assert run_ottla("down", "--data", str(folder)).returncode == 0


@pytest.fixture(params=["ottla", pytest.param("kafka", marks=pytest.mark.kafka)])
def three(request: pytest.FixtureRequest) -> Three:
    if request.param == "kafka":
        cluster: ApacheKafkaCluster = request.getfixturevalue("kafka_cluster")

        def kill(node: int) -> None:
            cluster.nodes[node].kill()

        found = Three(runner(cluster.bootstrap), cluster.bootstrap, kill, cluster.start_again)
    else:
        folder, bootstrap = request.getfixturevalue("our_cluster")

        def tell(verb: str) -> Callable[[int], None]:
            def do(node: int) -> None:
                done = run_ottla("node", verb, str(node), "--data", str(folder))
                assert done.returncode == 0, done.stderr

            return do

        found = Three(runner(bootstrap), bootstrap, tell("kill"), tell("start"))
    found.well()
    return found


@pytest.fixture
def topic(three: Three, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    three.done("topic", "create", name, "-p", "3", "-r", "3", "-c", "min.insync.replicas=2")
    three.done("produce", name, "a", "b", "c")
    return name


def replicas_of(three: Three, topic: str) -> dict[int, list[int]]:
    (told,) = three.told("topic", "describe", topic)
    return {part["partition"]: part["replicas"] for part in told["partitions"]}


def test_a_cluster_that_is_well(three: Three, topic: str) -> None:
    told = three.told("cluster", "status")
    assert told["well"] and told["problems"] == []
    assert told["brokers"] == {"registered": [1, 2, 3], "up": [1, 2, 3]}
    assert sorted(told["voters"]["all"]) == [1, 2, 3] and told["controller"] in (1, 2, 3)
    assert told["topics"] >= 1 and told["partitions"] >= 3
    assert (told["without_leader"], told["under_min_isr"], told["under_replicated"]) == (0, 0, 0)
    lines = three.ottla("cluster", "status").stdout.splitlines()
    assert lines[1].split() == ["state", "well"]
    assert yaml.safe_load(three.ottla("cluster", "status", "-O", "yaml").stdout)["cluster_id"] == told["cluster_id"]


def test_its_nodes(three: Three, topic: str) -> None:
    rows = three.told("cluster", "nodes")
    assert [row["node"] for row in rows] == [1, 2, 3]
    assert {row["address"] for row in rows} == set(three.bootstrap.split(","))
    assert sum(row["is_active_controller"] for row in rows) == 1
    for row in rows:
        assert row["roles"] == ["broker", "controller"]
        assert row["state"] == ("active" if row["is_active_controller"] else "up")
        assert row["replicas"] >= 3 and row["bytes"] > 0


def test_a_broker_that_has_gone_for_good_is_forgotten(three: Three, topic: str) -> None:
    def refused(*args: str) -> str:
        done = three.ottla("cluster", "remove-broker", *args)
        assert done.returncode == 1
        return done.stderr

    assert "broker 3 runs" in refused("3") and "there is no broker 9; there are 1, 2, 3" in refused("9")
    three.kill(3)
    until(lambda: three.told("cluster", "nodes")[2]["state"] == "fenced")
    assert "partitions have a replica on broker 3" in refused("3")
    told = three.told("cluster", "remove-broker", "3", "--force")
    assert told["registered"] is False and told["replicas"] >= 3
    until(lambda: three.told("cluster", "status")["brokers"]["registered"] == [1, 2])
    three.start(3)
    three.well()


def test_its_quorum(three: Three) -> None:
    told = three.told("cluster", "quorum")
    assert told["leader"] in (1, 2, 3) and told["epoch"] >= 1 and told["high_watermark"] > 0
    assert [(row["node"], row["part"]) for row in told["members"]] == [
        (node, "leader" if node == told["leader"] else "voter") for node in (1, 2, 3)
    ]
    assert all(row["lag"] < 50 and row["address"].startswith("127.0.0.1:") for row in told["members"])
    for controller in (row["address"] for row in told["members"]):
        asked = three.ottla("cluster", "quorum", "-b", controller, "-O", "json")
        assert asked.returncode == 0, asked.stderr
        assert json.loads(asked.stdout)["leader"] == told["leader"]


def test_a_topic_with_its_replicas(three: Three, topic: str) -> None:
    (told,) = three.told("topic", "describe", topic)
    assert (told["replicas"], told["min_in_sync"]) == (3, 2)
    for part in told["partitions"]:
        assert sorted(part["replicas"]) == sorted(part["in_sync"]) == [1, 2, 3]
        assert part["leader"] == part["replicas"][0] and part["eligible"] == []
        assert set(part["lag"]) == {str(node) for node in part["replicas"][1:]}
    until(
        lambda: all(
            set(part["lag"].values()) == {0} for part in three.told("topic", "describe", topic)[0]["partitions"]
        )
    )
    assert sum(part["ends"] for part in told["partitions"]) == 3
    none = three.ottla("topic", "describe", "--under-replicated", "--under-min-isr", "--unavailable")
    assert (none.stdout, none.stderr) == ("", "No partition is unavailable or under-min-isr or under-replicated.\n")
    assert "which topics?" in three.ottla("topic", "describe").stderr


def test_a_dead_node_is_seen_and_leaders_go_back_when_it_has_returned(three: Three, topic: str) -> None:
    (before,) = three.told("topic", "describe", topic)
    lost = next(part["partition"] for part in before["partitions"] if part["leader"] == 3)
    three.kill(3)
    survivors = ",".join(three.bootstrap.split(",")[:2])
    alive = three._replace(ottla=runner(survivors))
    until(lambda: alive.told("cluster", "status")["brokers"]["up"] == [1, 2])
    told = alive.ottla("cluster", "status")
    assert told.returncode == 0 and "not well" in told.stdout
    assert "broker 3 is fenced" in told.stderr and "`ottla topic describe --under-replicated`" in told.stderr
    assert alive.ottla("cluster", "status", "--wait", "0").returncode == 1
    assert [row["state"] == "fenced" for row in alive.told("cluster", "nodes")] == [False, False, True]
    until(lambda: not alive.told("topic", "describe", "--unavailable"))
    (under,) = [each for each in alive.told("topic", "describe", "--under-replicated") if each["topic"] == topic]
    assert len(under["partitions"]) == 3
    for part in under["partitions"]:
        assert sorted(part["in_sync"]) == [1, 2] and part["offline"] == [3] and part["lag"]["3"] is None
    assert alive.told("topic", "describe", topic, "--at-min-isr") == [under]
    assert alive.told("topic", "describe", topic, "--under-min-isr") == []

    three.start(3)
    three.well()
    row = three.told("elect", "preferred", f"{topic}:{lost}")[0]
    # a broker may have got its leaders back by itself
    assert row["leader"] == 3 and (row["elected"] or row["unneeded"])
    again = three.ottla("elect", "preferred", f"{topic}:{lost}")
    assert again.returncode == 0 and again.stderr == "0 leaders elected.\n"
    three.done("elect", "preferred", "--all")
    assert three.told("cluster", "status")["not_preferred"] == 0


def test_partitions_that_a_dead_node_keeps_from_being_written_are_named(three: Three, topic: str) -> None:
    alone, strict = f"{topic}-alone", f"{topic}-strict"
    three.done("topic", "create", alone, "-p", "3", "-r", "1", "-c", "min.insync.replicas=2")
    three.done("topic", "create", strict, "-p", "1", "-r", "3", "-c", "min.insync.replicas=3")
    (gone,) = [number for number, replicas in replicas_of(three, alone).items() if replicas == [3]]
    three.kill(3)
    survivors = ",".join(three.bootstrap.split(",")[:2])
    alive = three._replace(ottla=runner(survivors))

    def named(flag: str) -> dict[str, list[int]]:
        told = alive.told("topic", "describe", topic, alone, strict, flag)
        return {each["topic"]: [part["partition"] for part in each["partitions"]] for each in told}

    until(lambda: named("--unavailable") == {alone: [gone]})
    assert named("--under-min-isr") == {alone: [gone], strict: [0]}
    assert gone not in named("--at-min-isr").get(alone, []) and len(named("--at-min-isr")[alone]) == 2

    three.start(3)
    three.well()
    assert named("--unavailable") == named("--under-min-isr") == {}


def test_electing_asks_which_and_an_unclean_one_asks_first(three: Three, topic: str) -> None:
    assert "Give either TOPIC[:PARTITION,...] or --all" in three.ottla("elect", "preferred").stderr
    assert "say --yes if it is meant" in three.ottla("elect", "unclean", topic).stderr
    done = three.ottla("elect", "unclean", topic, "--yes")
    assert done.returncode == 0 and done.stderr == "0 leaders elected.\n"
    assert "there is no topic" in three.ottla("elect", "preferred", "no-such-topic").stderr


@pytest.fixture
def narrow(three: Three, request: pytest.FixtureRequest) -> str:
    """A topic whose partitions are on two of the nodes each, with more in them than one fetch brings."""
    name = new_topic_name(request.node.name)
    three.done("topic", "create", name, "-p", "4", "-r", "2")
    for partition in range(4):
        three.done("perf", "produce", name, "-p", str(partition), "-n", "3000", "-s", "1000")
    return name


def test_a_broker_is_emptied_by_a_plan_and_filled_by_the_way_back(three: Three, narrow: str, tmp_path: Path) -> None:
    before = replicas_of(three, narrow)
    plan, back = str(tmp_path / "plan.json"), str(tmp_path / "back.json")
    made = three.ottla("reassign", "plan", narrow, "--remove-broker", "3", "-f", plan)
    assert made.returncode == 0 and f"`ottla reassign run {plan}` does it" in made.stderr
    rows = json.loads(Path(plan).read_text())["partitions"]
    assert {row["partition"] for row in rows} >= {number for number, each in before.items() if 3 in each}
    assert replicas_of(three, narrow) == before

    done = three.done("reassign", "run", plan, "--throttle", "100MB", "--rollback", back, "-i", "0.2")
    assert f"Moved {len(rows)} partitions." in done and "Throttles removed." in done
    after = replicas_of(three, narrow)
    assert all(sorted(each) == [1, 2] for each in after.values())
    assert three.told("reassign", "plan", narrow, "--remove-broker", "3") == []
    configs = three.told("config", "get", "topic", narrow) + three.told("config", "get", "broker", "1")
    assert not [row["config"] for row in configs if "throttled" in row["config"]]

    three.done("reassign", "run", back)
    assert replicas_of(three, narrow) == before


def test_moves_are_throttled_watched_and_cancelled(three: Three, narrow: str, tmp_path: Path) -> None:
    before = replicas_of(three, narrow)
    plan = str(tmp_path / "plan.json")
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", plan)
    done = three.done("reassign", "run", plan, "--throttle", "1000", "--no-wait")
    assert "Began to move" in done
    rows = three.told("reassign", "watch", "--once")
    assert {row["topic"] for row in rows} == {narrow}
    for row in rows:
        assert 3 in row["removing"] and row["copied"] <= row["to_copy"]
    assert sum(row["to_copy"] for row in rows) > 0
    again = three.ottla("reassign", "run", plan)
    assert again.returncode == 1 and "is being moved already; wait for it" in again.stderr
    assert any(row["config"] == "leader.replication.throttled.rate" and row["value"] == "1000"
               for row in three.told("config", "get", "broker", "1"))  # fmt: skip

    first = f"{narrow}:{rows[0]['partition']}"
    one = three.ottla("reassign", "cancel", first)
    assert one.returncode == 0 and "Cancelled 1 move." in one.stderr
    everything = three.ottla("reassign", "cancel", "--all")
    assert everything.returncode == 0 and "Throttles removed." in everything.stderr
    assert three.told("reassign", "watch", "--once") == []
    back = {number: sorted(replicas) for number, replicas in replicas_of(three, narrow).items()}
    assert back == {number: sorted(replicas) for number, replicas in before.items()}
    assert "No partition is being moved." in three.done("reassign", "watch")
    assert "Give one of" in three.ottla("reassign", "cancel").stderr


def test_who_waits_for_a_move_is_told_that_it_was_cancelled(three: Three, narrow: str, tmp_path: Path) -> None:
    plan = str(tmp_path / "plan.json")
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", plan)
    with ThreadPoolExecutor() as others:
        waiting = others.submit(three.ottla, "reassign", "run", plan, "--throttle", "1000", "-i", "0.1")
        until(lambda: three.told("reassign", "watch", "--once"))
        three.ottla("reassign", "cancel", narrow)
        told = waiting.result()
    assert told.returncode == 1 and "could not be moved" in told.stderr, told.stderr
    assert "cancelled meanwhile" in told.stdout


@pytest.mark.parametrize("which", ["all", "topic"])
def test_cancelling_what_has_ended_takes_its_throttles_away(
    three: Three, narrow: str, tmp_path: Path, which: str
) -> None:
    plan = str(tmp_path / "plan.json")
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", plan)
    three.done("reassign", "run", plan, "--throttle", "1GB", "--keep-throttles")
    done = three.ottla("reassign", "cancel", narrow if which == "topic" else "--all")
    assert done.returncode == 0 and "is being moved." in done.stderr and "Throttles removed." in done.stderr
    assert not [row for row in three.told("config", "get", "topic", narrow) if "throttled" in row["config"]]


def test_without_a_way_back_that_was_asked_for_nothing_is_moved(three: Three, narrow: str, tmp_path: Path) -> None:
    before = replicas_of(three, narrow)
    plan = str(tmp_path / "plan.json")
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", plan)
    done = three.ottla(
        "reassign", "run", plan, "--throttle", "1000", "--rollback", str(tmp_path / "gone" / "back.json")
    )
    assert done.returncode == 1 and "cannot write" in done.stderr
    assert three.told("reassign", "watch", "--once") == [] and replicas_of(three, narrow) == before


def test_a_folder_that_no_broker_has_leaves_no_throttles(three: Three, narrow: str, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", str(plan))
    told = json.loads(plan.read_text())
    for row in told["partitions"]:
        row["log_dirs"] = ["/nowhere"] * len(row["replicas"])
    plan.write_text(json.dumps(told))
    done = three.ottla("reassign", "run", str(plan), "--throttle", "1000")
    assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
    configs = three.told("config", "get", "topic", narrow) + three.told("config", "get", "broker", "1")
    assert not [row["config"] for row in configs if "throttled" in row["config"]]


@pytest.mark.kafka
def test_kafkas_own_tool_reads_a_plan_and_makes_one_that_is_read_here(
    three: Three, narrow: str, tmp_path: Path
) -> None:  # fmt: skip
    plan = tmp_path / "plan.json"
    three.done("reassign", "plan", narrow, "--remove-broker", "3", "-f", str(plan))
    command = ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand", "--bootstrap-server", three.bootstrap)
    done = tool(*command, "--reassignment-json-file", str(plan), "--execute")
    assert "Successfully started partition reassignment" in done.stdout, done.stdout + done.stderr
    three.done("reassign", "watch")
    assert all(sorted(each) == [1, 2] for each in replicas_of(three, narrow).values())

    back = tmp_path / "back.json"
    current = next(line for line in done.stdout.splitlines() if line.startswith('{"version"'))
    back.write_text(current)
    three.done("reassign", "run", str(back))
    assert any(3 in each for each in replicas_of(three, narrow).values())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[]", "has no list `partitions`"),
        ('{"version": 2, "partitions": []}', "is of version 2"),
        ('{"version": 1, "partitions": [{"topic": "t"}]}', "entry 1: topic, partition and replicas are needed"),
        ('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 1]}]}', "each on a broker"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": [1], "log_dirs": ["/", "any"]}]}', "2 log_dirs"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(tmp_path: Path, content: str, message: str) -> None:
    from ottla.cli.reassign.file import read
    from ottla.model.errors import OttlaError

    file = tmp_path / "plan.json"
    file.write_text(content)
    with pytest.raises(OttlaError, match=message):
        read(str(file))


def test_a_plan_for_what_is_not_there_is_refused(three: Three, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 9, "replicas": [1]}]}))
    assert f"there is no partition {topic}-9" in three.ottla("reassign", "run", str(file)).stderr
    file.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": [9]}]}))
    assert "broker 9, which is not there" in three.ottla("reassign", "run", str(file)).stderr
    file.write_text('{"version": 1, "partitions": []}')
    assert three.done("reassign", "run", str(file)) == f"Nothing to move: {file} has no partitions.\n"
    assert "broker 9 is not up" in three.ottla("reassign", "plan", "--brokers", "1,9").stderr
    assert "there is no broker 9 to leave empty" in three.ottla("reassign", "plan", "--remove-broker", "9").stderr
