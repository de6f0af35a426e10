"""`ottla broker --cores`: several nodes of one config."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import OTTLA, run_ottla

from ottla.cli.cores import check_addresses, for_core
from ottla.cli.ports import is_free
from ottla.model.errors import OttlaError
from ottla.testing.apache_kafka import free_port

BASE = {
    "process.roles": "broker,controller",
    "node.id": "10",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://one.example:9092",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "10@one.example:9093",
    "log.dirs": "/a/,/b",
    "ottla.metrics.listener": "127.0.0.1:9404",
}


def test_the_first_node_is_the_files_own_in_a_folder_of_its_own() -> None:
    assert for_core(BASE, 0) == {**BASE, "log.dirs": "/a/core-0,/b/core-0"}


def test_the_others_count_on_and_leave_the_quorum_to_the_first() -> None:
    assert for_core(BASE, 2) == {
        **BASE,
        "process.roles": "broker",
        "node.id": "12",
        "listeners": "PLAINTEXT://:9094",
        "advertised.listeners": "PLAINTEXT://one.example:9094",
        "log.dirs": "/a/core-2,/b/core-2",
        "ottla.metrics.listener": "127.0.0.1:9406",
    }


def test_any_port_stays_any_port() -> None:
    assert for_core({**BASE, "listeners": "PLAINTEXT://[::1]:0"}, 1)["listeners"] == "PLAINTEXT://[::1]:0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"node.id": None}, "needs node.id in the file"),
        ({"node.id": "${env:ID}"}, "cannot count on from node.id"),
        ({"process.roles": "controller"}, "is for brokers"),
        ({"controller.quorum.voters": None}, "needs controller.quorum.voters"),
    ],
)
def test_what_cannot_be_counted_on_from_is_refused(change: dict[str, str | None], message: str) -> None:
    values = {name: value for name, value in {**BASE, **change}.items() if value is not None}
    with pytest.raises(OttlaError, match=message):
        for_core(values, 1)


@pytest.mark.parametrize(
    ("change", "address"),
    [({}, ":9093"), ({"listeners": "PLAINTEXT://:9092", "ottla.metrics.listener": ":9095"}, ":9095")],
)
def test_ports_that_would_meet_are_refused(change: dict[str, str], address: str) -> None:
    check_addresses({**BASE, "listeners": "PLAINTEXT://:9092,CONTROLLER://:9193"}, 4)
    check_addresses({**BASE, "listeners": "PLAINTEXT://:0,CONTROLLER://:9193"}, 4)
    with pytest.raises(OttlaError, match=f"two nodes would listen at {address}: .* leave 4 between"):
        check_addresses({**BASE, **change}, 4)


def test_folders_of_several_nodes_are_not_those_of_one(tmp_path: Path) -> None:
    file = write_file(tmp_path, free_port())
    form = ["storage", "format", f"--cluster-id={run_ottla('storage', 'random-uuid').stdout.strip()}", "-c", str(file)]
    several = ["--cores", "2"]
    for first, other, where in ((several, [], "data"), ([], several, "data/core-0")):
        assert run_ottla(*form, *first).returncode == 0
        before = sorted(tmp_path.rglob("*"))
        for command in ([*form, *other], ["broker", "--config", str(file), *other]):
            refused = run_ottla(*command)
            assert refused.returncode == 1 and f"{tmp_path}/{where} is for a node, and so is " in refused.stderr
        assert sorted(tmp_path.rglob("*")) == before
        shutil.rmtree(tmp_path / "data")


def write_file(folder: Path, port: int) -> Path:
    controller = free_port()
    file = folder / "server.properties"
    file.write_text(
        "process.roles=broker,controller\nnode.id=10\n"
        f"listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n"
        f"controller.listener.names=CONTROLLER\ncontroller.quorum.voters=10@127.0.0.1:{controller}\n"
        f"log.dirs={folder}/data\noffsets.topic.replication.factor=1\n"
    )
    return file


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*OTTLA, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


def shown_until(process: subprocess.Popen[str], end: str) -> str:
    assert process.stdout is not None
    shown = ""
    for line in process.stdout:
        shown += line
        if end in line:
            break
    return shown


def test_nodes_of_one_file_are_one_cluster_and_stop_together(tmp_path: Path) -> None:
    port = free_port()
    file = write_file(tmp_path, port)
    command = ["broker", "--config", str(file), "--cores", "2"]
    unformatted = run_ottla(*command)
    assert unformatted.returncode == 1 and f"-c {file} --cores 2" in unformatted.stderr
    cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
    formatted = run_ottla("storage", "format", f"--cluster-id={cluster_id}", "-c", str(file), "--cores", "2")
    assert formatted.returncode == 0 and f"{tmp_path}/data/core-1 for node 11" in formatted.stderr

    process = start(command)
    shown = shown_until(process, "2 nodes are up.")
    assert "Node 10 is up at 127.0.0.1:" in shown and "Node 11 is up at 127.0.0.1:" in shown, shown
    assert " node 10 ottla.broker: serving clients" in shown and " node 11 ottla.broker: serving clients" in shown
    told = run_ottla("cluster", "nodes", "-O", "json", address=f"127.0.0.1:{port}")
    assert [(row["node"], row["roles"], row["state"]) for row in json.loads(told.stdout)] == [
        (10, ["broker", "controller"], "active"), (11, ["broker"], "up"),
    ]  # fmt: skip
    os.killpg(process.pid, signal.SIGTERM)
    rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0, rest
    assert [line for line in rest.splitlines() if line.endswith("has stopped.")] == [
        "Node 11 has stopped.", "Node 10 has stopped.",
    ]  # fmt: skip


def free_ports_side_by_side() -> tuple[int, int]:
    while True:
        port = free_port()
        if is_free("127.0.0.1", port) and is_free("127.0.0.1", port + 1):
            return port, port + 1


def test_a_node_that_finds_its_port_taken_is_named_and_the_others_run(tmp_path: Path) -> None:
    port, number = free_ports_side_by_side()
    with socket.create_server(("127.0.0.1", number)):
        file = write_file(tmp_path, port)
        cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
        run_ottla("storage", "format", f"--cluster-id={cluster_id}", "-c", str(file), "--cores", "2")
        process = start(["broker", "--config", str(file), "--cores", "2"])
        shown = shown_until(process, "nodes are up")
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=60)
    assert f"Node 11: cannot listen on PLAINTEXT://127.0.0.1:{number}: " in shown, shown
    assert "stop it, or change `listeners`" in shown
    assert "1 of 2 nodes are up, all but 11." in shown
    assert process.returncode == 1
