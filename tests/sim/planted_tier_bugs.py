"""Mistakes in what a cluster does with its remote tier."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import pytest
from tests.sim.planted_cluster_bugs import Plant

from ottla.broker import broker_part
from ottla.broker.tier import backlog, beginning, deleted_topics, leader_work, reads, settings
from ottla.broker.tier.metadata_topic import TierMetadata
from ottla.log import retention
from ottla.tier import expiry, upload
from ottla.tier.manifest import Manifest
from ottla.tier.remote_segment import SegmentState

__all__ = ["Plant"]
_WORKING: ContextVar[Any] = ContextVar("whose copy it is")


def say_that_it_is_there_before_it_is(patch: pytest.MonkeyPatch) -> None:
    """The metadata topic is told of a copy before the objects are put: a crash in between leaves nothing."""
    put = upload.upload

    async def hasty(store: Any, segment: Any, files: Any, *rest: Any) -> bytes:
        work = _WORKING.get()
        await work._metadata.publish(work._update(segment, SegmentState.COPY_FINISHED))
        return await put(store, segment, files, *rest)

    copy = leader_work.LeaderWork._copy

    async def copying(self: Any, *args: Any) -> None:
        _WORKING.set(self)
        await copy(self, *args)

    patch.setattr(leader_work.LeaderWork, "_copy", copying)
    patch.setattr(leader_work, "upload", hasty)


def delete_from_disk_what_is_not_in_the_tier(patch: pytest.MonkeyPatch) -> None:
    look = retention._look

    def generous(log: Any, high_watermark: int, now_ms: int) -> tuple[int, bool]:
        known, log.tiered_to = log.tiered_to, log.end_offset
        try:
            return look(log, high_watermark, now_ms)
        finally:
            log.tiered_to = known

    patch.setattr(retention, "_look", generous)


def pass_over_a_segment_now_and_then(patch: pytest.MonkeyPatch) -> None:
    """When several wait: the first of them is taken for copied."""
    still = backlog.still_to_copy

    def some(partition: Any) -> list[Any]:
        found = still(partition)
        return found[1:] if len(found) > 2 else found

    patch.setattr(leader_work, "still_to_copy", some)


def delete_what_was_begun_before_it_is_copied_anew(patch: pytest.MonkeyPatch) -> None:
    """As it was: the record that it is finished may come in between, and what it tells of is deleted."""

    def hasty(self: Any, log: Any) -> list[Any]:
        begun = self.remote.listed((SegmentState.COPY_STARTED, SegmentState.DELETE_STARTED))
        return [each for each in begun if each.id not in self._being_copied]

    patch.setattr(leader_work.LeaderWork, "_left_over", hasty)


def believe_whatever_the_store_acknowledges(patch: pytest.MonkeyPatch) -> None:
    async def credulous(*_: Any) -> None:
        return None

    patch.setattr(upload, "_confirm", credulous)


def believe_whatever_the_store_gives(patch: pytest.MonkeyPatch) -> None:
    """No checksum is compared."""
    patch.setattr(Manifest, "check", lambda *_: None)


def expire_one_segment_too_many(patch: pytest.MonkeyPatch) -> None:
    expired = expiry.expired

    def generous(segments: Any, *args: Any) -> Any:
        found = expired(segments, *args)
        more = [each for each in segments if each.start_offset == found.start_offset]
        if not found.segments or not more:
            return found
        return expiry.Expired([*found.segments, *more], more[-1].end_offset + 1)

    patch.setattr(leader_work, "expired", generous)


def delete_from_the_store_what_is_still_to_be_read(patch: pytest.MonkeyPatch) -> None:
    """What expires goes by age, and the log's start stays."""
    patch.setattr(leader_work.LeaderWork, "_advance_start", lambda *_: None)
    for module in (leader_work, reads):
        patch.setattr(module, "begin_where_the_tier_does", lambda *_: None)


def forget_what_a_deleted_topic_has_there(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(deleted_topics.DeletedTopics, "due", lambda self: [])


def leave_what_was_begun(patch: pytest.MonkeyPatch) -> None:
    """Copies that were not finished are never cleared away."""
    left_over = leader_work.LeaderWork._left_over

    def lazy(self: Any, log: Any) -> list[Any]:
        return [each for each in left_over(self, log) if each.state is not SegmentState.COPY_STARTED]

    patch.setattr(leader_work.LeaderWork, "_left_over", lazy)


def believe_to_know_the_tier_at_once(patch: pytest.MonkeyPatch) -> None:
    """A leader works before it has read what those before it have done."""
    patch.setattr(TierMetadata, "knows", lambda self, key: bool(self.partitions))
    for module in (beginning, reads):
        patch.setattr(module, "is_told_of", lambda *_: True)


def lose_events_with_the_power(patch: pytest.MonkeyPatch) -> None:
    """As it was: the metadata topic is not synced, but what it tells of is gone from the disks."""
    made = settings.metadata_topic

    def unsynced(config: Any) -> Any:
        topic = made(config)
        return replace(topic, configs=tuple(each for each in topic.configs if each[0] != "flush.messages"))

    patch.setattr(broker_part, "metadata_topic", unsynced)
