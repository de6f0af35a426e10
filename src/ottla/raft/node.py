"""A replica of the quorum at work: carries out on the event loop what quorum.py decides.

Alone it leads at once. With others (`Company`) it asks them through `Peers`, answers them by `handle`, and keeps one
timer for whatever the quorum waits for.

What is appended passes three stages, each with its event: appended (`append` returns), flushed, committed
(`on_committed`). Appends that arrive while an fsync is under way share the next one.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from ottla.env.ports import Buffer, Env
from ottla.env.tasks import Tasks
from ottla.model.errors import ErrorCode, OttlaError
from ottla.raft import quorum_state
from ottla.raft.connections import FAR
from ottla.raft.control_records import batch_of, control_batch
from ottla.raft.effects import (
    Append,
    AppendControl,
    Committed,
    DropDownload,
    Effect,
    InstallSnapshot,
    LeaderChanged,
    Persist,
    Reply,
    Send,
    StoreSnapshotChunk,
    Truncate,
)
from ottla.raft.leadership import Leadership
from ottla.raft.log import RaftLog
from ottla.raft.log_view import ControlHistory, LogView, OffsetAndEpoch
from ottla.raft.messages import (
    Destination,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
)
from ottla.raft.quorum import Quorum
from ottla.raft.retention import Retention, Stored, first_to_keep
from ottla.raft.settings import QuorumSettings
from ottla.raft.snapshot_format import Contents
from ottla.raft.snapshot_store import SnapshotStore
from ottla.raft.strangers import Strangers
from ottla.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet
from ottla.record.batch import parse_header

_log = logging.getLogger("ottla.raft")


class NotLeaderError(Exception):
    """This node does not lead the quorum (any more): nothing was appended."""


class Peers(Protocol):
    """The way to the other replicas."""

    async def ask(self, to: Destination, request: Request) -> Response | None:
        """None if it could not be asked, or did not answer. `Gone` if nobody listens there: its process is no more."""


class Gone(Exception):
    """There is no process at an address: it refuses connections."""


_DEFAULT_SETTINGS = QuorumSettings()
_SNAPSHOT_PIECE = 256 * 1024


@dataclass(frozen=True, slots=True)
class Company:
    """What a replica that is not alone must know of itself and of how to find the others."""

    me: VoterNode
    cluster_id: str
    static_voters: VoterSet
    peers: Peers | None
    """None for one that is alone for good."""
    bootstrap: Sequence[Destination] = ()
    settings: QuorumSettings = _DEFAULT_SETTINGS
    listener: str = "CONTROLLER"
    snapshots: SnapshotStore | None = None
    can_become_voter: bool = True
    """False for a broker without the controller's role: it only observes."""


