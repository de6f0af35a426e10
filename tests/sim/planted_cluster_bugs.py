"""Mistakes in the production code, a line or two each, that the checks of a simulated cluster must find."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Producers
from ottla.metadata import feed
from ottla.metadata.controller import alter_partition
from ottla.metadata.controller.partition_change import PartitionChange
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.raft.metadata_log import MetadataLog
from ottla.replica import fetcher
from ottla.replica.follower_state import FollowerState
from ottla.replica.leading import Leading
from ottla.replica.partition import Partition


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
    patch.setattr(PartitionChanges, "after_crash", lambda self, broker_id: [])


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
