"""Nodes that were set up wrongly say what is wrong, and leave everything as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_quorum_of_nodes import everybody_knows, register

from ottla.broker.lifecycle import StartGivenUp
from ottla.model.errors import OttlaError
from ottla.model.ids import uuid_text
from ottla.testing.cluster import Cluster, running_cluster

FAST: dict[str, Any] = {"controller_quorum_fetch_timeout_ms": "600"}


def contents(folder: Path) -> dict[str, bytes]:
    """All but what follows from the rest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name != ".lock" and path.suffix not in (".index", ".timeindex")
    }


def refused(cluster: Cluster, i: int, saying: str, *, got_going: bool = True) -> None:
    """Node i does not start, says why, and is let go. One that did not get going has left its folder as it was, and one
    that did every record in it."""
    folder = cluster.folder / str(i)
    before = contents(folder)

    with pytest.raises(OttlaError, match=saying):
        cluster.start(i)

    node = cluster.nodes.pop(i)
    if got_going:
        cluster.run(node.stop())
        after = contents(folder)
        for name, data in before.items():
            if name.endswith(("meta.properties", ".log", ".checkpoint")):
                assert after[name] == data, name
    else:
        assert contents(folder) == before


def test_folders_of_another_cluster(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False) as cluster:
        cluster.start(1, 2)
        register(cluster, 11)
        right, cluster.cluster_id = cluster.cluster_id, "4L6g3nShT-eMCtK--X86sw"

        refused(cluster, 3, r"folders belong to cluster 4L6g3nShT-eMCtK--X86sw, but 127.0.0.1:\d+")

        cluster.cluster_id = right
        register(cluster, 12)
        everybody_knows(cluster, 11, 12)


def test_a_folder_that_another_cluster_has_filled(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "old", 3, **FAST) as old:
        register(old, 21)
        everybody_knows(old, 21)
        led = old.active_controller().config.node_id
    log = Path(str(led), "__cluster_metadata-0", f"{0:020d}.log")
    assert (tmp_path / "old" / log).stat().st_size > 0

    with running_cluster(tmp_path / "new", 3, start=False, **FAST) as cluster:
        shutil.copytree(tmp_path / "old" / str(led), tmp_path / "new" / str(led))
        cluster.start(*(i for i in cluster.ids if i != led))
        register(cluster, 11)

        refused(cluster, led, "folders belong to cluster")

        assert (tmp_path / "new" / log).read_bytes() == (tmp_path / "old" / log).read_bytes()
        register(cluster, 12)
        everybody_knows(cluster, 11, 12)


def test_one_of_another_cluster_keeps_nobody_else_from_starting(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False, **FAST) as cluster:
        right, cluster.cluster_id = cluster.cluster_id, "4L6g3nShT-eMCtK--X86sw"
        cluster._format(cluster.config(3))
        cluster.cluster_id = right

        with pytest.raises(OttlaError, match="belong to cluster"):
            cluster.start(1, 2, 3)

        cluster.run(cluster.nodes.pop(3).stop())
        register(cluster, 11)
        everybody_knows(cluster, 11)


@pytest.mark.parametrize("taken", ["the leader's", "a follower's"])
def test_an_id_that_another_node_has(tmp_path: Path, taken: str) -> None:
    with running_cluster(tmp_path, 3, **FAST) as cluster:
        register(cluster, 11)
        leader = cluster.active_controller().config.node_id
        wanted = leader if taken == "the leader's" else next(i for i in cluster.ids if i != leader)
        with running_cluster(tmp_path / "impostor", 3, start=False, **FAST) as others:
            others.cluster_id = cluster.cluster_id
            others.controller_ports = {**cluster.controller_ports, wanted: others.controller_ports[wanted]}

            refused(others, wanted, rf"another node with node.id {wanted} takes part")
        register(cluster, 12)
        everybody_knows(cluster, 11, 12)


def test_a_broker_whose_id_is_taken_can_be_stopped_while_it_tries_to_register(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 4, {4: "broker"}) as cluster:
        everybody_knows(cluster, 4)
        with running_cluster(tmp_path / "impostor", 4, {4: "broker"}, start=False) as others:
            others.cluster_id, others.controller_ports = cluster.cluster_id, cluster.controller_ports
            others.loop.call_soon_threadsafe(others.loop.call_later, 3.0, lambda: others.nodes[4].give_up_start())

            with pytest.raises(StartGivenUp):
                others.start(4)

            others.run(others.nodes.pop(4).stop())
        everybody_knows(cluster, 4)


def test_voters_that_are_not_those_of_before(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3) as cluster:
        register(cluster, 11)
        cluster.stop(3)
        cluster.roles[1] = "broker"

        saying = "belongs to a quorum of the voters 1, 2, 3, but the config says 2, 3"
        refused(cluster, 3, saying, got_going=False)


def test_a_folder_of_another_node(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False) as cluster:
        cluster.start(1, 2)
        cluster.stop(2)
        shutil.move(tmp_path / "2", tmp_path / "3")

        refused(cluster, 3, "belongs to node 2, this is node 3", got_going=False)


def test_a_damaged_vote_is_not_forgotten(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False) as cluster:
        cluster.start(1, 2)
        cluster.stop(2)
        state = tmp_path / "2" / "__cluster_metadata-0" / "quorum-state"
        state.write_bytes(b'{"leaderId":')

        refused(cluster, 2, "quorum-state is damaged", got_going=False)


def test_a_replaced_disk_joins_again(tmp_path: Path) -> None:
    """The same id from another directory, after the first is gone: no impostor, but a node with a new disk."""
    with running_cluster(tmp_path, 3, **FAST) as cluster:
        register(cluster, 11)
        follower = next(i for i in cluster.ids if cluster.nodes[i] is not cluster.active_controller())
        cluster.stop(follower)
        shutil.rmtree(tmp_path / str(follower))

        cluster.start(follower)

        everybody_knows(cluster, 11)
        assert uuid_text(cluster.nodes[follower].raft.quorum.replica.me.directory_id)
