"""quorum-state, byte for byte."""

from pathlib import Path
from random import Random

import pytest

from ottla.model.errors import OttlaError
from ottla.model.ids import parse_uuid
from ottla.raft import quorum_state
from ottla.raft.quorum_state import ElectionState
from ottla.sim.disk import SimDisk

GOLDEN = Path(__file__).parent.parent / "golden" / "kafka-4.3.0-quorum-state"


def test_the_file_is_the_one_that_kafka_writes() -> None:
    written_by_kafka = GOLDEN.read_bytes()

    state = quorum_state.decode(written_by_kafka)

    assert state == ElectionState(epoch=3, leader_id=1, voted_id=-1, voters=(1,))
    assert quorum_state.encode(state) == written_by_kafka


def test_version_1_of_the_file_is_read_and_written() -> None:
    data = b'{"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"J8aAPcfLQt2bqs1JT_rMgQ","data_version":1}'

    state = quorum_state.decode(data)

    assert state == ElectionState(2, voted_id=1, voted_directory_id=parse_uuid("J8aAPcfLQt2bqs1JT_rMgQ"), version=1)
    assert quorum_state.encode(state) == data


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"data_version":0}', b'{"data_version":7}'])
def test_a_damaged_file_stops_the_node(data: bytes) -> None:
    with pytest.raises(OttlaError, match="quorum-state"):
        quorum_state.decode(data)


def test_a_stored_vote_survives_a_loss_of_power() -> None:
    disk = SimDisk(Random(1))
    disk.make_dirs("/data")
    disk.sync_dir("/")
    quorum_state.store(disk, "/data", ElectionState(1, voted_id=1, voters=(1,)))
    quorum_state.store(disk, "/data", ElectionState(2, voted_id=1, voters=(1,)))

    for seed in range(20):
        after = disk.power_loss(Random(seed))
        found = quorum_state.load(after, "/data")
        assert found == ElectionState(2, voted_id=1, voters=(1,))


def test_a_node_that_never_voted_has_no_file() -> None:
    disk = SimDisk(Random(1))
    disk.make_dirs("/data")

    assert quorum_state.load(disk, "/data") is None
