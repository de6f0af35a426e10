"""Fetch and FetchSnapshot of the metadata log: the leader's side and the follower's."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.raft.effects import Append, DropDownload, InstallSnapshot, Reply, StoreSnapshotChunk, Truncate
from ottla.raft.elections import is_of_cluster, on_any_response, refusal_by_leader
from ottla.raft.leadership import Leadership, ParkedFetch
from ottla.raft.log_view import BOOTSTRAP_SNAPSHOT, Batch, Fit, OffsetAndEpoch
from ottla.raft.messages import FetchRequest, FetchResponse, FetchSnapshotRequest, FetchSnapshotResponse
from ottla.raft.replica import InconsistentQuorum, Replica
from ottla.raft.roles import Download, Follower
from ottla.raft.voters import VoterSet

# -- the leader's side


def on_fetch(replica: Replica, now: int, token: object, request: FetchRequest) -> None:
    if not is_of_cluster(replica, request.cluster_id):
        replica.out.append(Reply(token, FetchResponse(error=ErrorCode.inconsistent_cluster_id)))
        return
    last_fetched = request.last_fetched_epoch
    if request.max_wait_ms < 0 or request.offset < 0 or not 0 <= last_fetched <= request.epoch:
        refused = FetchResponse(replica.leader, partition_error=ErrorCode.invalid_request)
        replica.out.append(Reply(token, refused))
        return
    answer = _answer(replica, now, request)
    if isinstance(replica.state, Leadership) and _may_wait(replica, request, answer):
        replica.state.parked[token] = ParkedFetch(request, now + request.max_wait_ms, answer)
    else:
        replica.out.append(Reply(token, answer))


def _may_wait(replica: Replica, request: FetchRequest, answer: FetchResponse) -> bool:
    """There is nothing to tell: no error, no records, nothing to truncate, no news of the high watermark."""
    return (
        answer.partition_error is ErrorCode.none
        and request.offset >= replica.log.end_offset
        and request.max_wait_ms > 0
        and answer.diverging is None
        and answer.snapshot is None
        and request.high_watermark >= answer.high_watermark
    )


def _answer(replica: Replica, now: int, request: FetchRequest) -> FetchResponse:
    refused = refusal_by_leader(replica, request.epoch)
    if refused is None and (request.replica.id == replica.me.id or _is_taken(replica, request, now)):
        refused = ErrorCode.invalid_request  # another node has this one's id
    if refused is not None:
        return FetchResponse(replica.leader, partition_error=refused)
    leadership, log = replica.state, replica.log
    assert isinstance(leadership, Leadership)
    latest = log.latest_snapshot
    if request.offset == 0 and latest is not None and latest != BOOTSTRAP_SNAPSHOT:
        fit, where = Fit.SNAPSHOT, latest  # quicker than all the records that it stands for
    else:
        fit, where = log.fit(request.offset, request.last_fetched_epoch)
    if fit is Fit.VALID and leadership.fetched(request.replica, request.offset, log.end_offset, now):
        note_progress(replica, now)
    return FetchResponse(
        replica.leader,
        replica.high_watermark,
        log.start_offset,
        diverging=where if fit is Fit.DIVERGING else None,
        snapshot=where if fit is Fit.SNAPSHOT else None,
        read_from=request.offset if fit is Fit.VALID and request.offset < log.end_offset else None,
        max_bytes=request.max_bytes,
    )


def _is_taken(replica: Replica, request: FetchRequest, now: int) -> bool:
    return isinstance(replica.state, Leadership) and replica.state.is_taken(request.replica, now)


def note_progress(replica: Replica, now: int) -> None:
    """A voter's log has grown. If that commits something, everyone who waits is told."""
    if replica.advance_as_leader():
        answer_parked(replica, now, replica.log.end_offset)


def answer_parked(replica: Replica, now: int, up_to: int) -> None:
    """Fetches that wait at or below this offset; each is looked at anew, as its answer may be another by now."""
    assert isinstance(replica.state, Leadership)
    due = [token for token, fetch in replica.state.parked.items() if fetch.request.offset <= up_to]
    for token in due:
        if isinstance(replica.state, Leadership):
            parked = replica.state.parked.pop(token, None)
            if parked is not None:
                replica.out.append(Reply(token, _answer(replica, now, parked.request)))


def expire_parked(replica: Replica, now: int) -> None:
    assert isinstance(replica.state, Leadership)
    for token, parked in list(replica.state.parked.items()):
        if now >= parked.expires_at:
            del replica.state.parked[token]
            replica.out.append(Reply(token, parked.answer))


