"""This replica's standing in the quorum: its epoch, its role, whom it voted for, who leads, and how these may change.

    unattached  --- election timeout -------------------> prospective
    prospective --- a majority would vote for it -------> candidate, in the next epoch
    prospective --- a majority would not, or timeout ---> follower if it knows a leader, else unattached
    candidate   --- a majority voted for it ------------> leader
    candidate   --- lost, after a backoff; timeout -----> prospective
    follower    --- fetch timeout ----------------------> prospective
    leader      --- no majority fetches; asked to ------> resigned
    resigned    --- election timeout -------------------> unattached, in the next epoch
    any         --- hears of a leader of its epoch -----> follower
    any         --- hears of a later epoch -------------> unattached, or follower if a leader comes with it

Rules that are easy to get wrong:
- An epoch is never led twice. After a restart its last records may be gone (they were not synced), so that an old
  leader which went on in its epoch would write other records under the same (offset, epoch). It starts as `resigned`.
- A vote is durable before anyone hears of it, also the vote for oneself: Persist comes before what depends on it.
- A vote is kept through all roles of its epoch.
- A leader's own records count only when synced, and records of earlier epochs are committed only together with one of
  its own: the high watermark is unknown until the LeaderChange record is past it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ottla.model.errors import ErrorCode, OttlaError
from ottla.raft.connections import FAR, Connections
from ottla.raft.effects import AppendControl, Committed, DropDownload, Effect, LeaderChanged, Persist, Reply
from ottla.raft.leadership import Leadership
from ottla.raft.log_view import (
    ControlRecord,
    KRaftVersionRecord,
    LeaderChangeRecord,
    LogView,
    OffsetAndEpoch,
    VotersRecord,
)
from ottla.raft.messages import ChangeVotersResponse, Destination, FetchResponse, Leader
from ottla.raft.quorum_state import NOBODY, ElectionState
from ottla.raft.roles import ROLE_OF, Candidate, Follower, Prospective, Resigned, Role, RoleState, Unattached
from ottla.raft.settings import QuorumSettings
from ottla.raft.tally import Tally
from ottla.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet

UNKNOWN_OFFSET = -1


class InconsistentQuorum(OttlaError):
    """The others contradict what was committed. Going on could only do harm."""


class Replica:
    def __init__(
        self,
        me: VoterNode,
        cluster_id: str,
        log: LogView,
        stored: ElectionState | None,
        *,
        settings: QuorumSettings,
        bootstrap: Sequence[Destination],
        listener: str,
        can_become_voter: bool,
        below: Callable[[int], int],
    ) -> None:
        self.node = me
        self.me = me.key
        self.cluster_id = cluster_id
        self.log = log
        self.settings = settings
        self.listener = listener
        self.can_become_voter = can_become_voter
        self.below = below
        self.connections = Connections(bootstrap, settings.request_timeout_ms, settings.retry_backoff_ms, below)
        self.out: list[Effect] = []
        self.installing: OffsetAndEpoch | None = None
        """A snapshot that is about to replace the log. Until it has, this replica neither fetches nor stands."""
        self.is_shutting_down = False
        self.has_failed = False
        self.high_watermark = UNKNOWN_OFFSET
        """In this role; a new leader does not know it until it has committed something."""
        self.leader_high_watermark = UNKNOWN_OFFSET
        """What the leader of now said last, beyond this replica's own log or not."""
        self.committed = UNKNOWN_OFFSET
        """The largest that this replica knew since it started."""
        self.epoch = 0
        self.leader_id = NOBODY
        self.leader_endpoints: tuple[Endpoint, ...] = ()
        self.voted: ReplicaKey | None = None
        self.state: RoleState = Unattached(FAR)
        self._elections_lost = 0
        self._persisted = stored or ElectionState(0)
        self._announced = (NOBODY, 0)

    # -- what holds now

    @property
    def role(self) -> Role:
        return ROLE_OF[type(self.state)]

    @property
    def voters(self) -> VoterSet:
        return self.log.controls.voters

    @property
    def kraft_version(self) -> int:
        return self.log.controls.kraft_version

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.me)

    @property
    def may_stand(self) -> bool:
        """Voters, and one that a change leaves out which may not be committed yet.

        It may have the longest log of all, so that nobody else could be elected (Ongaro's thesis, 4.2.2). When the
        change is committed, it goes.
        """
        controls = self.log.controls
        if self.is_voter or controls.voters_offset < self.committed or len(controls.voters_at) < 2:
            return self.is_voter
        return controls.voters_at[-2][1].has(self.me)

    @property
    def is_only_voter(self) -> bool:
        return self.voters.is_only(self.me)

    @property
    def leader(self) -> Leader:
        return Leader(self.leader_id, self.epoch, self.leader_endpoints)

    @property
    def has_remote_leader(self) -> bool:
        return self.leader_id not in (NOBODY, self.me.id)

    @property
    def election_state(self) -> ElectionState:
        voted = self.voted or ReplicaKey(NOBODY)
        if self.kraft_version == 0:
            return ElectionState(self.epoch, self.leader_id, voted.id, self.voters.ids)
        return ElectionState(self.epoch, self.leader_id, voted.id, (), voted.directory_id, version=1)

    def destination(self, node_id: int, endpoints: Sequence[Endpoint]) -> Destination | None:
        found = next((endpoint for endpoint in endpoints if endpoint.listener == self.listener), None)
        return Destination(node_id, found.host, found.port) if found else None

    def election_timeout(self, now: int) -> int:
        timeout = self.settings.election_timeout_ms
        return now + timeout + (self.below(timeout) if timeout else 0)

    def _first_election(self, now: int) -> int:
        """After a start there may be no leader at all. A pre-vote disturbs nobody, so it need not wait for long."""
        timeout = self.settings.election_timeout_ms
        return now + timeout // 20 + (self.below(max(timeout // 5, 1)))

    # -- from one role to the next

    def initialise(self, now: int) -> None:
        """Where this replica was when it stopped; see the rules above for one that led."""
        stored = self._persisted
        self.epoch, self.voted = stored.epoch, stored.voted
        if stored.epoch < self.log.last_epoch:  # the file was lost or restored: the log knows of its epochs too
            self.epoch, self.voted = self.log.last_epoch, None
            self.state = Unattached(self._first_election(now))
        elif stored.leader_id == self.me.id:
            self.leader_id, self.leader_endpoints = self.me.id, self.node.endpoints
            self.state = Resigned(self.election_timeout(now))
        elif self.voted is not None and self.voted.covers(self.me) and self.may_stand and stored.leader_id == NOBODY:
            self.state = Candidate(Tally(self.voters, [self.me.id]), self.election_timeout(now))
        elif stored.leader_id != NOBODY:
            self.leader_id = stored.leader_id
            self.leader_endpoints = self.voters.endpoints(stored.leader_id)
            if self.leader_endpoints:
                self.state = self._new_follower(now)
            else:
                self.state = Unattached(self._first_election(now))
        else:
            self.state = Unattached(self._first_election(now))
        if not self.may_stand and isinstance(self.state, Unattached):
            self.state.election_at = FAR
        self._persist()

    def become_unattached(self, now: int, epoch: int) -> None:
        """A later epoch, or back from being prospective in the same one: then vote and leader are kept."""
        match self.state:
            case _ if not self.may_stand:
                election_at = FAR
            case Unattached(at) | Resigned(election_at=at) | Candidate(election_ends_at=at):
                election_at = at
            case Prospective(tally, at) if not tally.is_lost:
                election_at = at
            case _:
                election_at = self.election_timeout(now)
        if epoch > self.epoch:
            self.voted, self.leader_id, self.leader_endpoints = None, NOBODY, ()
        self.epoch = epoch
        self._enter(Unattached(election_at))

    def become_follower(self, now: int, epoch: int, leader_id: int, endpoints: tuple[Endpoint, ...]) -> None:
        if epoch > self.epoch:
            self.voted = None
        self.epoch, self.leader_id, self.leader_endpoints = epoch, leader_id, endpoints
        self._elections_lost = 0
        self._enter(self._new_follower(now))

    def become_prospective(self, now: int) -> None:
        self._enter(Prospective(Tally(self.voters, [self.me.id]), self.election_timeout(now)))
        self.count_votes(now)

    def become_candidate(self, now: int) -> None:
        self.epoch += 1
        self.voted, self.leader_id, self.leader_endpoints = self.me, NOBODY, ()
        self._enter(Candidate(Tally(self.voters, [self.me.id]), self.election_timeout(now)))
        self.count_votes(now)

    def count_votes(self, now: int) -> None:
        match self.state:
            case Prospective(tally) if tally.is_won:
                self.become_candidate(now)
            case Prospective(tally) if tally.is_lost:
                self.give_up_election(now)
            case Candidate(tally) if tally.is_won:
                self._become_leader(now, tally.granting)
            case Candidate(tally) as candidate if tally.is_hopeless and not candidate.is_backing_off:
                # Two candidates of one epoch have each other's no, and the third may be dead. Waiting for the election
                # timeouts would leave the quorum without a leader for a second or two, so each tries again after a
                # short random while.
                self._elections_lost += 1
                slots = 2 << min(self._elections_lost - 1, 10)
                backoff = min(50 * self.below(slots), self.settings.election_backoff_max_ms)
                candidate.is_backing_off = True
                candidate.election_ends_at = min(candidate.election_ends_at, now + backoff)

    def give_up_election(self, now: int) -> None:
        """As prospective: back to the leader, if one is known; he may be well."""
        if self.leader_id != NOBODY and self.destination(self.leader_id, self.leader_endpoints):
            self._enter(self._new_follower(now))
        else:
            self.become_unattached(now, self.epoch)

    def _become_leader(self, now: int, granting: tuple[int, ...]) -> None:
        self.leader_id, self.leader_endpoints, self.voted = self.me.id, self.node.endpoints, None
        self.high_watermark = UNKNOWN_OFFSET
        self._elections_lost = 0
        leadership = Leadership(self.me, self.voters, self.log, granting, self.settings, now)
        if self.kraft_version == 0:
            leadership.volatile_voters = self.voters.updating(self.node, any_directory=True)
        self._enter(leadership)
        records: list[ControlRecord] = [LeaderChangeRecord(self.me.id, self.voters.ids, granting)]
        is_first = self.log.controls.voters_offset == -1  # they come from the snapshot that a format left
        updated = self.voters.updating(self.node)
        if self.kraft_version > 0 and updated is not None and (is_first or self.voters.needs_update(self.node)):
            records += [KRaftVersionRecord(self.kraft_version), VotersRecord(updated)]
        self.append_control(*records)

    def resign(self, now: int) -> None:
        """The others are told, the one with the longest log first in line; nothing more is appended in this epoch."""
        assert isinstance(self.state, Leadership)
        others = dict.fromkeys(voter for voter in self.voters.ids if voter != self.me.id)
        self._enter(Resigned(self.election_timeout(now), self.state.successors(), others))

    def vote_for(self, now: int, key: ReplicaKey) -> None:
        """He has at least as good a chance as this replica, which therefore waits for another election timeout."""
        self.voted = key
        match self.state:
            case Unattached():
                self.state = Unattached(self.election_timeout(now))
            case Prospective():
                self.state = Prospective(Tally(self.voters, [self.me.id]), self.election_timeout(now))
        self._persist()

    def _new_follower(self, now: int) -> Follower:
        timeout = self.settings.fetch_timeout_ms
        return Follower(fetch_timeout_at=now + timeout, update_voters_at=now + timeout)

    def _enter(self, state: RoleState) -> None:
        before, self.state = self.state, state
        self.leader_high_watermark = UNKNOWN_OFFSET
        self.connections.reset_all()
        self._persist()
        has_resigned = self.leader_id == self.me.id and not isinstance(state, Leadership)
        known = (NOBODY if has_resigned else self.leader_id, self.epoch)
        if self._announced != known:
            self._announced = known
            self.out.append(LeaderChanged(*known))
        match before:
            case Leadership():
                self._let_go(before)
            case Follower(download=download) if download is not None:
                self.out.append(DropDownload(download.snapshot))

    def _let_go(self, leadership: Leadership) -> None:
        refused = ErrorCode.not_leader_or_follower
        for token in leadership.parked:
            self.out.append(Reply(token, FetchResponse(self.leader, partition_error=refused)))
        if leadership.change is not None and not leadership.change.is_answered:
            self.out.append(Reply(leadership.change.token, ChangeVotersResponse(refused)))

    def _persist(self) -> None:
        state = self.election_state
        if state != self._persisted:
            self._persisted = state
            self.out.append(Persist(state))

    # -- as leader

    def append_control(self, *records: ControlRecord) -> int:
        """The offset of the last of them."""
        assert isinstance(self.state, Leadership)
        base = self.log.end_offset
        self.out.append(AppendControl(base, self.epoch, records))
        self.log.append(base + len(records), self.epoch, [(base + i, record) for i, record in enumerate(records)])
        if any(isinstance(record, VotersRecord) for record in records):
            self.state.change_voters(self.voters)
        return self.log.end_offset - 1

    def advance_as_leader(self) -> bool:
        assert isinstance(self.state, Leadership)
        offset = self.state.majority_offset()
        if offset <= self.state.epoch_start or offset <= self.high_watermark:
            return False
        self.advance(offset)
        return True

    def advance(self, high_watermark: int) -> None:
        self.high_watermark = high_watermark
        if high_watermark > self.committed:
            self.committed = high_watermark
            self.out.append(Committed(high_watermark))

    # -- hearing of others

    def hear_of(self, now: int, leader: Leader) -> bool:
        """A message names a leader and an epoch that are not older than ours. False if that cannot be."""
        if leader.id == self.me.id and self.role is not Role.LEADER:
            return False
        if leader.epoch == self.epoch and leader.id != NOBODY and self.leader_id not in (NOBODY, leader.id):
            return False
        endpoints = leader.endpoints or self.voters.endpoints(leader.id)
        is_reachable = leader.id != NOBODY and self.destination(leader.id, endpoints) is not None
        if leader.epoch > self.epoch:
            if is_reachable:
                self.become_follower(now, leader.epoch, leader.id, endpoints)
            else:
                self.become_unattached(now, leader.epoch)
        elif is_reachable and leader.id != self.me.id:
            knows_more = len(endpoints) > len(self.leader_endpoints)
            if self.leader_id == NOBODY or knows_more:
                self.become_follower(now, leader.epoch, leader.id, endpoints)
        return True
