"""Nodes take snapshots of the metadata, let go of the log before them, and begin with them."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from tests.broker.test_quorum_of_nodes import everybody_knows, register

from ottla.broker.node import Node
from ottla.raft.log_view import OffsetAndEpoch
from ottla.testing.cluster import Cluster, running_cluster

OFTEN: dict[str, Any] = {
    "metadata_log_max_record_bytes_between_snapshots": 2000,
    "internal_metadata_log_segment_bytes": 4096,
    "metadata_max_retention_bytes": 12_000,
    "internal_metadata_delete_delay_millis": 0,
}


def log_folder(cluster: Cluster, i: int) -> Path:
    return cluster.folder / str(i) / "__cluster_metadata-0"


def names(cluster: Cluster, i: int, suffix: str) -> list[str]:
    return sorted(path.name for path in log_folder(cluster, i).iterdir() if path.name.endswith(suffix))


def write_much(cluster: Cluster, first: int = 100, count: int = 60) -> None:
    for broker in range(first, first + count):
        register(cluster, broker)
    everybody_knows(cluster, first + count - 1)


def ids(cluster: Cluster, i: int) -> list[OffsetAndEpoch]:
    return cluster.on_loop(lambda: list(cluster.nodes[i].raft.snapshot_ids))


def size_of(path: Path) -> int:
    """The next cleaning may take it away in the moment of looking."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def test_every_node_takes_them_and_trims_its_log(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, **OFTEN) as cluster:
        write_much(cluster)

        for i in cluster.ids:
            cluster.until(lambda i=i: cluster.nodes[i].raft.log.start_offset > 0)  # type: ignore[misc]
            cluster.until(lambda i=i: not names(cluster, i, ".deleted"))  # type: ignore[misc]
            raft = cluster.nodes[i].raft
            assert cluster.on_loop(lambda raft=raft: raft.log.start_offset == raft.snapshot_ids[0].offset)  # type: ignore[misc]
            segments = names(cluster, i, ".log")
            assert int(segments[0][:20]) > 0
            kept = [log_folder(cluster, i) / name for name in (*segments, *names(cluster, i, ".checkpoint"))]
            assert sum(map(size_of, kept)) < 60_000


def test_a_restart_begins_with_the_latest(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1, **OFTEN) as cluster:
        write_much(cluster)
        cluster.until(lambda: cluster.nodes[1].raft.log.start_offset > 0)
        before = cluster.on_loop(lambda: cluster.nodes[1].image)
        cluster.stop(1)

        cluster.start(1)

        after = cluster.on_loop(lambda: cluster.nodes[1].image)
        assert after.brokers == before.brokers
        assert after.features == before.features
        write_much(cluster, first=200, count=5)


def test_one_far_behind_gets_a_snapshot_and_then_the_rest(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, start=False, **OFTEN) as cluster:
        cluster.start(1, 2)
        write_much(cluster)
        cluster.until(lambda: all(node.raft.log.start_offset > 0 for node in cluster.nodes.values()))

        cluster.start(3)

        everybody_knows(cluster, 100, 159)
        assert ids(cluster, 3)[0].offset > 0
        images = cluster.on_loop(lambda: [node.image for node in cluster.nodes.values()])
        assert images[0].brokers == images[1].brokers == images[2].brokers


def test_one_that_knew_something_else_forgets_it_with_the_snapshot(tmp_path: Path) -> None:
    """What was deleted while it was away is told as deleted, though no record says so."""
    with running_cluster(tmp_path, 3, **OFTEN) as cluster:
        write_much(cluster, count=3)
        cluster.stop(3)
        write_much(cluster, first=200)
        cluster.until(lambda: all(node.raft.log.start_offset > 50 for node in cluster.nodes.values()))
        cluster.start(3)

        everybody_knows(cluster, 259)
        images = cluster.on_loop(lambda: [node.image for node in cluster.nodes.values()])
        assert images[0].brokers == images[2].brokers


def test_after_a_while_one_is_taken_of_little(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1, metadata_log_max_snapshot_interval_ms=50) as cluster:
        register(cluster, 100)
        cluster.until(lambda: ids_now(cluster))


def test_old_ones_go_by_their_age_too(tmp_path: Path) -> None:
    with running_cluster(
        tmp_path, 1, metadata_log_max_record_bytes_between_snapshots=500, metadata_max_retention_ms=100
    ) as cluster:
        write_much(cluster, count=10)
        time.sleep(0.15)  # the age is what it is about
        write_much(cluster, first=200, count=10)
        cluster.until(lambda: cluster.nodes[1].raft.log.start_offset > 10)


def ids_now(cluster: Cluster) -> list[OffsetAndEpoch]:
    return list(cluster.nodes[1].raft.snapshot_ids)


def test_a_log_without_the_snapshot_that_it_begins_with_is_refused(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1, **OFTEN) as cluster:
        write_much(cluster)
        cluster.until(lambda: cluster.nodes[1].raft.log.start_offset > 0)
        cluster.stop(1)
        for name in names(cluster, 1, ".checkpoint"):
            (log_folder(cluster, 1) / name).unlink()
        before = shutil.copytree(log_folder(cluster, 1), tmp_path / "copy")

        with pytest.raises(Exception, match=r"begins at offset \d+, and there is no snapshot"):
            cluster.start(1)

        assert sorted(p.name for p in before.iterdir()) == sorted(p.name for p in log_folder(cluster, 1).iterdir())
        cluster.nodes.clear()


def test_snapshots_and_the_quorum_are_told_as_metrics(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 1, **OFTEN) as cluster:
        write_much(cluster)
        node = cluster.nodes[1]
        cluster.until(lambda: node.quorum.snapshot_taking.latest_bytes)

        text = cluster.on_loop(lambda: b"".join(_scraped(node)).decode())

        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert float(values["kafka_server_snapshotemitter_latestsnapshotgeneratedbytes"]) > 500
        assert float(values["kafka_server_raft_metrics_number_of_voters"]) == 1
        assert float(values["kafka_server_raft_metrics_log_end_offset"]) > 60
        assert float(values["kafka_server_raft_metrics_uncommitted_voter_change"]) == 0
        assert values['ottla_raft_state{state="leader"}'] == "1"
        assert float(values["kafka_controller_kafkacontroller_activecontrollercount"]) == 1


def _scraped(node: Node) -> list[bytes]:
    rows = []
    for family, found in node.env.metrics.gather():
        rows += [f"{family.name}{row[0]} {row[1]:g}\n".encode() for row in found if row is not None]
    return rows
