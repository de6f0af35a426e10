"""controller.quorum.voters and controller.quorum.bootstrap.servers."""

import pytest

from ottla.model.errors import OttlaError
from ottla.raft.messages import Destination
from ottla.raft.quorum_config import bootstrap_servers, static_voters
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
