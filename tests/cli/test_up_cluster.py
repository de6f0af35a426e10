"""`ottla up --brokers` and `ottla node`: a cluster on this machine, its supervisor, and single nodes of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.cli.command import OTTLA, run_ottla
from tests.cli.test_terminal import CTRL_C, at_terminal
from tests.waiting import until

from ottla.cli.supervise.layout import Layout, copies, load, new_layout, settings, store
from ottla.model.errors import OttlaError
from ottla.testing.apache_kafka import free_port


def up(data: Path, *args: str, detach: bool = True) -> subprocess.CompletedProcess[str]:
    return run_ottla("up", "--data", str(data), "--port", str(free_port()), *args, *(("--detach",) if detach else ()))


def told(data: Path, *args: str) -> Any:
    done = run_ottla(*args, "--data", str(data), "-O", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def nodes(data: Path) -> dict[int, dict[str, Any]]:
    return {row["node"]: row for row in told(data, "node", "list")}


def states(data: Path) -> list[str]:
    return [row["state"] for row in nodes(data).values()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder with three nodes, whose path is longer than that of a socket may be."""
    folder = tmp_path_factory.mktemp("x" * 100) / "data"
    started = up(folder, "--brokers", "3")
    assert started.returncode == 0, started.stderr
    yield folder
    assert run_ottla("down", "--data", str(folder)).returncode == 0


@pytest.fixture
def three(cluster: Path) -> Path:
    for number, node in nodes(cluster).items():
        if node["state"] != "up":
            told(cluster, "node", "start", str(number))
    return cluster


def bootstrap(data: Path) -> str:
    layout = load(data)
    assert layout is not None
    return ",".join(f"127.0.0.1:{node.port}" for node in layout.brokers)


def test_every_node_is_a_process_with_a_port_and_a_folder(three: Path) -> None:
    rows = nodes(three)
    assert list(rows) == [1, 2, 3] and states(three) == ["up"] * 3
    assert len({row["pid"] for row in rows.values()}) == len({row["address"] for row in rows.values()}) == 3
    for number, row in rows.items():
        assert psutil.pid_exists(row["pid"]) and row["roles"] == ["broker", "controller"]
        assert row["folder"] == str(three / f"node-{number}") and (three / f"node-{number}/meta.properties").exists()
        assert row["log"] == str(three / f"node-{number}/ottla.log") and Path(row["log"]).exists()
    table = run_ottla("node", "list", "--data", str(three), "-O", "table").stdout.splitlines()
    assert table[0].split() == ["NODE", "ROLES", "STATE", "FOR", "PID", "ADDRESS", "MEMORY"]
    assert max(map(len, table)) <= 80


def test_internal_and_new_topics_have_three_replicas_of_which_two_must_be_in_sync(three: Path) -> None:
    names = [
        "offsets.topic.replication.factor", "transaction.state.log.replication.factor",
        "transaction.state.log.min.isr", "default.replication.factor", "min.insync.replicas",
    ]  # fmt: skip
    got = run_ottla("config", "get", "broker", "2", *names, "-O", "json", address=bootstrap(three))
    assert {row["config"]: row["value"] for row in json.loads(got.stdout)} == dict(
        zip(names, ("3", "3", "2", "3", "2"), strict=True)
    )


def test_a_node_is_stopped_and_started_again(three: Path) -> None:
    before = nodes(three)[3]
    stopped = run_ottla("node", "stop", "3", "--data", str(three))
    assert (stopped.returncode, stopped.stderr) == (0, "Stopped node 3.\n")
    assert not psutil.pid_exists(before["pid"])
    assert states(three) == ["up", "up", "stopped"] and nodes(three)[3]["pid"] is None
    again = run_ottla("node", "stop", "3", "--data", str(three))
    assert again.returncode == 1 and "node 3 does not run; `ottla node start 3` starts it" in again.stderr
    started = run_ottla("node", "start", "3", "--data", str(three))
    assert (started.returncode, started.stderr) == (0, f"Node 3 is up at {before['address']}.\n")
    twice = run_ottla("node", "start", "3", "--data", str(three))
    assert twice.returncode == 1 and "node 3 is up already" in twice.stderr


def test_a_node_is_restarted_whether_it_runs_or_not(three: Path) -> None:
    before = nodes(three)[2]
    restarted = run_ottla("node", "restart", "2", "--data", str(three))
    assert restarted.stderr == f"Node 2 is up again at {before['address']}.\n"
    assert nodes(three)[2]["pid"] != before["pid"]
    told(three, "node", "stop", "2")
    assert told(three, "node", "restart", "2")["state"] == "up"


