"""One replica of the simulated quorum: carries out what its core wants, and may die between any two effects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
from ottla.raft.log_view import Batch, ControlRecord, LeaderChangeRecord, OffsetAndEpoch
from ottla.raft.messages import (
    Destination,
    FetchResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    Request,
    Response,
    VoteRequest,
    VoteResponse,
)
from ottla.raft.quorum import Quorum
from ottla.raft.roles import Role
from ottla.raft.voters import ReplicaKey, VoterNode
from ottla.sim.raft.storage import Snapshot, Storage

if TYPE_CHECKING:
    from ottla.sim.raft.world import World


class Member:
    def __init__(self, world: World, node: VoterNode, storage: Storage) -> None:
        self.world = world
        self.node = node
        self.storage = storage
        self.quorum = self._new_quorum()
        self.life = 0
        self.is_up = False
        self.applied = 0
        self.digest = 0
        self.dies_in: int | None = None
        """After so many more effects."""
        self._flush_under_way = False
        self._chunks: dict[OffsetAndEpoch, int] = {}
        self._offered: dict[OffsetAndEpoch, Snapshot] = {}

    @property
    def id(self) -> int:
        return self.node.key.id

    @property
    def key(self) -> ReplicaKey:
        return self.node.key

    def _new_quorum(self) -> Quorum:
        world = self.world
        return Quorum(
            self.node,
            "cluster",
            self.storage.now.view(world.static_voters, world.bootstrap_voters),
            self.storage.now.state,
            below=world.random.randrange,
            settings=world.settings,
            bootstrap=[server for server in world.bootstrap if server.host != f"n{self.id}"],
        )

    # -- life and death

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.quorum = self._new_quorum()
        latest = max(self.storage.now.snapshots, default=None)
        self.applied, self.digest = 0, 0
        if latest is not None:
            snapshot = self.storage.now.snapshots[latest]
            self.applied, self.digest = latest.offset, snapshot.digest
        self._flush_under_way = False
        self._chunks.clear()
        self.dies_in = None
        self.do(self.quorum.start(self.world.now))
        self._flush()

    def kill(self) -> None:
        """The process is gone; what it wrote is in the page cache still."""
        self.is_up = False
        self.life += 1
        self.world.note(f"n{self.id} is killed")

    def lose_power(self) -> None:
        self.is_up = False
        self.life += 1
        lost = self.storage.lose_power(self.world.random)
        self.world.counts["batches lost"] += lost
        self.world.note(f"n{self.id} loses power, and with it {lost} batches")

    # -- events

    def tick(self) -> None:
        self.do(self.quorum.tick(self.world.now))

    def receive(self, token: object, request: Request) -> None:
        size: int | None = None
        if isinstance(request, FetchSnapshotRequest):
            found = self.storage.now.snapshots.get(request.snapshot)
            size = found.size if found else None
        self._asked = request
        self.do(self.quorum.request(self.world.now, token, request, size))

    def answered(self, source: Destination, correlation_id: int, response: Response | None) -> None:
        if isinstance(response, FetchSnapshotResponse) and response.snapshot is not None:
            offered = self.world.offered.get(response.snapshot)
            if offered is not None:
                self._offered[response.snapshot] = offered
        self.do(self.quorum.response(self.world.now, source, correlation_id, response))

    def propose(self, value: bytes, count: int) -> None:
        """As leader: one batch with so many records."""
        end = self.storage.now.end_offset
        batch = Batch(end, end + count, self.quorum.epoch, value)
        self._append(batch)
        self.do(self.quorum.appended(self.world.now, batch.next_offset))
        self._flush()

    def take_snapshot(self) -> None:
        """Of all that is applied, and the log before it goes."""
        batches = [batch for batch in self.storage.now.batches if batch.next_offset == self.applied]
        if not batches:
            return
        id = OffsetAndEpoch(self.applied, batches[0].epoch)
        if id in self.storage.now.snapshots:
            return
        version, voters = self.quorum.replica.log.controls.at(id.offset - 1)
        snapshot = Snapshot(id, self.digest, version, voters, self.world.random.randint(1, 300))
        self.world.checks.takes_snapshot(self, snapshot)
        self.storage.add_snapshot(snapshot)
        self.world.offered[id] = snapshot
        self.quorum.snapshot_created(id)
        if self.world.random.random() < 0.7:
            self.storage.trim(id)
            self.quorum.trimmed(id.offset)
        self.world.counts["snapshots taken"] += 1
        self.world.note(f"n{self.id} takes snapshot {id.offset}-{id.epoch}")

    # -- effects

    def do(self, effects: list[Effect]) -> None:
        life = self.life
        for effect in effects:
            if self.dies_in is not None:
                self.dies_in -= 1
                if self.dies_in < 0:
                    self.lose_power() if self.world.random.random() < 0.5 else self.kill()
                    self.world.restart_later(self)
                    return
            self._do(effect)
            if self.life != life:
                return
        if self.quorum.is_leader and self.quorum.high_watermark >= 0:
            self.world.checks.high_watermark(self.quorum.epoch, self.quorum.high_watermark)
        self.world.wake_at(self, self.quorum.deadline)

    def _do(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case Persist(state):
                self.storage.persist(state)
                world.checks.votes(self.key, state)
                world.note(f"n{self.id} persists epoch {state.epoch}, leader {state.leader_id}, vote {state.voted_id}")
            case AppendControl(base_offset, epoch, records):
                self._append(control_batch(base_offset, epoch, records))
                world.note(f"n{self.id} appends {describe(records)} at {base_offset} in epoch {epoch}")
                self._flush()
            case Append(batches):
                for batch in batches:
                    self._append(batch)
                world.note(f"n{self.id} appends {batches[0].base_offset}..{batches[-1].next_offset - 1}")
                self._flush()
            case Truncate(end_offset):
                self.storage.truncate(end_offset)
                world.counts["truncations"] += 1
                world.note(f"n{self.id} truncates its log to {end_offset}")
            case Send(to, correlation_id, request):
                world.send(self, to, correlation_id, request)
            case Reply(token, response):
                self._reply(token, response)
            case Committed(high_watermark):
                world.note(f"n{self.id} commits up to {high_watermark}")
                if high_watermark > self.applied:
                    world.checks.commits(self, high_watermark, is_leader=self.quorum.is_leader)
            case LeaderChanged(leader_id, epoch):
                if leader_id == self.id and self.quorum.role is Role.LEADER:
                    world.checks.leads(self, epoch)
                    world.counts["elections"] += 1
                    world.on_leader(self)
                world.note(f"n{self.id} knows leader {leader_id} in epoch {epoch}")
            case StoreSnapshotChunk(snapshot, position, data):
                assert self._chunks.get(snapshot, 0) == position, f"chunk at {position} follows {self._chunks}"
                self._chunks[snapshot] = position + len(data)
            case InstallSnapshot(snapshot):
                life = self.life
                world.later(world.random.randint(1, 30), lambda: self._install(life, snapshot))
            case DropDownload(snapshot):
                self._chunks.pop(snapshot, None)

    def _append(self, batch: Batch) -> None:
        batches = self.storage.now.batches
        before = batches[-1].epoch if batches else self._epoch_of_latest_snapshot()
        self.world.checks.appends(self, batch, before)
        self.storage.append((batch,))

    def _epoch_of_latest_snapshot(self) -> int:
        return max(self.storage.now.snapshots, default=OffsetAndEpoch(0, 0)).epoch

    def _reply(self, token: object, response: Response) -> None:
        if isinstance(response, FetchResponse) and response.read_from is not None:
            response = self._with_records(response)
        elif isinstance(response, FetchSnapshotResponse) and response.snapshot is not None:
            response = self._with_chunk(response)
        elif isinstance(response, VoteResponse) and response.granted:
            request = self._asked
            assert isinstance(request, VoteRequest)
            if not request.pre_vote:
                self.world.checks.grants(self, request.epoch, request.replica)
        self.world.reply(self, token, response)

    def _with_records(self, response: FetchResponse) -> FetchResponse:
        assert response.read_from is not None
        batches = [batch for batch in self.storage.now.batches if batch.next_offset > response.read_from]
        most = self.world.random.randint(1, 4)
        return replace(response, batches=tuple(batches[:most]))

    def _with_chunk(self, response: FetchSnapshotResponse) -> FetchSnapshotResponse:
        assert response.snapshot is not None
        snapshot = self.storage.now.snapshots[response.snapshot]
        return replace(response, data=snapshot.read(response.position, self.world.settings.fetch_snapshot_max_bytes))

    def _flush(self) -> None:
        if self._flush_under_way:
            return
        self._flush_under_way = True
        life, generation = self.life, self.quorum.log_generation
        batches, start = list(self.storage.now.batches), self.storage.now.start_offset
        self.world.later(self.world.sync_time(), lambda: self._flushed(life, generation, batches, start))

    def _flushed(self, life: int, generation: int, batches: list[Batch], start: int) -> None:
        if self.life != life:
            return
        self._flush_under_way = False
        if generation == self.quorum.log_generation:
            self.storage.sync(batches)
        end = batches[-1].next_offset if batches else start
        if self.storage.synced.end_offset < self.storage.now.end_offset or generation != self.quorum.log_generation:
            self._flush()  # what was truncated meanwhile may be all that the core was waiting for
        self.do(self.quorum.flushed(self.world.now, end, generation))

    def _install(self, life: int, id: OffsetAndEpoch) -> None:
        if self.life != life:
            return
        self._chunks.pop(id, None)
        if self.world.random.random() < 0.05:
            self.do(self.quorum.snapshot_failed(self.world.now))
            return
        snapshot = self._offered[id]
        self.world.checks.loads(self, id.offset, snapshot.digest)
        self.storage.restart_at(snapshot)
        self._flush_under_way = False
        self.applied, self.digest = max(id.offset, self.applied), snapshot.digest
        self.world.counts["snapshots loaded"] += 1
        self.world.note(f"n{self.id} loads snapshot {id.offset}-{id.epoch}")
        self.do(self.quorum.snapshot_installed(self.world.now, id, snapshot.kraft_version, snapshot.voters))


def control_batch(base_offset: int, epoch: int, records: tuple[ControlRecord, ...]) -> Batch:
    controls = tuple(
        (base_offset + i, record) for i, record in enumerate(records) if not isinstance(record, LeaderChangeRecord)
    )
    return Batch(base_offset, base_offset + len(records), epoch, repr(records).encode(), controls)


def describe(records: tuple[ControlRecord, ...]) -> str:
    return " and ".join(type(record).__name__.removesuffix("Record") for record in records)
