"""`ottla cluster add-controller` and `remove-controller`: the voters of a quorum change while it runs (KIP-853)."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import OTTLA, run_ottla

from ottla.testing.apache_kafka import free_port


class Nodes:
    """A controller that is the only voter, another that is none, and a broker."""

    def __init__(self, folder: Path) -> None:
        self.files = {name: folder / f"{name}.properties" for name in ("first", "second", "broker")}
        self.first, self.second, self.broker = (f"127.0.0.1:{free_port()}" for _ in range(3))
        common = f"controller.listener.names=CONTROLLER\ncontroller.quorum.bootstrap.servers={self.first}\n"
        for number, name in ((101, "first"), (102, "second")):
            self.files[name].write_text(
                f"process.roles=controller\nnode.id={number}\nlisteners=CONTROLLER://{getattr(self, name)}\n"
                f"log.dirs={folder}/{name}\n{common}"
            )
        self.files["broker"].write_text(
            f"process.roles=broker\nnode.id=1\nlisteners=PLAINTEXT://{self.broker}\nlog.dirs={folder}/broker\n{common}"
        )
        cluster_id = run_ottla("storage", "random-uuid").stdout.strip()
        for name, how in (("first", ["--standalone"]), ("second", ["--no-initial-controllers"]), ("broker", [])):
            done = run_ottla("storage", "format", f"--cluster-id={cluster_id}", "-c", str(self.files[name]), *how)
            assert done.returncode == 0, done.stderr
        self.processes = [
            subprocess.Popen([*OTTLA, "broker", "-c", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for file in self.files.values()
        ]

    def stop(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()

    def parts(self, address: str) -> dict[int, str]:
        asked = run_ottla("cluster", "quorum", "-b", address, "-O", "json")
        members: list[dict[str, Any]] = json.loads(asked.stdout)["members"] if asked.returncode == 0 else []
        return {row["node"]: row["part"] for row in members}


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    made = Nodes(tmp_path)
    yield made
    made.stop()


def test_a_controller_becomes_a_voter_and_is_none_any_more(nodes: Nodes) -> None:
    deadline = time.monotonic() + 60
    while nodes.parts(nodes.broker) != {101: "leader", 102: "observer", 1: "observer"}:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    unknown = run_ottla("cluster", "remove-controller", "102", address=nodes.broker)
    assert unknown.returncode == 1 and "node 102 is no voter; voters are 101" in unknown.stderr

    added = run_ottla("cluster", "add-controller", "-c", str(nodes.files["second"]), address=nodes.broker)
    assert (added.returncode, added.stderr) == (0, "Node 102 is a voter of the quorum now.\n")
    assert nodes.parts(nodes.first) == {101: "leader", 102: "voter", 1: "observer"}
    twice = run_ottla("cluster", "add-controller", "-c", str(nodes.files["second"]), address=nodes.broker)
    assert twice.returncode == 1 and "cannot make node 102 a voter" in twice.stderr

    removed = run_ottla("cluster", "remove-controller", "102", address=nodes.second)  # which is not the active one
    assert (removed.returncode, removed.stderr) == (0, "Node 102 is no voter of the quorum any more.\n")
    assert nodes.parts(nodes.broker)[102] != "voter"


def test_a_broker_cannot_be_added(nodes: Nodes) -> None:
    refused = run_ottla("cluster", "add-controller", "-c", str(nodes.files["broker"]), address=nodes.broker)
    assert refused.returncode == 1 and "is not that of a controller" in refused.stderr