def test_a_node_that_is_killed_stays_down_and_says_why(three: Path) -> None:
    killed = told(three, "node", "kill", "3")
    assert (killed["state"], killed["why"]) == ("ended", "was killed by SIGKILL")
    time.sleep(0.3)
    assert states(three) == ["up", "up", "ended"], "nothing is restarted by itself"
    pid = nodes(three)[2]["pid"]
    os.kill(pid, signal.SIGKILL)  # not by way of the supervisor
    until(lambda: states(three) == ["up", "ended", "ended"])
    listing = (three / "ottla.log").read_text()
    assert "Node 2 was killed by SIGKILL" in listing and "`ottla node start 2` starts it again" in listing
    assert "Most voters of the metadata quorum are down (2, 3)" in listing
    started = run_ottla("node", "start", "2", "--data", str(three))
    assert started.returncode == 0, started.stderr
    assert states(three) == ["up", "up", "ended"]


def test_losing_the_majority_by_a_stop_is_told(three: Path) -> None:
    told(three, "node", "stop", "3")
    stopped = run_ottla("node", "stop", "2", "--data", str(three))
    assert stopped.returncode == 0 and "Most voters of the metadata quorum are down (2, 3)" in stopped.stderr
    assert "until most voters run again" in stopped.stderr


def test_a_cluster_without_its_quorum_is_described_all_the_same(three: Path) -> None:
    address = nodes(three)[1]["address"]
    made = run_ottla("topic", "create", "left", "-p", "6", "-c", "cleanup.policy=compact", address=address)
    assert made.returncode == 0, made.stderr
    told(three, "node", "kill", "3")
    told(three, "node", "kill", "2")

    def nobody_leads() -> bool:  # the one who did notices after a while
        status = run_ottla("cluster", "status", "--timeout", "2", "-O", "json", address=address)
        assert status.returncode == 0, status.stderr
        return json.loads(status.stdout)["controller"] is None and "nobody leads the metadata quorum" in status.stderr

    until(nobody_leads)
    described = run_ottla("topic", "describe", "--under-replicated", "--timeout", "2", address=address)
    assert described.returncode == 0, described.stderr
    rows = [line.split("\t") for line in described.stdout.splitlines()]
    assert [row[1] for row in rows if row[0] == "left"] == ["0", "1", "2", "3", "4", "5"]
    assert {row[2] for row in rows} > {"1"}, "some are led by a dead node: nobody can elect another"
    refused = run_ottla("cluster", "quorum", "--timeout", "2", address=address)
    assert refused.returncode == 1 and "most voters of the metadata quorum must run" in refused.stderr


def test_a_node_that_cannot_start_shows_its_last_error(three: Path) -> None:
    told(three, "node", "stop", "3")
    port = int(nodes(three)[3]["address"].rpartition(":")[2])
    with socket.create_server(("127.0.0.1", port)):
        refused = run_ottla("node", "start", "3", "--data", str(three))
        assert refused.returncode == 1 and "node 3 ended with exit code 1" in refused.stderr
        assert str(port) in refused.stderr and "Traceback" not in refused.stderr
        assert nodes(three)[3]["state"] == "ended" and str(port) in nodes(three)[3]["why"]


def test_only_the_owner_reaches_the_supervisor(three: Path) -> None:
    mode = (three / "ottla.sock").stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) == 0o600


def test_nonsense_at_the_socket_is_answered_and_does_no_harm(three: Path) -> None:
    back = os.getcwd()
    os.chdir(three)  # the path of a socket must be short
    try:
        for line in (b"{\n", b'{"do": "explode"}\n', b"[]\n", b'{"do": "stop", "node": 77}\n', b'{"do": "stop"}\n'):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect("ottla.sock")
                client.sendall(line)
                assert "error" in json.loads(client.recv(4096))
        with socket.socket(socket.AF_UNIX) as client:
            client.connect("ottla.sock")  # and leaves without a word
    finally:
        os.chdir(back)
    assert states(three) == ["up"] * 3


def test_what_is_asked_of_a_node_that_is_not_there_or_of_no_cluster(three: Path, tmp_path: Path) -> None:
    missing = run_ottla("node", "stop", "9", "--data", str(three))
    assert missing.returncode == 1 and "there is no node 9; there are 1, 2, 3" in missing.stderr
    for seconds in ("-1", "nan", "1e30"):
        wrong = run_ottla("node", "stop", "1", "--timeout", seconds, "--data", str(three))
        assert wrong.returncode == 2 and "Invalid value for '--timeout'" in wrong.stderr
    for folder in (tmp_path, tmp_path / "none"):
        none = run_ottla("node", "list", "--data", str(folder))
        assert none.returncode == 1 and f"no cluster runs on {folder}; `ottla up --brokers 3` starts one" in none.stderr


def test_a_second_supervisor_is_refused(three: Path) -> None:
    second = up(three, "--brokers", "3")
    assert second.returncode == 1 and f"a node already runs on {three}" in second.stderr


