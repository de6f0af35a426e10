"""A replica of the metadata quorum without I/O and without a clock: events and the time in, effects out.

    event                                   what it is
    start                                   what is on disk is known; from now on it takes part
    request, response                       a message of another replica; None for a request that failed
    tick                                    it is `deadline`, or later
    appended                                as leader: the driver put records at the end of the log
    flushed                                 the log is durable up to here
    snapshot_created, trimmed               of the driver's own doing
    snapshot_installed, snapshot_failed     how an InstallSnapshot ended
    leader_died                             the driver knows that its process is gone
    shut_down, resign, fail                 on the way out

effects.py has what may come back, replica.py the roles and the rules. elections.py, replication.py and membership.py
have what each message does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.model.errors import ErrorCode
from ottla.raft import elections, membership, replication
from ottla.raft.connections import FAR
from ottla.raft.effects import Effect, LeaderChanged, Persist, Reply, Send
from ottla.raft.leadership import Leadership
from ottla.raft.log_view import LogView, OffsetAndEpoch
from ottla.raft.messages import (
    AddVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    ChangeVotersResponse,
    Destination,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchRequest,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    KRaftVersionsRequest,
    KRaftVersionsResponse,
    Leader,
    RemoveVoterRequest,
    Request,
    Response,
    UpdateVoterRequest,
    UpdateVoterResponse,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.quorum_state import ElectionState
from ottla.raft.replica import Replica
from ottla.raft.roles import Candidate, Follower, Prospective, Resigned, Role, Unattached
from ottla.raft.settings import QuorumSettings
from ottla.raft.voters import VoterNode, VoterSet

_DEFAULT_SETTINGS = QuorumSettings()
_MOST_DELAY_AFTER_DEATH_MS = 150


class Quorum:
    def __init__(
        self,
        me: VoterNode,
        cluster_id: str,
        log: LogView,
        stored: ElectionState | None,
        *,
        below: Callable[[int], int],
        settings: QuorumSettings = _DEFAULT_SETTINGS,
        bootstrap: Sequence[Destination] = (),
        listener: str = "CONTROLLER",
        can_become_voter: bool = True,
    ) -> None:
        """`below(n)` gives a random number from 0 to n-1."""
        self.replica = Replica(
            me,
            cluster_id,
            log,
            stored,
            settings=settings,
            bootstrap=bootstrap,
            listener=listener,
            can_become_voter=can_become_voter,
            below=below,
        )
        self.deadline = FAR
        """When `tick` should be called, unless something else happens before."""

    # -- what holds now

    @property
    def epoch(self) -> int:
        return self.replica.epoch

    @property
    def role(self) -> Role:
        return self.replica.role

    @property
    def is_leader(self) -> bool:
        return isinstance(self.replica.state, Leadership)

    @property
    def leader_id(self) -> int:
        return self.replica.leader_id

    @property
    def high_watermark(self) -> int:
        return self.replica.high_watermark

    @property
    def voters(self) -> VoterSet:
        return self.replica.voters

    @property
    def log_generation(self) -> int:
        return self.replica.log.generation

    @property
    def may_stop(self) -> bool:
        """After `shut_down`: nobody needs this replica to find the next leader."""
        replica = self.replica
        return not replica.is_voter or replica.is_only_voter or replica.has_remote_leader

    # -- events

    def start(self, now: int) -> list[Effect]:
        """A sole voter leads at once: nobody else can, so there is no timeout to wait for."""
        replica = self.replica
        replica.initialise(now)
        if replica.is_only_voter and replica.role in (Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED):
            replica.become_prospective(now)
        else:
            replica.count_votes(now)
        return self._settle(now)

    def tick(self, now: int) -> list[Effect]:
        return self._settle(now)

    def request(self, now: int, token: object, request: Request, snapshot_size: int | None = None) -> list[Effect]:
        """The Reply with this token may come with a later event. `snapshot_size` is of the one asked for."""
        replica = self.replica
        if replica.has_failed:
            return [Reply(token, refusal(request, ErrorCode.broker_not_available, replica.leader))]
        match request:
            case VoteRequest():
                self._reply(token, elections.on_vote(replica, now, request))
            case BeginQuorumEpochRequest():
                self._reply(token, elections.on_begin_epoch(replica, now, request))
            case EndQuorumEpochRequest():
                self._reply(token, elections.on_end_epoch(replica, now, request))
            case FetchRequest():
                replication.on_fetch(replica, now, token, request)
            case FetchSnapshotRequest():
                replication.on_fetch_snapshot(replica, now, token, request, snapshot_size)
            case AddVoterRequest():
                membership.on_add_voter(replica, now, token, request)
            case RemoveVoterRequest():
                membership.on_remove_voter(replica, now, token, request)
            case UpdateVoterRequest():
                membership.on_update_voter(replica, now, token, request)
            case KRaftVersionsRequest():
                self._reply(token, KRaftVersionsResponse(replica.node.kraft_versions))
        return self._settle(now)

    def response(self, now: int, source: Destination, correlation_id: int, response: Response | None) -> list[Effect]:
        replica = self.replica
        if replica.has_failed or not replica.connections.expects(source.id, correlation_id):
            return []
        if response is None and isinstance(replica.state, Candidate):
            replica.state.tally.cannot_reach(source.id)
            replica.count_votes(now)
        is_fine = response is not None and self._take(now, source.id, response)
        replica.connections.answered(source.id, correlation_id, is_fine, now)
        if isinstance(response, FetchResponse) and response.partition_error is ErrorCode.not_leader_or_follower:
            self._leads_no_more(now, source.id)
        return self._settle(now)

    def _take(self, now: int, node_id: int, response: Response) -> bool:
        replica = self.replica
        match response:
            case VoteResponse():
                return elections.on_vote_response(replica, now, node_id, response)
            case BeginQuorumEpochResponse():
                return elections.on_begin_epoch_response(replica, now, response)
            case EndQuorumEpochResponse():
                return elections.on_end_epoch_response(replica, now, node_id, response)
            case FetchResponse():
                return replication.on_fetch_response(replica, now, response)
            case FetchSnapshotResponse():
                return replication.on_fetch_snapshot_response(replica, now, response)
            case KRaftVersionsResponse():
                return membership.on_kraft_versions(replica, now, node_id, response)
            case ChangeVotersResponse(error):
                return error in (
                    ErrorCode.none,
                    ErrorCode.request_timed_out,
                    ErrorCode.duplicate_voter,
                    ErrorCode.voter_not_found,
                )
            case UpdateVoterResponse(leader, error):
                return self._take_update(now, leader, error)

    def _take_update(self, now: int, leader: Leader, error: ErrorCode) -> bool:
        handled = elections.on_any_response(self.replica, now, error, leader)
        if handled is not None:
            return handled
        state = self.replica.state
        if isinstance(state, Follower) and error in (ErrorCode.none, ErrorCode.unsupported_version):
            state.has_told_leader = True
            state.has_fetched = True
            state.fetch_timeout_at = now + self.replica.settings.fetch_timeout_ms
            return True
        return False

    def appended(self, now: int, end_offset: int) -> list[Effect]:
        """Waiting followers get it at once: they may sync it while the leader does."""
        replica, state = self.replica, self.replica.state
        if not isinstance(state, Leadership):
            raise ValueError(f"node {replica.me.id} appended up to {end_offset} while it was {replica.role.value}")
        replica.log.append(end_offset, replica.epoch)
        return self._settle(now) if state.parked else []

    def flushed(self, now: int, end_offset: int, generation: int) -> list[Effect]:
        """`generation` is the `log_generation` when the sync began: what was truncated since may have been in it."""
        replica = self.replica
        if replica.has_failed or generation != replica.log.generation:
            return []
        durable = min(end_offset, replica.log.end_offset)
        replica.log.durable_offset = max(replica.log.durable_offset, durable)
        if isinstance(replica.state, Leadership):
            replica.state.own.end_offset = replica.log.durable_offset
            replication.note_progress(replica, now)
            if replica.is_only_voter and not replica.state.parked and replica.state.change is None:
                out, replica.out = replica.out, []
                return out  # nothing else can be due: one that is alone waits for nobody
        return self._settle(now)

    def snapshot_created(self, snapshot: OffsetAndEpoch) -> None:
        self.replica.log.add_snapshot(snapshot)

    def trimmed(self, start_offset: int) -> None:
        self.replica.log.trim(start_offset)

    def snapshot_installed(
        self, now: int, snapshot: OffsetAndEpoch, kraft_version: int, voters: VoterSet | None
    ) -> list[Effect]:
        replication.on_snapshot_installed(self.replica, snapshot, kraft_version, voters)
        return self._settle(now)

    def snapshot_failed(self, now: int) -> list[Effect]:
        """It was damaged on its way, or not what it should be: the next Fetch begins anew."""
        self.replica.installing = None
        return self._settle(now)

    def leader_died(self, now: int, leader_id: int) -> list[Effect]:
        self._leads_no_more(now, leader_id)
        return self._settle(now)

    def _leads_no_more(self, now: int, leader_id: int) -> None:
        """No need to wait for the fetch timeout. All survivors may learn of it together, so each waits a little."""
        state = self.replica.state
        if isinstance(state, Follower) and self.replica.leader_id == leader_id:
            soon = now + self.replica.below(_MOST_DELAY_AFTER_DEATH_MS)
            state.fetch_timeout_at = min(state.fetch_timeout_at, soon)
            state.has_fetched = False

    def upgrade_kraft_version(
        self, now: int, version: int, *, validate_only: bool = False
    ) -> tuple[ErrorCode, list[Effect]]:
        error = membership.upgrade_kraft_version(self.replica, version, validate_only=validate_only)
        return error, self._settle(now)

    def resign(self, now: int) -> list[Effect]:
        if isinstance(self.replica.state, Leadership):
            self.replica.state.wants_to_resign = True
        return self._settle(now)

    def shut_down(self, now: int) -> list[Effect]:
        self.replica.is_shutting_down = True
        return self._settle(now)

    def fail(self) -> None:
        """The disk cannot be trusted any more: nothing is voted, appended or committed here from now on."""
        self.replica.has_failed = True
        self.deadline = FAR
        if self.is_leader:
            self.replica.state = Resigned(FAR)

    # -- what is due

    def _reply(self, token: object, response: Response) -> None:
        self.replica.out.append(Reply(token, response))

    def _settle(self, now: int) -> list[Effect]:
        replica = self.replica
        if replica.has_failed:
            replica.out.clear()
            return []
        while True:
            before = replica.state
            self.deadline = self._poll(now)
            if replica.state is before:
                break
        out, replica.out = replica.out, []
        return _without_needless_syncs(out)

    def _poll(self, now: int) -> int:
        """Sends what is due and gives the time of the next thing that is."""
        match self.replica.state:
            case Leadership() as leadership:
                return self._poll_leader(now, leadership)
            case Prospective() | Candidate() as nominee:
                return self._poll_nominee(now, nominee)
            case Follower() as follower:
                return self._poll_follower(now, follower)
            case Unattached() as unattached:
                return self._poll_unattached(now, unattached)
            case Resigned() as resigned:
                return self._poll_resigned(now, resigned)

    def _poll_leader(self, now: int, leadership: Leadership) -> int:
        replica = self.replica
        membership.on_committed(replica)
        is_leaving = replica.is_shutting_down and not replica.is_only_voter
        if is_leaving or leadership.wants_to_resign or now >= leadership.check_quorum_at:
            replica.resign(now)
            return now
        membership.expire_change(replica, now)
        replication.answer_parked(replica, now, replica.log.end_offset - 1)
        replication.expire_parked(replica, now)
        leadership.forget_silent_observers(now)
        if now >= leadership.begin_epoch_at:
            for key in leadership.to_remind(now):
                self._send(now, key.id, BeginQuorumEpochRequest(replica.cluster_id, replica.leader, key))
            leadership.begin_epoch_at = now + replica.settings.begin_epoch_ms
        change = leadership.change
        parked = min((fetch.expires_at for fetch in leadership.parked.values()), default=FAR)
        has_others = len(leadership.voters) > 1 or not replica.is_voter
        return min(
            leadership.check_quorum_at,
            leadership.begin_epoch_at if has_others else FAR,
            change.expires_at if change else FAR,
            parked,
        )

    def _poll_nominee(self, now: int, nominee: Prospective | Candidate) -> int:
        replica = self.replica
        if now >= nominee.election_ends_at and not replica.is_shutting_down:
            if isinstance(nominee, Candidate):
                replica.become_prospective(now)
            else:
                replica.give_up_election(now)
            return now
        ready = FAR
        if not nominee.tally.is_lost:
            pre_vote = isinstance(nominee, Prospective)
            for key in nominee.tally.missing:
                vote = VoteRequest(replica.cluster_id, replica.epoch, replica.me, replica.log.end, pre_vote, key)
                ready = min(ready, self._send(now, key.id, vote))
        return min(ready, FAR if replica.is_shutting_down else nominee.election_ends_at)

    def _poll_follower(self, now: int, follower: Follower) -> int:
        replica = self.replica
        if replica.is_shutting_down:
            return FAR
        may_stand = replica.may_stand and replica.installing is None
        if may_stand and now >= follower.fetch_timeout_at:
            replica.become_prospective(now)
            return now
        if now >= follower.update_voters_at and self._send_about_myself(now, follower):
            follower.update_voters_at = now + replica.settings.fetch_timeout_ms
        ready = self._fetch_from_best(now, follower)
        # An update that is overdue waits for the answer to what is under way.
        update_at = follower.update_voters_at if follower.update_voters_at > now else FAR
        return min(ready, follower.fetch_timeout_at if may_stand else FAR, update_at)

    def _send_about_myself(self, now: int, follower: Follower) -> bool:
        """Tells the leader where this voter listens, or asks to become one. True: enough for now."""
        replica = self.replica
        request: Request | None = None
        if replica.is_voter:
            is_static = replica.kraft_version == 0
            if replica.voters.needs_update(replica.node) if not is_static else not follower.has_told_leader:
                node = replica.node
                request = UpdateVoterRequest(
                    replica.cluster_id, replica.me, replica.epoch, node.endpoints, node.kraft_versions
                )
        elif replica.kraft_version > 0 and replica.can_become_voter and replica.settings.auto_join:
            old = membership.previous_self(replica)
            if old is not None:
                request = RemoveVoterRequest(replica.cluster_id, old)
            else:
                timeout = replica.settings.request_timeout_ms
                request = AddVoterRequest(
                    replica.cluster_id, replica.me, replica.node.endpoints, timeout, ack_when_committed=False
                )
        if request is None:
            return True
        leader = replica.destination(replica.leader_id, replica.leader_endpoints)
        if leader is None or not replica.connections.is_ready(leader.id, now):
            return False
        self._send_to(now, leader, request)
        return True

    def _fetch_from_best(self, now: int, follower: Follower) -> int:
        """From the leader; from anybody else if he does not answer, to learn whether there is another."""
        replica = self.replica
        if replica.installing is not None:
            return FAR
        if not self._may_fetch:
            return FAR
        leader = replica.destination(replica.leader_id, replica.leader_endpoints)
        connections = replica.connections
        if leader is None:
            return self._fetch_from_bootstrap(now)
        if connections.has_timed_out(leader.id, now):
            connections.reset(leader.id)
            return self._fetch_from_bootstrap(now)
        if connections.is_backing_off(leader.id, now):
            return min(self._fetch_from_bootstrap(now), connections.ready_at(leader.id, now))
        under_way_until = connections.any_under_way(now)
        if under_way_until is not None:
            return under_way_until
        download = follower.download
        if download is None:
            return self._send_to(now, leader, self._fetch_request())
        request = FetchSnapshotRequest(
            replica.cluster_id,
            replica.me,
            replica.epoch,
            download.snapshot,
            download.position,
            replica.settings.fetch_snapshot_max_bytes,
        )
        return self._send_to(now, leader, request)

    def _poll_unattached(self, now: int, unattached: Unattached) -> int:
        replica = self.replica
        if replica.is_shutting_down and replica.is_voter:
            return FAR
        may_stand = replica.may_stand and replica.installing is None
        if may_stand and now >= unattached.election_at:
            replica.become_prospective(now)
            return now
        if replica.installing is not None:
            return FAR
        return min(self._fetch_from_bootstrap(now), unattached.election_at if may_stand else FAR)

    def _poll_resigned(self, now: int, resigned: Resigned) -> int:
        replica = self.replica
        ready = FAR
        leader = replica.leader
        for voter_id in resigned.unacknowledged:
            request = EndQuorumEpochRequest(replica.cluster_id, leader, resigned.successors)
            ready = min(ready, self._send(now, voter_id, request))
        if replica.is_shutting_down:
            return ready
        if now >= resigned.election_at:
            # In the next epoch: in this one, others would go on naming this replica as the leader to follow.
            replica.become_unattached(now, replica.epoch + 1)
            return now
        if not resigned.unacknowledged:  # there may be another leader by now, above all after a start
            ready = min(ready, self._fetch_from_bootstrap(now))
        return min(ready, resigned.election_at)

    @property
    def _may_fetch(self) -> bool:
        """A fetch says that everything below it is durable here. Whoever never votes need not sync first."""
        replica = self.replica
        is_durable = replica.log.durable_offset >= replica.log.end_offset
        return is_durable or not (replica.is_voter or replica.can_become_voter)

    def _fetch_from_bootstrap(self, now: int) -> int:
        if not self._may_fetch:
            return FAR
        connections = self.replica.connections
        under_way_until = connections.any_under_way(now)
        if under_way_until is not None:
            return under_way_until
        server = connections.any_bootstrap(now)
        if server is None:
            return connections.bootstrap_ready_at(now)
        return self._send_to(now, server, self._fetch_request())

    def _fetch_request(self) -> FetchRequest:
        replica = self.replica
        return FetchRequest(
            replica.cluster_id,
            replica.me,
            replica.epoch,
            replica.log.end_offset,
            replica.log.last_epoch,
            replica.high_watermark,
            replica.settings.fetch_max_wait_ms,
            replica.settings.fetch_max_bytes,
        )

    def _send(self, now: int, voter_id: int, request: Request) -> int:
        to = self.replica.destination(voter_id, self.replica.voters.endpoints(voter_id))
        return FAR if to is None else self._send_to(now, to, request)

    def _send_to(self, now: int, to: Destination, request: Request) -> int:
        """When the next request to this node may leave."""
        connections = self.replica.connections
        if connections.is_ready(to.id, now):
            self.replica.out.append(Send(to, connections.sent(to.id, now), request))
        return connections.ready_at(to.id, now)


def _without_needless_syncs(effects: list[Effect]) -> list[Effect]:
    """A state that is replaced before anyone could have seen it, or a log depend on it, need not be persisted."""
    if sum(isinstance(effect, Persist) for effect in effects) < 2:
        return effects
    kept: list[Effect] = []
    is_replaced = False
    for effect in reversed(effects):
        if isinstance(effect, Persist):
            if not is_replaced:
                kept.append(effect)
            is_replaced = True
            continue
        if not isinstance(effect, LeaderChanged):
            is_replaced = False
        kept.append(effect)
    return kept[::-1]


def refusal(request: Request, error: ErrorCode, leader: Leader) -> Response:
    """An answer to any request that says only this."""
    match request:
        case VoteRequest():
            return VoteResponse(leader, partition_error=error)
        case BeginQuorumEpochRequest():
            return BeginQuorumEpochResponse(leader, error)
        case EndQuorumEpochRequest():
            return EndQuorumEpochResponse(leader, error)
        case FetchRequest():
            return FetchResponse(leader, partition_error=error)
        case FetchSnapshotRequest():
            return FetchSnapshotResponse(leader, partition_error=error)
        case AddVoterRequest() | RemoveVoterRequest():
            return ChangeVotersResponse(error)
        case UpdateVoterRequest():
            return UpdateVoterResponse(leader, error)
        case KRaftVersionsRequest():
            return KRaftVersionsResponse(error=error)