class RaftNode:
    """`folder` is that of the log: Kafka keeps quorum-state beside the segments of `__cluster_metadata-0`."""

    def __init__(
        self,
        env: Env,
        folder: str,
        log: RaftLog,
        node_id: int,
        voters: tuple[int, ...],
        *,
        company: Company | None = None,
    ) -> None:
        self.log = log
        self.elections = 0
        """Leaders heard of, this node itself among them."""
        self.failure: BaseException | None = None
        self.on_flushed: list[Callable[[int], None]] = []
        self.on_committed: list[Callable[[int], None]] = []
        self.on_failed: list[Callable[[BaseException], None]] = []
        self.on_leader: list[Callable[[int, int], None]] = []
        """Who leads in which epoch; -1 while nobody is known to."""
        self._env = env
        self._folder = folder
        self._node_id = node_id
        if company is None:
            if voters != (node_id,):
                raise ValueError(f"node {node_id} must be the only voter, but the voters are {voters}")
            company = Company(VoterNode(ReplicaKey(node_id)), "", VoterSet.static(voters), None)
        self._peers = company.peers
        self._snapshots = company.snapshots
        self.on_snapshot: list[Callable[[OffsetAndEpoch, Contents], None]] = []
        """One of the leader has taken the place of the log; what it holds is the state now."""
        view, stored = _view_of(log, company.static_voters, company.snapshots), quorum_state.load(env.disk, folder)
        _check_voters(view, stored, folder)
        self._quorum = Quorum(
            company.me,
            company.cluster_id,
            view,
            stored,
            below=env.random.below,
            settings=company.settings,
            bootstrap=company.bootstrap,
            listener=company.listener,
            can_become_voter=company.can_become_voter,
        )
        self._timer: asyncio.TimerHandle | None = None
        self._flushed = 0
        self._is_flushing = False
        self._strangers = Strangers()
        self._refusing: set[tuple[str, int]] = set()
        """Where nobody listened when last asked."""
        self._tasks = Tasks(self._fail)
        self._news: deque[Committed | LeaderChanged] = deque()
        self._is_telling = False

    @property
    def epoch(self) -> int:
        return self._quorum.epoch

    @property
    def leader_id(self) -> int:
        return self._quorum.leader_id

    @property
    def is_leader(self) -> bool:
        return self._quorum.is_leader

    @property
    def leader(self) -> Destination | None:
        """Where the active controller listens; None while nobody is known to lead, and if that is this node."""
        replica = self._quorum.replica
        return replica.destination(replica.leader_id, replica.leader_endpoints) if replica.has_remote_leader else None

    @property
    def high_watermark(self) -> int:
        """Everything below is committed; -1 as long as this is not known."""
        return self._quorum.high_watermark

    @property
    def leader_high_watermark(self) -> int:
        """What the leader of now says; this replica may not have all of that yet. -1 as long as he has not said it."""
        return self.high_watermark if self.is_leader else self._quorum.replica.leader_high_watermark

    @property
    def committed_offset(self) -> int:
        """The largest high watermark that was known here since the start. A new leader's own may be unknown yet."""
        return self._quorum.replica.committed

    @property
    def leads_from(self) -> int | None:
        """The offset of the LeaderChange record, if this node leads."""
        return self.leadership.epoch_start if self.leadership is not None else None

    @property
    def leadership(self) -> Leadership | None:
        """What this node knows of the other replicas, if it leads: to look at."""
        state = self._quorum.replica.state
        return state if isinstance(state, Leadership) else None

    @property
    def is_changing_voters(self) -> bool:
        """Whether the last change of voters in the log is not known to be committed."""
        return self._quorum.replica.log.controls.voters_offset >= self.committed_offset

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where this node's own controller listens."""
        return self._quorum.replica.node.endpoints

    def why_not(self) -> str | None:
        """Why this node cannot take its place in the quorum, if others have told."""
        return self._strangers.why_not(self._now(), self._quorum.replica)

    @property
    def quorum(self) -> Quorum:
        """To look at."""
        return self._quorum

    def latest_snapshot(self) -> tuple[OffsetAndEpoch, Contents] | None:
        """Blocks: for loading while a node starts."""
        if self._snapshots is None or self._snapshots.latest is None:
            return None
        return self._snapshots.latest, self._snapshots.read(self._snapshots.latest)

    async def start(self) -> None:
        """A sole voter becomes leader: when this returns, all that the log held and the LeaderChange are committed."""
        leads_from = self.log.end_offset
        self._carry_out(self._quorum.start(self._now()))
        if self._quorum.replica.is_only_voter:
            await self.committed(leads_from)
        else:
            self._flush()  # what a killed process left may be in the page cache only

    def handle(self, request: Request) -> asyncio.Future[Response]:
        """What another replica asks. The answer may take a while: a Fetch waits for records."""
        answer: asyncio.Future[Response] = self._env.loop.create_future()
        size: int | None = None
        if isinstance(request, FetchSnapshotRequest) and self._snapshots is not None:
            size = self._snapshots.size(request.snapshot)
        self._carry_out(self._quorum.request(self._now(), answer, request, size))
        return answer

    def add_snapshot(self, id: OffsetAndEpoch, data: bytes) -> None:
        """Of what is committed below an offset at which a batch begins. Blocks until it is durable."""
        self._check_snapshot(id)
        self._store.write(id, data)
        self._quorum.snapshot_created(id)

    @property
    def snapshot_ids(self) -> Sequence[OffsetAndEpoch]:
        """Those on disk that are whole, oldest first."""
        return self._snapshots.ids if self._snapshots is not None else ()

    def snapshot_size(self, id: OffsetAndEpoch) -> int:
        return (self._snapshots.size(id) or 0) if self._snapshots is not None else 0

    @property
    def kraft_version(self) -> int:
        return self._quorum.replica.kraft_version

    def upgrade_kraft_version(self, version: int, *, validate_only: bool) -> bool:
        """As leader. False if that cannot be, as not all voters support it; else it is appended."""
        now = self._now()
        error, effects = self._quorum.upgrade_kraft_version(now, version, validate_only=validate_only)
        self._carry_out(effects)
        return error is ErrorCode.none

    def voters_at(self, offset: int) -> tuple[int, VoterSet | None]:
        """kraft.version and voters as of a committed offset, for a snapshot; None if they are not in the log."""
        return self._quorum.replica.log.controls.at(offset)

    async def write_snapshot(self, id: OffsetAndEpoch, pieces: Iterator[bytes]) -> None:
        """The same in pieces, each made on the loop and written elsewhere. OSError if it could not be written."""
        self._check_snapshot(id)
        store, blocking = self._store, self._env.executor.blocking
        position, waiting = 0, bytearray()
        for piece in pieces:
            waiting += piece
            if len(waiting) < _SNAPSHOT_PIECE:
                await asyncio.sleep(0)
                continue
            await blocking(store.write_chunk, id, position, bytes(waiting))
            position += len(waiting)
            waiting.clear()
        await blocking(store.write_chunk, id, position, bytes(waiting))
        await blocking(store.made, id)
        if id.offset < self.log.start_offset:  # one of the leader has taken the place of the log meanwhile
            for path in store.forget_before(self.log.start_offset):
                self._env.disk.remove(path)
            return
        self._quorum.snapshot_created(id)

    def _check_snapshot(self, id: OffsetAndEpoch) -> None:
        if self._snapshots is None or id.offset > self.committed_offset:
            raise ValueError(f"a snapshot at {id.offset} is beyond the high watermark {self.committed_offset}")

    async def clean(self, retention: Retention) -> list[str]:
        """Forgets old snapshots and the log before the first that is kept. Gives the paths of files to remove."""
        store = self._snapshots
        if store is None or len(store.ids) < 2:
            return []
        stored = await self._env.executor.blocking(_stored, store)
        keep = first_to_keep(stored, self.log.size_from, retention, self._env.clock.now_ms())
        if keep is None or keep not in store.ids:
            return []
        _log.info("The metadata log begins at offset %d now; a snapshot has what was before", keep.offset)
        paths = store.forget_before(keep.offset) + self.log.trim(keep.offset)
        self._quorum.trimmed(keep.offset)
        return paths

    def append(self, batch: Buffer) -> int:
        """Puts one batch at the end of the log, gives its base offset and starts to make it durable.

        OSError if it could not be appended: this node then no longer leads.
        """
        if not self.is_leader:
            raise NotLeaderError(f"node {self._node_id} is {self._quorum.role.value} in epoch {self.epoch}")
        base_offset = self._append(batch)
        self._carry_out(self._quorum.appended(self._now(), self.log.end_offset))
        return base_offset

    def _append(self, batch: Buffer) -> int:
        try:
            base_offset = self.log.append(batch, self.epoch)
        except OSError as error:
            self._fail(error)  # a log that failed once takes nothing more: better to say so than to lead in vain
            raise
        self._flush()
        return base_offset

    def _flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._tasks.start(self._flush_until_level(), "raft-flush")

    async def committed(self, offset: int) -> None:
        """Returns when the record at this offset is committed; raises what keeps it from ever being that."""
        if self.high_watermark > offset:
            return
        if self.failure is not None:
            raise NotLeaderError(f"offset {offset} was not committed: {self.failure}") from self.failure
        done: asyncio.Future[None] = self._env.loop.create_future()

        def reached(high_watermark: int) -> None:
            if high_watermark > offset and not done.done():
                done.set_result(None)

        def failed(error: BaseException) -> None:
            if not done.done():
                done.set_exception(NotLeaderError(f"offset {offset} was not committed: {error}"))

        def led_by(leader_id: int, epoch: int) -> None:
            if leader_id != self._node_id:
                failed(NotLeaderError(f"node {leader_id} leads in epoch {epoch}"))

        self.on_committed.append(reached)
        self.on_failed.append(failed)
        self.on_leader.append(led_by)
        try:
            await done
        finally:
            self.on_committed.remove(reached)
            self.on_failed.remove(failed)
            self.on_leader.remove(led_by)

    async def stop(self) -> None:
        """Makes durable what was appended, then appends nothing more. A leader of others tells them that it goes."""
        if self._quorum.replica.is_only_voter:
            if self.is_leader and self.failure is None and self.log.end_offset > self._flushed:
                await self.committed(self.log.end_offset - 1)
        elif self.failure is None:
            self._carry_out(self._quorum.shut_down(self._now()))
            await self._until_replaced()
        self._quorum.fail()
        if self._timer is not None:
            self._timer.cancel()
        await self._tasks.stop()

    async def _until_replaced(self) -> None:
        """Until somebody else leads, or for two elections if nobody does."""
        patience = self._env.loop.time() + self._quorum.replica.settings.election_timeout_ms / 500
        while not self._quorum.may_stop and not self._is_last and self._env.loop.time() < patience:
            await asyncio.sleep(0.01)

    @property
    def _is_last(self) -> bool:
        """The processes of all other voters are gone, so that nobody is left to hand over to."""
        others = [node for node in self._quorum.voters.nodes.values() if node.key.id != self._node_id]
        return all(any((end.host, end.port) in self._refusing for end in node.endpoints) for node in others)

    def _now(self) -> int:
        return int(self._env.clock.elapsed() * 1000)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        """Whoever is told of something may append at once, so nobody is told before all the rest is done."""
        try:
            for effect in effects:
                self._do(effect)
        except OSError as error:
            self._fail(error)  # above all: nobody may hear of a vote that is not on disk
            raise
        self._set_timer()
        if self._is_telling:
            return
        self._is_telling = True
        try:
            while self._news:
                self._tell(self._news.popleft())
        finally:
            self._is_telling = False

    def _do(self, effect: Effect) -> None:
        match effect:
            case Persist(state):
                quorum_state.store(self._env.disk, self._folder, state)
            case AppendControl(records=records):
                self._append(control_batch(records, self._env.clock.now_ms()))
            case Append(batches):
                self._append_fetched([batch.data for batch in batches])
            case Truncate(end_offset):
                _log.info("The metadata log is truncated to offset %d, where the leader's differs", end_offset)
                self.log.truncate(end_offset)
                self._flushed = min(self._flushed, end_offset)
            case Send(to, correlation_id, request):
                self._tasks.start(self._ask(to, correlation_id, request), "raft-request")
            case Reply(token, response):
                assert isinstance(token, asyncio.Future)
                if not token.done():
                    token.set_result(self._with_records(response))
            case Committed() | LeaderChanged():
                self._news.append(effect)
            case StoreSnapshotChunk(snapshot, position, data):
                self._store.write_chunk(snapshot, position, data)
            case DropDownload(snapshot):
                self._store.drop_part(snapshot)
            case InstallSnapshot(snapshot):
                self._tasks.start(self._install(snapshot), "raft-snapshot")

    @property
    def _store(self) -> SnapshotStore:
        if self._snapshots is None:
            raise OttlaError("the leader offers a snapshot of the metadata, and there is no place for one")
        return self._snapshots

    async def _install(self, id: OffsetAndEpoch) -> None:
        """A crash after `finish` is made good by the next start: a log that ends before its snapshot is dropped."""
        try:
            contents = await self._env.executor.blocking(self._store.finish, id)
        except OttlaError as error:
            _log.warning("%s", error)
            self._carry_out(self._quorum.snapshot_failed(self._now()))
            return
        self.log.restart_at(id.offset)
        for path in self._store.forget_before(id.offset):
            self._env.disk.remove(path)
        self._flushed = id.offset
        for listener in list(self.on_snapshot):
            listener(id, contents)
        self._carry_out(self._quorum.snapshot_installed(self._now(), id, contents.kraft_version, contents.voters))

    def _tell(self, news: Committed | LeaderChanged) -> None:
        match news:
            case Committed(high_watermark):
                for listener in list(self.on_committed):
                    listener(high_watermark)
            case LeaderChanged(leader_id, epoch):
                if leader_id >= 0:
                    self.elections += 1
                    _log.info("Node %d leads the metadata quorum in epoch %d", leader_id, epoch)
                for hears in list(self.on_leader):
                    hears(leader_id, epoch)

    def _append_fetched(self, batches: Iterable[Buffer]) -> None:
        for batch in batches:
            self.log.append_as_is(batch)
        self._flush()

    def _with_records(self, response: Response) -> Response:
        if isinstance(response, FetchSnapshotResponse) and response.snapshot is not None:
            chunk = self._store.read_chunk(response.snapshot, response.position, response.max_bytes)
            return replace(response, data=chunk)
        if not isinstance(response, FetchResponse) or response.read_from is None:
            return response
        found = self.log.read(response.read_from, response.max_bytes)
        return replace(response, batches=tuple(batch_of(batch) for batch in found))

    async def _ask(self, to: Destination, correlation_id: int, request: Request) -> None:
        assert self._peers is not None
        response: Response | None = None
        try:
            response = await self._peers.ask(to, request)
            self._refusing.discard((to.host, to.port))
            if response is not None:
                self._strangers.heard(self._now(), self._quorum.replica, to, response)
        except Gone:
            self._gone(to)
        self._carry_out(self._quorum.response(self._now(), to, correlation_id, response))

    def _gone(self, to: Destination) -> None:
        self._refusing.add((to.host, to.port))
        leader = self._quorum.replica.leader
        if any((end.host, end.port) == (to.host, to.port) for end in leader.endpoints):
            self._carry_out(self._quorum.leader_died(self._now(), leader.id))

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._quorum.deadline < FAR:
            wait = max(self._quorum.deadline - self._now(), 0) / 1000
            self._timer = self._env.loop.call_later(wait, self._tick)

    def _tick(self) -> None:
        self._timer = None
        with suppress(OSError):  # nobody asked, and the node has been told of it
            self._carry_out(self._quorum.tick(self._now()))

    async def _flush_until_level(self) -> None:
        try:
            while self._flushed < self.log.end_offset and self.failure is None:
                generation = self._quorum.log_generation
                flushed = await self.log.flush()
                if generation == self._quorum.log_generation:
                    self._flushed = flushed
                    for listener in list(self.on_flushed):
                        listener(flushed)
                self._carry_out(self._quorum.flushed(self._now(), flushed, generation))
        finally:
            self._is_flushing = False

    def _fail(self, error: BaseException) -> None:
        """After a failed fsync nobody knows what the disk has (the kernel may have dropped the pages): never go on."""
        if self.failure is not None:
            return
        self.failure = error
        self._quorum.fail()
        _log.error("The metadata log is given up, this node no longer leads: %s", error, exc_info=error)
        for listener in list(self.on_failed):
            listener(error)