def test_the_same_folder_continues_the_cluster_and_more_brokers_join_it(data: Path) -> None:
    first = json.loads(up(data, "--brokers", "1", "-O", "json").stdout)
    cluster_id = json.loads(run_ottla("cluster", "status", "-O", "json", address=first["address"]).stdout)["cluster_id"]
    assert run_ottla("topic", "create", "kept", address=first["address"]).returncode == 0
    assert run_ottla("produce", "kept", "one", address=first["address"]).returncode == 0
    stopped = run_ottla("down", "--data", str(data))
    assert stopped.stderr == f"Stopped all nodes on {data} ({first['address']}).\n"

    again = json.loads(up(data, "-O", "json").stdout)  # without --brokers: as many as it has
    assert again["address"] == first["address"] and len(again["nodes"]) == 1
    assert run_ottla("consume", "kept", "-o", "beginning", "-e", address=first["address"]).stdout == "one\n"
    run_ottla("down", "--data", str(data))

    grown = up(data, "--brokers", "2", "-O", "json")
    assert grown.returncode == 0, grown.stderr
    address = json.loads(grown.stdout)["address"]
    assert address.split(",")[0] == first["address"] and len(address.split(",")) == 2
    status = run_ottla("cluster", "status", "--wait", "30", "--brokers", "2", "-O", "json", address=address)
    assert status.returncode == 0, status.stdout
    found = json.loads(status.stdout)
    assert (found["cluster_id"], found["brokers"]["up"], found["voters"]["all"]) == (cluster_id, [1, 2], [1])
    run_ottla("down", "--data", str(data))

    fewer = up(data, "--brokers", "1")
    assert fewer.returncode == 1
    assert "a cluster of 2 brokers, and 1 were asked for" in fewer.stderr
    assert "`ottla reassign plan --remove-broker 2 -f plan.json`" in fewer.stderr
    other = up(data, "--brokers", "2", "--controllers", "3")
    assert other.returncode == 1 and "was settled when it was made" in other.stderr


def test_one_of_which_a_node_does_not_start_runs_in_the_background_all_the_same(data: Path) -> None:
    assert up(data, "--brokers", "2").returncode == 0
    run_ottla("down", "--data", str(data))
    meta = data / "node-2" / "meta.properties"
    meta.write_text(meta.read_text().replace("node.id=2", "node.id=7"))

    started = up(data)
    assert started.returncode == 1 and "not all nodes are up: node 2 ended" in started.stderr
    assert states(data) == ["up", "ended"]
    again = up(data)
    assert again.returncode == 1 and "a node already runs on" in again.stderr
    stopped = run_ottla("down", "--data", str(data))
    assert stopped.returncode == 0 and "Stopped all nodes" in stopped.stderr


def test_controllers_of_their_own(data: Path) -> None:
    started = up(data, "--brokers", "1", "--controllers", "1", "-O", "json")
    assert started.returncode == 0, started.stderr
    assert {number: row["roles"] for number, row in nodes(data).items()} == {1: ["broker"], 101: ["controller"]}
    address = json.loads(started.stdout)["address"]
    asked = run_ottla("cluster", "status", address=nodes(data)[101]["address"])
    assert asked.returncode == 1 and "is a controller, and this command asks brokers" in asked.stderr
    rows = json.loads(run_ottla("cluster", "nodes", "-O", "json", address=address).stdout)
    assert [(row["node"], row["roles"], row["state"]) for row in rows] == [
        (1, ["broker"], "up"), (101, ["controller"], "active"),
    ]  # fmt: skip
    members = json.loads(run_ottla("cluster", "quorum", "-O", "json", address=address).stdout)["members"]
    assert [(row["node"], row["part"]) for row in members] == [(101, "leader"), (1, "observer")]


def test_ports_that_are_taken_are_told_and_others_used(data: Path) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as taken:
        port = taken.getsockname()[1]
        started = run_ottla("up", "--data", str(data), "--port", str(port), "--brokers", "1", "--detach")
        assert started.returncode == 0, started.stderr
        assert f"Port {port} is taken, so node 1 uses {port + 1}." in started.stderr
        assert f"127.0.0.1:{port + 1}" in started.stdout


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--controllers", "3"], "--controllers needs --brokers"),
        (["--brokers", "0"], "0 is not in the range"),
        (["--brokers", "3", "--set", "node.id=7"], "each node of a cluster has its own"),
        (["--brokers", "3", "--set", "num.partitions=none"], "Invalid value none for configuration num.partitions"),
    ],
)
def test_what_cannot_be_is_refused_and_leaves_nothing_behind(data: Path, args: list[str], message: str) -> None:
    refused = up(data, *args)
    assert refused.returncode in (1, 2) and message in refused.stderr
    assert not data.exists() or not any(data.iterdir())


