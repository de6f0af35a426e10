"""How long a quorum is without a leader, and whom its replicas vote for."""

from functools import partial
from statistics import median
from uuid import UUID

import pytest

from ottla.model.errors import ErrorCode
from ottla.raft.effects import Persist, Reply
from ottla.raft.log_view import ControlHistory, EpochStart, LogView, OffsetAndEpoch
from ottla.raft.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Leader,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.quorum import Quorum
from ottla.raft.quorum_state import ElectionState
from ottla.raft.roles import Role
from ottla.raft.voters import Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.sim.raft.world import World

CLUSTER = "cluster"
DIRECTORY = UUID(int=77)
LOG_END = OffsetAndEpoch(10, 3)
ENDPOINTS = {i: Endpoint("CONTROLLER", f"n{i}", 9093) for i in (1, 2, 3)}


def a_voter(stored: ElectionState | None = None, end: OffsetAndEpoch = LOG_END, me: int = 1) -> Quorum:
    """Node 1 of three, with a log that ends like this; or another one, who is no voter by that log."""
    controls = ControlHistory(VoterSet.static((1, 2, 3), ENDPOINTS))
    log = LogView(controls, end_offset=end.offset, durable_offset=end.offset, epochs=[EpochStart(end.epoch, 0)])
    node = VoterNode(ReplicaKey(me, DIRECTORY), (Endpoint("CONTROLLER", f"n{me}", 9093),), VersionRange(0, 1))
    quorum = Quorum(node, CLUSTER, log, stored, below=lambda n: 0)
    quorum.start(0)
    return quorum


def asked(quorum: Quorum, request: Request, now: int = 1, size: int | None = None) -> Response:
    replies = [effect for effect in quorum.request(now, "token", request, size) if isinstance(effect, Reply)]
    assert len(replies) == 1
    return replies[0].response


def vote(
    epoch: int = 4,
    last: OffsetAndEpoch = LOG_END,
    *,
    pre: bool = False,
    of: int = 2,
    cluster: str | None = CLUSTER,
    voter: ReplicaKey | None = None,
) -> VoteRequest:
    return VoteRequest(cluster, epoch, ReplicaKey(of), last, pre, voter)


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_survivors_that_see_a_death_together_do_not_split_the_vote_for_long(voters: int, dynamic: bool) -> None:
    without_a_leader = []
    for seed in range(60):
        world = World(seed, voters, dynamic=dynamic)
        world.start_all()
        assert world.run_for(5000, partial(leads, world))
        leader = world.leader
        assert leader is not None
        world.run_for(300)
        leader.kill()
        died_at = world.now
        for member in world.members.values():
            if member.is_up:
                member.do(member.quorum.leader_died(world.now, leader.id))
        assert world.run_for(3000, partial(leads, world)), f"seed {seed}"
        without_a_leader.append(world.now - died_at)

    assert median(without_a_leader) < 250
    assert max(without_a_leader) < 800, without_a_leader


def leads(world: World) -> bool:
    """Somebody does, and has committed something in his epoch."""
    return world.leader is not None and world.leader.quorum.high_watermark > 0


def test_a_new_cluster_has_a_leader_soon() -> None:
    times = []
    for seed in range(60):
        world = World(seed, 3)
        world.start_all()
        assert world.run_for(5000, partial(leads, world))
        times.append(world.now)

    assert median(times) < 300


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        pytest.param(vote(cluster="other"), ErrorCode.inconsistent_cluster_id, id="another cluster"),
        pytest.param(vote(2), ErrorCode.invalid_request, id="the log is newer than the candidate's epoch"),
        pytest.param(vote(3), ErrorCode.invalid_request, id="the log is of the candidate's epoch"),
        pytest.param(vote(last=OffsetAndEpoch(-1, 1)), ErrorCode.invalid_request, id="no such offset"),
        pytest.param(vote(2, OffsetAndEpoch(1, 1)), ErrorCode.fenced_leader_epoch, id="an old epoch"),
        pytest.param(vote(of=-1), ErrorCode.invalid_request, id="nobody"),
        pytest.param(vote(voter=ReplicaKey(2)), ErrorCode.invalid_voter_key, id="meant for another node"),
        pytest.param(vote(voter=ReplicaKey(1, UUID(int=5))), ErrorCode.invalid_voter_key, id="for another disk"),
        pytest.param(vote(voter=ReplicaKey(1, DIRECTORY)), ErrorCode.none, id="for this disk"),
        pytest.param(vote(cluster=None), ErrorCode.none, id="no cluster named"),
    ],
)
def test_votes_that_are_refused(request_: VoteRequest, error: ErrorCode) -> None:
    response = asked(a_voter(ElectionState(3)), request_)

    assert isinstance(response, VoteResponse)
    assert ErrorCode.none not in {response.error, response.partition_error} - {ErrorCode.none, error}
    assert error in (response.error, response.partition_error)
    assert response.granted is (error is ErrorCode.none)