def _stored(store: SnapshotStore) -> list[Stored]:
    return [Stored(id, store.size(id) or 0, store.timestamp(id)) for id in list(store.ids)]


def _check_voters(view: LogView, stored: quorum_state.ElectionState | None, folder: str) -> None:
    """Static voters are for good: two majorities of different sets need have no voter in common."""
    now = view.controls.static_voters.ids
    if stored is None or view.controls.kraft_version or not stored.voters or not now or stored.voters == now:
        return
    before, after = (", ".join(map(str, ids)) for ids in (stored.voters, now))
    raise OttlaError(
        f"{folder} belongs to a quorum of the voters {before}, but the config says {after}. Name those of before in "
        "controller.quorum.voters; to change them, upgrade kraft.version to 1 first. Nothing was changed."
    )


def _view_of(log: RaftLog, static_voters: VoterSet, snapshots: SnapshotStore | None) -> LogView:
    """What the quorum must know of a log, with the voters that its control records name. Nothing counts as durable."""
    controls = ControlHistory(static_voters)
    latest = snapshots.latest if snapshots else None
    if snapshots is not None and latest is not None:
        if latest.offset > log.end_offset or latest.epoch > log.last_epoch:
            # It was to take the place of the log, and a crash came between. A log of earlier epochs may be the longer
            # one: its end was never committed.
            log.restart_at(latest.offset)
            snapshots.recover(latest.offset)
        elif log.start_offset > 0:
            log.trim(snapshots.ids[0].offset)  # segments begin before the records that count
        contents = snapshots.read(latest)
        controls.restart(latest.offset - 1, contents.kraft_version, contents.voters)
    view = LogView(controls, log.start_offset, log.end_offset, log.start_offset)
    view.epochs = log.epoch_starts
    view.snapshots = list(snapshots.ids) if snapshots else []
    for data in log.read_from(max(log.start_offset, latest.offset if latest else 0)):
        if parse_header(data).is_control:
            for offset, record in batch_of(data).controls:
                view.controls.note(offset, record)
    return view