def test_a_folder_of_a_single_node_is_not_made_a_cluster(data: Path) -> None:
    assert up(data).returncode == 0
    run_ottla("down", "--data", str(data))
    refused = up(data, "--brokers", "3")
    assert refused.returncode == 1 and "holds a single node" in refused.stderr
    assert up(data).returncode == 0


def test_ctrl_c_stops_all_nodes_in_order(data: Path) -> None:
    process = subprocess.Popen(
        [*OTTLA, "up", "--data", str(data), "--port", str(free_port()), "--brokers", "3"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if "consumer.close" in line:
            break
    assert "3 brokers, 3 controllers (node 1, 2, 3)" in shown
    assert "internal and new ones have 3 replicas; acks=all waits for 2 in sync" in shown
    assert shown.count(bootstrap(data)) >= 3  # to connect to, and twice in the snippet
    pids = [row["pid"] for row in nodes(data).values()]
    os.killpg(process.pid, signal.SIGINT)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    ended = [line for line in rest.splitlines() if line.endswith("has stopped.")]
    assert ended == [f"Node {number} has stopped." for number in (3, 2, 1)], rest
    assert rest.endswith("All nodes have stopped; the data stay.\n")
    assert not any(psutil.pid_exists(pid) for pid in pids)
    assert all((data / f"node-{number}/.kafka_cleanshutdown").exists() for number in (1, 2, 3))
    assert not (data / "ottla.sock").exists() and not (data / "ottla.pid").exists()


def test_nodes_end_with_a_supervisor_that_is_killed(data: Path) -> None:
    assert up(data, "--brokers", "1").returncode == 0
    pid = nodes(data)[1]["pid"]
    os.kill(int((data / "ottla.pid").read_text().split()[0]), signal.SIGKILL)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    assert (data / "node-1/.kafka_cleanshutdown").exists()
    assert up(data).returncode == 0


def test_a_terminal_shows_a_table_of_at_most_eighty_columns(data: Path) -> None:
    code, shown = at_terminal(
        "127.0.0.1:1", "up", "--brokers", "1", "--data", str(data), "--port", str(free_port()),
        typed=CTRL_C, after="MEMORY", term="xterm",
    )  # fmt: skip
    assert code == 0 and "Traceback" not in shown
    table = shown[shown.index("NODE  ROLES") :].splitlines()
    assert table[1].split()[:3] == ["1", "broker,controller", "up"]
    lines = [line.replace("\x1b[K", "").replace("\x1b[J", "") for line in table]
    assert all(len(line.rpartition("A")[2]) <= 80 for line in lines if line.startswith(("NODE", "1 ")))
    assert "All nodes have stopped; the data stay." in shown


# -- what is decided without a process


@pytest.mark.parametrize(
    ("brokers", "controllers", "voters"),
    [(1, None, [1]), (2, None, [1]), (3, None, [1, 2, 3]), (7, None, [1, 2, 3]), (2, 3, [101, 102, 103])],
)
def test_who_is_a_voter(brokers: int, controllers: int | None, voters: list[int]) -> None:
    layout = new_layout("id", brokers, controllers)
    assert [node.id for node in layout.voters] == voters
    assert [node.id for node in layout.brokers] == list(range(1, brokers + 1))


@pytest.mark.parametrize(("brokers", "expected"), [(1, (1, 1)), (2, (2, 1)), (3, (3, 2)), (9, (3, 2))])
def test_how_many_copies_there_are(brokers: int, expected: tuple[int, int]) -> None:
    assert copies(brokers) == expected


def test_brokers_that_are_added_are_no_voters_and_controllers_stay() -> None:
    layout = new_layout("id", 1, 3).with_brokers(3)
    assert [node.id for node in layout.nodes] == [1, 2, 3, 101, 102, 103]
    assert [node.id for node in new_layout("id", 1, None).with_brokers(3).voters] == [1]
    with pytest.raises(OttlaError, match="a cluster of 3 brokers, and 2 were asked for"):
        layout.with_brokers(2)


def test_a_layout_is_what_was_stored(tmp_path: Path) -> None:
    layout = new_layout("id", 2, 1)
    assert load(tmp_path) is None
    store(tmp_path, layout)
    assert load(tmp_path) == layout
    (tmp_path / "cluster.json").write_text("{}")
    with pytest.raises(OttlaError, match="cannot be read"):
        load(tmp_path)


def test_a_broker_and_a_controller_have_the_listeners_that_they_need(tmp_path: Path) -> None:
    layout: Layout = new_layout("id", 1, 1)
    broker, controller = layout.nodes
    assert settings(layout, broker, tmp_path, "h")["listeners"] == "PLAINTEXT://h:0"
    assert settings(layout, controller, tmp_path, "h")["listeners"] == "CONTROLLER://h:0"
    assert settings(layout, broker, tmp_path, "h")["controller.quorum.voters"] == "101@h:0"