def on_fetch_snapshot(
    replica: Replica, now: int, token: object, request: FetchSnapshotRequest, size: int | None
) -> None:
    """`size` is that of the snapshot on this node's disk, None if there is none."""
    if not is_of_cluster(replica, request.cluster_id):
        replica.out.append(Reply(token, FetchSnapshotResponse(error=ErrorCode.inconsistent_cluster_id)))
        return
    refused = refusal_by_leader(replica, request.epoch)
    if refused is None and (size is None or request.snapshot == BOOTSTRAP_SNAPSHOT):
        refused = ErrorCode.snapshot_not_found
    if refused is None and size is not None and not 0 <= request.position < size:
        refused = ErrorCode.position_out_of_range
    if refused is not None or size is None:
        replica.out.append(
            Reply(token, FetchSnapshotResponse(replica.leader, partition_error=refused or ErrorCode.none))
        )
        return
    assert isinstance(replica.state, Leadership)
    if request.replica.id != replica.me.id:
        replica.state.heard_of(request.replica, now)
    answer = FetchSnapshotResponse(replica.leader, request.snapshot, size, request.position, request.max_bytes)
    replica.out.append(Reply(token, answer))


# -- the follower's side


def on_fetch_response(replica: Replica, now: int, response: FetchResponse) -> bool:
    if response.error is not ErrorCode.none:
        return False
    handled = on_any_response(replica, now, response.partition_error, response.leader)
    if handled is not None:
        return handled
    if not isinstance(replica.state, Follower) or response.partition_error is not ErrorCode.none:
        return False
    replica.leader_high_watermark = response.high_watermark
    if response.diverging is not None:
        _truncate(replica, response.diverging)
    elif response.snapshot is not None:
        if response.snapshot.offset < 0 or response.snapshot.epoch < 0:
            return False
        download = replica.state.download
        if response.snapshot not in replica.log.snapshots and (
            download is None or download.snapshot != response.snapshot
        ):
            drop_download(replica)
            replica.state.download = Download(response.snapshot)
    else:
        _append(replica, response.batches)
        if response.high_watermark >= 0:
            high_watermark = min(response.high_watermark, replica.log.end_offset)
            if high_watermark > replica.high_watermark:
                replica.advance(high_watermark)
    _leader_answered(replica, now)
    return True


def _truncate(replica: Replica, diverging: OffsetAndEpoch) -> None:
    end = replica.log.common_end(diverging)
    if diverging.offset < replica.committed or end < replica.committed:
        raise InconsistentQuorum(
            f"Leader {replica.leader_id} of epoch {replica.epoch} wants the metadata log to end at {end}, but "
            f"everything below {replica.committed} is committed: a majority of the voters lost committed "
            "records. Nothing was changed here; restore the voters that lost their logs, or start them with empty "
            "directories as new voters"
        )
    replica.log.truncate(end)
    replica.out.append(Truncate(end))


def _append(replica: Replica, batches: tuple[Batch, ...]) -> None:
    """What follows the end of this log; the batches before that are here already."""
    fitting: list[Batch] = []
    for batch in batches:
        if batch.base_offset == replica.log.end_offset and replica.log.last_epoch <= batch.epoch <= replica.epoch:
            replica.log.append(batch.next_offset, batch.epoch, batch.controls)
            fitting.append(batch)
        elif batch.next_offset > replica.log.end_offset:
            break
    if fitting:
        replica.out.append(Append(tuple(fitting)))


def _leader_answered(replica: Replica, now: int) -> None:
    if isinstance(replica.state, Follower):
        replica.state.fetch_timeout_at = now + replica.settings.fetch_timeout_ms
        replica.state.has_fetched = True


def on_fetch_snapshot_response(replica: Replica, now: int, response: FetchSnapshotResponse) -> bool:
    if response.error is not ErrorCode.none:
        return False
    handled = on_any_response(replica, now, response.partition_error, response.leader)
    if handled is not None:
        return handled
    if not isinstance(replica.state, Follower) or replica.state.download is None:
        return False
    download = replica.state.download
    if response.partition_error is ErrorCode.snapshot_not_found or (
        response.partition_error is ErrorCode.none and response.snapshot is None
    ):
        drop_download(replica)  # the leader has a newer one by now: the next Fetch will name it
        _leader_answered(replica, now)
        return True
    if response.partition_error is not ErrorCode.none:
        return False
    if response.snapshot != download.snapshot or response.position != download.position or not len(response.data):
        drop_download(replica)
        return False
    replica.out.append(StoreSnapshotChunk(download.snapshot, download.position, response.data))
    download.position += len(response.data)
    if download.position >= response.size:
        replica.state.download, replica.installing = None, download.snapshot
        replica.out.append(InstallSnapshot(download.snapshot))
    _leader_answered(replica, now)
    return True


def drop_download(replica: Replica) -> None:
    if isinstance(replica.state, Follower) and replica.state.download is not None:
        replica.out.append(DropDownload(replica.state.download.snapshot))
        replica.state.download = None


def on_snapshot_installed(
    replica: Replica, snapshot: OffsetAndEpoch, kraft_version: int, voters: VoterSet | None
) -> None:
    """The log on disk is empty now and begins behind the snapshot, whatever the role has become meanwhile."""
    replica.installing = None
    replica.log.restart_at(snapshot, kraft_version, voters)
    if snapshot.offset > replica.high_watermark:
        replica.advance(snapshot.offset)