@pytest.mark.parametrize(
    ("last", "granted"),
    [
        pytest.param(OffsetAndEpoch(10, 3), True, id="as long"),
        pytest.param(OffsetAndEpoch(11, 3), True, id="longer"),
        pytest.param(OffsetAndEpoch(9, 3), False, id="shorter"),
        pytest.param(OffsetAndEpoch(50, 2), False, id="longer, but of an older epoch"),
        pytest.param(OffsetAndEpoch(5, 4), True, id="shorter, but of a newer epoch"),
    ],
)
@pytest.mark.parametrize("pre", [True, False], ids=["pre-vote", "vote"])
def test_a_vote_goes_to_a_log_that_is_as_good_as_ours(last: OffsetAndEpoch, granted: bool, pre: bool) -> None:
    response = asked(a_voter(ElectionState(3)), vote(5, last, pre=pre))

    assert isinstance(response, VoteResponse)
    assert response.granted is granted


def test_a_vote_is_persisted_before_it_is_told_and_given_once() -> None:
    quorum = a_voter(ElectionState(3))

    effects = quorum.request(1, "first", vote(of=2))
    second = asked(quorum, vote(of=3))
    again = asked(quorum, vote(of=2))

    kinds = [type(effect) for effect in effects]
    assert kinds.index(Persist) < kinds.index(Reply)
    assert isinstance(second, VoteResponse)
    assert isinstance(again, VoteResponse)
    assert (second.granted, again.granted) == (False, True)


def test_a_pre_vote_binds_nobody() -> None:
    quorum = a_voter(ElectionState(3, voters=(1, 2, 3)))

    effects = quorum.request(1, "token", vote(3, pre=True, of=2))

    assert not [effect for effect in effects if isinstance(effect, Persist)]
    assert quorum.epoch == 3


def following(leader_id: int = 2, epoch: int = 4, me: int = 1) -> Quorum:
    quorum = a_voter(ElectionState(3), me=me)
    quorum.request(1, "begin", BeginQuorumEpochRequest(CLUSTER, Leader(leader_id, epoch, (ENDPOINTS[leader_id],))))
    assert quorum.role is Role.FOLLOWER
    return quorum


def test_who_fetched_from_a_leader_refuses_pre_votes_against_him() -> None:
    quorum = following()
    before = asked(quorum, vote(4, pre=True, of=3))
    destination = quorum.replica.destination(2, (ENDPOINTS[2],))
    assert destination is not None

    quorum.response(2, destination, 1, FetchResponse(Leader(2, 4), high_watermark=5))
    quorum.response(2, destination, 2, FetchResponse(Leader(2, 4), high_watermark=5))
    after = asked(quorum, vote(4, pre=True, of=3))

    assert isinstance(before, VoteResponse)
    assert isinstance(after, VoteResponse)
    assert (before.granted, after.granted) == (True, False)


def test_who_does_not_know_that_he_is_a_voter_refuses_them_only_as_long_as_the_leader_answers() -> None:
    """Else a leader could be the last that ever was: one that was lost while it added a voter, of whose votes the next
    one needs that of the new voter, who has not heard of it."""
    quorum = following(me=4)
    destination = quorum.replica.destination(2, (ENDPOINTS[2],))
    assert destination is not None
    quorum.response(2, destination, 1, FetchResponse(Leader(2, 4), high_watermark=5))
    timeout = quorum.replica.settings.fetch_timeout_ms

    early = asked(quorum, vote(4, pre=True, of=3), now=timeout)
    late = asked(quorum, vote(4, pre=True, of=3), now=timeout + 3)

    assert quorum.role is Role.FOLLOWER
    assert isinstance(early, VoteResponse)
    assert isinstance(late, VoteResponse)
    assert (early.granted, late.granted) == (False, True)


@pytest.mark.parametrize(
    ("leader", "error"),
    [
        pytest.param(Leader(2, 3), ErrorCode.fenced_leader_epoch, id="an old epoch"),
        pytest.param(Leader(-1, 4), ErrorCode.invalid_request, id="nobody"),
        pytest.param(Leader(3, 4), ErrorCode.invalid_request, id="another leader in the same epoch"),
        pytest.param(Leader(1, 4), ErrorCode.invalid_request, id="we ourselves"),
        pytest.param(Leader(2, 4), ErrorCode.none, id="the one we follow"),
        pytest.param(Leader(3, 5), ErrorCode.none, id="the next"),
    ],
)
def test_who_says_that_he_leads(leader: Leader, error: ErrorCode) -> None:
    response = asked(following(), BeginQuorumEpochRequest(CLUSTER, leader))

    assert isinstance(response, BeginQuorumEpochResponse)
    assert response.partition_error is error


