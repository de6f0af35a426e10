"""Apache Kafka's tools against our quorum: kafka-metadata-quorum.sh, kafka-dump-log.sh, kafka-storage.sh."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.broker.test_quorum_of_nodes import everybody_knows, register

from ottla.model.ids import uuid_text
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import tool
from ottla.testing.cluster import Cluster, running_cluster

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"


@pytest.fixture
def grown(tmp_path: Path) -> Iterator[Cluster]:
    """One voter, and two controllers that observe."""
    with running_cluster(tmp_path, 3, initial_voters=(1,), start=False) as cluster:
        cluster.start(1)
        cluster.start(2, 3)
        yield cluster


def ask(cluster: Cluster, *args: str) -> str:
    servers = ",".join(f"127.0.0.1:{cluster.controller_ports[i]}" for i in cluster.nodes)
    done = tool(QUORUM, "--bootstrap-controller", servers, *args)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def directory_of(cluster: Cluster, i: int) -> str:
    return uuid_text(cluster.nodes[i].raft.quorum.replica.me.directory_id)


def controller_properties(cluster: Cluster, i: int) -> Path:
    path = cluster.folder / f"controller-{i}.properties"
    values = cluster.config(i).layers.static
    path.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    return path


def test_the_quorum_is_described(grown: Cluster) -> None:
    status = ask(grown, "describe", "--status")

    assert re.search(rf"ClusterId:\s+{grown.cluster_id}", status)
    assert re.search(r"LeaderId:\s+1\b", status)
    assert f'"id": 1, "directoryId": "{directory_of(grown, 1)}"' in status
    assert f'"id": 3, "directoryId": "{directory_of(grown, 3)}"' in status

    rows = [line.split() for line in ask(grown, "describe", "--replication").splitlines()]
    assert {(row[0], row[-1]) for row in rows[1:]} == {("1", "Leader"), ("2", "Observer"), ("3", "Observer")}


def test_a_controller_is_added_and_removed(grown: Cluster) -> None:
    servers = f"127.0.0.1:{grown.controller_ports[1]}"
    file = controller_properties(grown, 2)
    done = tool(QUORUM, "--command-config", str(file), "--bootstrap-controller", servers, "add-controller")
    assert done.returncode == 0, done.stdout + done.stderr
    grown.until(lambda: grown.nodes[3].raft.quorum.voters.ids == (1, 2))

    ask(grown, "remove-controller", "--controller-id", "1", "--controller-directory-id", directory_of(grown, 1))

    grown.until(lambda: grown.nodes[3].raft.quorum.voters.ids == (2,))
    register(grown, 11)
    everybody_knows(grown, 11)
    assert grown.active_controller() is grown.nodes[2]


def test_the_log_and_the_snapshots_of_a_running_node_are_read(tmp_path: Path) -> None:
    with running_cluster(
        tmp_path, 1, initial_voters=(1,), metadata_log_max_record_bytes_between_snapshots=2000
    ) as cluster:
        for broker in range(100, 140):
            register(cluster, broker)
        cluster.until(lambda: len(cluster.nodes[1].raft.snapshot_ids) > 1)
        time.sleep(0.2)
        cluster.stop(1)
    folder = tmp_path / "1" / "__cluster_metadata-0"
    files = [*folder.glob("*.log"), *folder.glob("*.checkpoint")]
    assert len(files) >= 3

    for path in files:
        dump = tool("org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path))
        told = dump.stdout + dump.stderr
        assert dump.returncode == 0, told
        assert "isvalid: false" not in told and "Could not" not in told and "Error" not in told
        if path.suffix == ".checkpoint":
            assert 'SnapshotFooter {"version":0}' in told
            assert f'"voterDirectoryId":"{directory_of_checkpoint(told)}"' in told
        else:
            assert '"type":"REGISTER_BROKER_RECORD"' in told


def directory_of_checkpoint(dump: str) -> str:
    found = re.search(r'"voterId":1,"voterDirectoryId":"([\w-]+)"', dump)
    assert found is not None, dump
    return found[1]


def test_a_folder_that_kafka_formatted_for_a_quorum_of_its_own_is_taken_over(tmp_path: Path) -> None:
    """--standalone of kafka-storage.sh writes what ours reads: voters, kraft.version, features as they were."""
    with running_cluster(tmp_path, 1, initial_voters=(1,), start=False) as cluster:
        file = controller_properties(cluster, 1)
        features = [f"--feature={name}=0" for name in ("share.version", "streams.version")]
        done = tool(
            "kafka.tools.StorageTool", "format", "-t", cluster.cluster_id, "-c", str(file), "--standalone", *features
        )
        assert done.returncode == 0, done.stdout + done.stderr

        cluster.start(1)

        assert cluster.nodes[1].raft.kraft_version == 1
        register(cluster, 11)
