"""Mistakes in the production code, a line or two each, that the checks of a simulated cluster must find."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest

from ottla.coordinator import shard
from ottla.coordinator.group.consumer import reconcile
from ottla.coordinator.group.offsets import Offsets
from ottla.coordinator.shard import Shard
from ottla.log import fetched_batches
from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Producers
from ottla.metadata import feed, snapshot
from ottla.metadata.controller import alter_partition, partition_change
from ottla.metadata.controller.partition_change import PartitionChange
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.model.errors import ErrorCode
from ottla.raft import elections, quorum_state
from ottla.raft.metadata_log import MetadataLog
from ottla.record.batch import parse_header
from ottla.replica import fetcher, following
from ottla.replica.follower_state import FollowerState
from ottla.replica.isr import Isr
from ottla.replica.leading import Leading
from ottla.replica.partition import Partition

Plant = Callable[[pytest.MonkeyPatch], None]


def commit_without_the_followers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Leading, "high_watermark", lambda self, log_end, now: log_end)


def commit_with_one_follower_of_all(patch: pytest.MonkeyPatch) -> None:
    def fastest(self: Leading, log_end: int, now: float) -> int:
        in_sync = [each.end_offset for each in self.followers.values() if each.broker_id in self.isr.maximal]
        return min(log_end, max(in_sync, default=log_end))

    patch.setattr(Leading, "high_watermark", fastest)


def never_cut_what_the_leader_does_not_have(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetcher, "cut_for", lambda log, diverging: log.end_offset)


def take_a_follower_in_too_early(patch: pytest.MonkeyPatch) -> None:
    expansion = Leading.expansion

    def early(self: Leading, follower: FollowerState, high_watermark: int, *args: int) -> Any:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(self, "epoch_start_offset", -1)
            return expansion(self, follower, -1, *args)

    patch.setattr(Leading, "expansion", early)


def lead_on_when_another_does(patch: pytest.MonkeyPatch) -> None:
    lead_or_follow = Partition.lead_or_follow

    def stubborn(self: Partition, leadership: Any) -> None:
        if not (self.is_leader and leadership.leader != self._node_id and leadership.leader >= 0):
            lead_or_follow(self, leadership)

    patch.setattr(Partition, "lead_or_follow", stubborn)


def believe_that_what_is_sent_is_there(patch: pytest.MonkeyPatch) -> None:
    """A follower counts for what it is about to get, not for what it has."""
    fetched = FollowerState.fetched

    def hopeful(self: FollowerState, offset: int, start: int, now: float, leader_end: int, broker_epoch: int) -> None:
        fetched(self, leader_end, start, now, leader_end, broker_epoch)

    patch.setattr(FollowerState, "fetched", hopeful)


def skip_metadata_now_and_then(patch: pytest.MonkeyPatch) -> None:
    publish = feed.MetadataFeed._publish

    async def forgetful(self: feed.MetadataFeed, delta: Any, image: Any) -> None:
        if image.offset % 5 == 3 and self._publishers:
            self.image = image
        else:
            await publish(self, delta, image)

    patch.setattr(feed.MetadataFeed, "_publish", forgetful)


def elect_in_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    from ottla.metadata import partition_records

    merged = partition_records.merged

    def same_epoch(before: Any, record: Any) -> Any:
        return replace(merged(before, record), leader_epoch=before.leader_epoch)

    patch.setattr(partition_records, "merged", same_epoch)


def elect_whoever_is_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PartitionChange, "_can_lead", lambda self, broker_id: self.acceptable(broker_id))


def trust_who_ended_badly(patch: pytest.MonkeyPatch) -> None:
    """A broker that lost its power keeps its place among the in-sync and the eligible."""
    patch.setattr(PartitionChanges, "after_crash", lambda self, broker_id, doubted=(): [])


def elect_who_may_be_dead(patch: pytest.MonkeyPatch) -> None:
    """Whoever is found dead is fenced at once, although who leads then may have died, and lost its power, before."""
    changes = PartitionChanges._changes

    def careless(self: PartitionChanges, keys: Any, *args: Any, **values: Any) -> Any:
        return changes(self, keys, *args, **(values | {"doubted": ()}))

    patch.setattr(PartitionChanges, "_changes", careless)


def take_anyone_into_the_isr(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(alter_partition, "_ineligible", lambda isr, image: None)
    patch.setattr(Leading, "_is_eligible", lambda self, follower: True)
    patch.setattr(Leading, "is_stale", lambda self, broker_id, broker_epoch: False)


def forget_to_sync_metadata(patch: pytest.MonkeyPatch) -> None:
    async def flush(self: MetadataLog) -> int:
        return self.log.end_offset

    patch.setattr(MetadataLog, "flush", flush)


def show_what_is_not_committed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "last_stable_offset", property(lambda self: self.log.end_offset))
    patch.setattr(Partition, "high_watermark", property(lambda self: self.log.end_offset))
    fetch = Partition.fetch

    def further(self: Partition, *args: Any, **options: Any) -> Any:
        committed, self.committed.value = self.committed.value, self.log.end_offset
        try:
            return fetch(self, *args, **options)
        finally:
            self.committed.value = committed

    patch.setattr(Partition, "fetch", further)


def followers_forget_producers(patch: pytest.MonkeyPatch) -> None:
    append = PartitionLog.append_as_is

    def forgetful(self: PartitionLog, *args: Any) -> None:
        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(Producers, "note", lambda *_: None)
            append(self, *args)

    patch.setattr(PartitionLog, "append_as_is", forgetful)


def accept_sequences_twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Producers, "check", lambda self, header: None)


# -- the quorum


def vote_for_everybody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "_may_grant", lambda *_: True)


def forget_whom_it_voted_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(quorum_state, "store", lambda disk, folder, state: None)


def vote_for_those_who_are_behind(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(elections, "_is_behind", lambda log, other: False)


def leave_the_last_partition_out_of_snapshots(patch: pytest.MonkeyPatch) -> None:
    records = snapshot.image_records

    def fewer(image: Any) -> Any:
        kept = list(records(image))
        last = max((at for at, record in enumerate(kept) if isinstance(record, PartitionRecord)), default=len(kept))
        yield from (record for at, record in enumerate(kept) if at != last)

    patch.setattr(snapshot, "image_records", fewer)


# -- replicas


def count_on_an_isr_that_is_only_proposed(patch: pytest.MonkeyPatch) -> None:
    """Who is to leave is no longer waited for, although the controller may still elect it."""
    propose = Isr.propose

    def hasty(self: Isr, change: Any) -> None:
        propose(self, change)
        self.maximal = tuple(member.broker_id for member in change.isr)

    patch.setattr(Isr, "propose", hasty)


def cut_one_record_too_late(patch: pytest.MonkeyPatch) -> None:
    cut_for = following.cut_for
    patch.setattr(fetcher, "cut_for", lambda log, diverging: min(cut_for(log, diverging) + 1, log.end_offset))


def take_rotten_records_over(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fetched_batches, "computed_crc", lambda data: parse_header(data).crc)


def believe_all_that_is_in_the_log_after_a_start(patch: pytest.MonkeyPatch) -> None:
    init = Partition.__init__

    def credulous(self: Partition, env: Any, node: Any, key: Any, topic: Any, log: Any, mark: int, *args: Any) -> None:
        init(self, env, node, key, topic, log, log.end_offset, *args)

    patch.setattr(Partition, "__init__", credulous)


def let_moves_end_too_early(patch: pytest.MonkeyPatch) -> None:
    completed = partition_change.completed_reassignment
    patch.setattr(
        partition_change,
        "completed_reassignment",
        lambda replicas, isr, adding, removing: (
            completed(replicas, tuple(dict.fromkeys((*isr, *adding))), (), removing) if adding or removing else None
        ),
    )


# -- coordinators


def answer_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    append = Shard._append_batch

    def hasty(self: Shard[Any], batch: bytes) -> Any:
        error = append(self, batch)
        self.committed(self.partition.log.end_offset)
        return error

    patch.setattr(Shard, "_append_batch", hasty)


def coordinate_without_loading(patch: pytest.MonkeyPatch) -> None:
    async def nothing(env: Any, log: PartitionLog, *_: Any) -> int:
        return log.end_offset

    patch.setattr(shard, "replay_log", nothing)


def let_strangers_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Offsets, "_check", lambda self, member, version: ErrorCode.none)


def give_what_others_still_have(patch: pytest.MonkeyPatch) -> None:
    take_free = reconcile._take_free
    patch.setattr(
        reconcile,
        "_take_free",
        lambda member, keep, now: take_free(member, keep, now._replace(has_owner=lambda topic_id, partition: False)),
    )


def replay_some_committed_offsets_only(patch: pytest.MonkeyPatch) -> None:
    replay = Offsets.replay

    def forgetful(self: Offsets, record: Any, producer_id: int) -> None:
        if crc32(record.key) % 3:
            replay(self, record, producer_id)

    patch.setattr(Offsets, "replay", forgetful)