@pytest.mark.parametrize(
    ("successors", "delay"),
    [((1, 3), 0), ((3, 1), 500), ((3, 2, 4, 1), 500), ((3,), 1000), ((), 0)],
)
def test_the_first_in_line_stands_at_once_the_others_wait(successors: tuple[int, ...], delay: int) -> None:
    quorum = following()
    keys = tuple(ReplicaKey(id) for id in successors)

    quorum.request(100, "end", EndQuorumEpochRequest(CLUSTER, Leader(2, 4), keys))

    if delay == 0:
        assert quorum.role is Role.PROSPECTIVE
    else:
        assert quorum.role is Role.FOLLOWER
        quorum.tick(100 + delay)
        assert quorum.role is Role.PROSPECTIVE  # type: ignore[comparison-overlap]  # a tick changes it


@pytest.mark.parametrize(
    ("epoch", "offset", "last_fetched", "error"),
    [
        pytest.param(3, 5, 3, ErrorCode.fenced_leader_epoch, id="an old epoch"),
        pytest.param(5, 5, 3, ErrorCode.unknown_leader_epoch, id="a later epoch"),
        pytest.param(4, 5, 3, ErrorCode.not_leader_or_follower, id="not the leader"),
        pytest.param(4, -1, 3, ErrorCode.invalid_request, id="no such offset"),
        pytest.param(4, 5, 5, ErrorCode.invalid_request, id="an epoch after the leader's"),
    ],
)
def test_fetches_that_are_refused(epoch: int, offset: int, last_fetched: int, error: ErrorCode) -> None:
    response = asked(following(), FetchRequest(CLUSTER, ReplicaKey(3), epoch, offset, last_fetched))

    assert isinstance(response, FetchResponse)
    assert (response.partition_error, response.leader.id) == (error, 2)


def leading() -> Quorum:
    """Node 1 in epoch 4; its LeaderChange record has offset 10."""
    quorum = a_voter(ElectionState(3))
    quorum.tick(2000)
    sent = {voter: quorum.replica.destination(voter, (ENDPOINTS[voter],)) for voter in (2, 3)}
    for correlation in range(1, 30):
        for voter, destination in sent.items():
            assert destination is not None
            epoch = quorum.epoch
            quorum.response(2001, destination, correlation, VoteResponse(Leader(-1, epoch), granted=True))
            if quorum.is_leader:
                assert voter
                return quorum
    raise AssertionError("not elected")


@pytest.mark.parametrize(
    ("offset", "last_fetched", "diverging", "reads"),
    [
        pytest.param(0, 0, None, 0, id="from the beginning"),
        pytest.param(10, 3, None, 10, id="level but for the new epoch"),
        pytest.param(12, 3, OffsetAndEpoch(10, 3), None, id="too long"),
        pytest.param(9, 2, OffsetAndEpoch(0, 2), None, id="an epoch that the leader never had"),
        pytest.param(11, 4, None, None, id="level"),
    ],
)
def test_a_leader_finds_where_logs_part(
    offset: int, last_fetched: int, diverging: OffsetAndEpoch | None, reads: int | None
) -> None:
    quorum = leading()

    response = asked(
        quorum, FetchRequest(CLUSTER, ReplicaKey(2), quorum.epoch, offset, last_fetched, max_wait_ms=0), now=2010
    )

    assert isinstance(response, FetchResponse)
    assert (response.partition_error, response.diverging, response.read_from) == (ErrorCode.none, diverging, reads)


@pytest.mark.parametrize(
    ("snapshot", "position", "size", "error"),
    [
        pytest.param(OffsetAndEpoch(5, 1), 0, None, ErrorCode.snapshot_not_found, id="no such snapshot"),
        pytest.param(OffsetAndEpoch(0, 0), 0, 100, ErrorCode.snapshot_not_found, id="the bootstrap one"),
        pytest.param(OffsetAndEpoch(5, 1), 100, 100, ErrorCode.position_out_of_range, id="behind its end"),
        pytest.param(OffsetAndEpoch(5, 1), -1, 100, ErrorCode.position_out_of_range, id="before its beginning"),
        pytest.param(OffsetAndEpoch(5, 1), 64, 100, ErrorCode.none, id="in the middle"),
    ],
)
def test_chunks_of_snapshots(snapshot: OffsetAndEpoch, position: int, size: int | None, error: ErrorCode) -> None:
    quorum = leading()
    request = FetchSnapshotRequest(CLUSTER, ReplicaKey(2), quorum.epoch, snapshot, position, 64)

    response = asked(quorum, request, now=2010, size=size)

    assert isinstance(response, FetchSnapshotResponse)
    assert response.partition_error is error


def test_a_leader_whom_nobody_fetches_from_resigns() -> None:
    quorum = leading()

    quorum.tick(2001 + 2999)
    assert quorum.is_leader
    quorum.tick(2001 + 3000)

    assert quorum.role is Role.RESIGNED
