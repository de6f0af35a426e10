"""controller.quorum.voters and controller.quorum.bootstrap.servers."""

from pathlib import Path
from uuid import UUID

import pytest

from ottla.env.disk import PosixDisk
from ottla.model.config import broker_config, standalone
from ottla.model.errors import OttlaError
from ottla.raft.messages import Destination
from ottla.raft.quorum_config import bootstrap_servers, company, quorum_settings, static_voters
from ottla.raft.settings import QuorumSettings
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.voters import Endpoint, VoterSet

VOTERS = ("1@one:9093", "2@two:9094", "3@[::1]:9095")


def test_voters_are_known_by_id_and_address() -> None:
    voters = static_voters(VOTERS, "CONTROLLER")

    assert voters.ids == (1, 2, 3)
    assert voters.endpoints(2) == (Endpoint("CONTROLLER", "two", 9094),)
    assert voters.endpoints(3)[0].port == 9095


def test_a_node_that_is_named_twice_is_refused() -> None:
    with pytest.raises(OttlaError, match="twice"):
        static_voters(("1@one:9093", "1@two:9093"), "CONTROLLER")


@pytest.mark.parametrize("voter", ["1@one", "one:9093", "x@one:9093", "1@:9093"])
def test_what_is_no_voter_is_refused(voter: str) -> None:
    with pytest.raises((OttlaError, ValueError), match="host:port"):
        static_voters((voter,), "CONTROLLER")


def test_without_bootstrap_servers_the_other_voters_are_asked() -> None:
    voters = static_voters(VOTERS[:2], "CONTROLLER")

    assert bootstrap_servers((), voters, 1, "CONTROLLER") == [Destination(2, "two", 9094)]
    assert bootstrap_servers(("a:1", "b:2"), VoterSet(), 1, "CONTROLLER") == [
        Destination(-2, "a", 1),
        Destination(-3, "b", 2),
    ]


def test_every_setting_of_the_quorum_comes_from_its_config() -> None:
    given = {
        "controller.quorum.election.timeout.ms": "11",
        "controller.quorum.fetch.timeout.ms": "12",
        "controller.quorum.election.backoff.max.ms": "13",
        "controller.quorum.request.timeout.ms": "14",
        "controller.quorum.retry.backoff.ms": "15",
        "controller.quorum.fetch.max.bytes": "1600",
        "controller.quorum.fetch.snapshot.max.bytes": "1700",
        "controller.quorum.auto.join.enable": "true",
    }

    settings = quorum_settings(broker_config(standalone("/data", 0) | given))

    assert settings == QuorumSettings(11, 12, 13, 14, 15, 1600, 1700, auto_join=True, fetch_max_wait_ms=6)
    assert quorum_settings(broker_config(standalone("/data", 0))) == QuorumSettings()


def test_who_names_servers_and_no_voters_learns_of_them(tmp_path: Path) -> None:
    config = broker_config(
        {
            "process.roles": "controller",
            "node.id": "1",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": "one:9093,two:9094",
        }
    )

    found = company(config, "cluster", UUID(int=5), (), SnapshotStore(PosixDisk(), str(tmp_path)), None)

    assert len(found.static_voters) == 0
    assert list(found.bootstrap) == [Destination(-2, "one", 9093), Destination(-3, "two", 9094)]
    assert found.can_become_voter
