"""Apache Kafka's tool reads a snapshot that we wrote and control records that change the voters."""

import re
from pathlib import Path
from uuid import UUID

import pytest
from tests.metadata import given

from ottla.metadata import snapshot
from ottla.metadata.controller.requests import NewTopic
from ottla.metadata.snapshot import Surroundings
from ottla.model.ids import uuid_text
from ottla.raft.control_records import control_batch
from ottla.raft.log_view import KRaftVersionRecord, LeaderChangeRecord, VotersRecord
from ottla.raft.snapshot_format import file_name
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
VOTERS = VoterSet.of(
    VoterNode(ReplicaKey(i, UUID(int=1000 + i)), (Endpoint("CONTROLLER", f"host{i}", 9090 + i),), VersionRange(0, 1))
    for i in (1, 2, 3)
)


def dumped(path: Path) -> str:
    dump = apache_kafka.tool(
        "org.apache.kafka.tools.DumpLogSegments", "--cluster-metadata-decoder", "--files", str(path)
    )
    assert dump.returncode == 0, dump.stderr
    assert "isvalid: false" not in dump.stdout
    assert "Could not" not in dump.stdout + dump.stderr
    return dump.stdout


def test_dump_log_segments_reads_our_snapshot(tmp_path: Path) -> None:
    image = given.with_topics(given.cluster(1, 2), NewTopic("orders", 2, 1, configs=(("retention.ms", "60000"),)))
    id, data = snapshot.id_of(image), snapshot.encode(image, 2000, Surroundings(1000, 1, VOTERS))
    path = tmp_path / file_name(id)
    path.write_bytes(data)

    dump = dumped(path)

    assert f"Snapshot end offset: {id.offset}, epoch: {id.epoch}" in dump
    assert 'SnapshotHeader {"version":0,"lastContainedLogTimestamp":1000}' in dump
    assert 'KRaftVersion {"version":0,"kRaftVersion":1}' in dump
    assert f'"voterId":3,"voterDirectoryId":"{uuid_text(UUID(int=1003))}"' in dump
    assert 'SnapshotFooter {"version":0}' in dump
    types = re.findall(r'payload: \{"type":"(\w+)"', dump)
    assert types[0] == "FEATURE_LEVEL_RECORD"
    assert {"REGISTER_BROKER_RECORD", "TOPIC_RECORD", "PARTITION_RECORD", "CONFIG_RECORD"} <= set(types)


def test_dump_log_segments_reads_our_changes_of_voters(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    records = (LeaderChangeRecord(1, (1, 2, 3), (1, 2)), KRaftVersionRecord(1), VotersRecord(VOTERS))
    path.write_bytes(control_batch(records, 5))

    dump = dumped(path)

    assert 'LeaderChange: {"version":0,"leaderId":1' in dump
    assert '"endpoints":[{"name":"CONTROLLER","host":"host2","port":9092}]' in dump
    assert '"kRaftVersionFeature":{"minSupportedVersion":0,"maxSupportedVersion":1}' in dump
