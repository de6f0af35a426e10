"""Subscriptions by pattern: when a group's patterns are matched against the topics, and what follows from it.

As in Kafka patterns are matched apart from the heartbeat that brings them: the result is records of its own, and a new
epoch if it is another. All patterns of a group are matched together, by what the member may see that caused it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from enum import Enum, auto
from functools import partial
from typing import Final

from ottla.coordinator.group.consumer.core import MAX_INT, Core
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.group.consumer.matching import check_pattern, is_quick, match
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.records import (
    PATTERN,
    GroupEpoch,
    Matches,
    deletion,
    group_record,
    pattern_record,
)
from ottla.coordinator.group.consumer.requests import HeartbeatRequest
from ottla.coordinator.group.events import Cause, EpochBumped
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.model.errors import KafkaError

_log = logging.getLogger("ottla.coordinator")
_PAUSE_MS: Final = 10_000
"""Patterns of a group are not matched again before this, whatever happens."""
_NEVER: Final = Matches()


class Change(Enum):
    """What a heartbeat did to a member's pattern."""

    NONE = auto()
    PENDING = auto()  # it has another, and it is not known yet what that matches
    KNOWN = auto()  # it has another, or none any more; what the group subscribes to follows at once


class Patterns:
    def __init__(self, core: Core) -> None:
        self._core = core
        self.topics_came_at = -1
        """The offset of the metadata in which topics were created last."""

    def update(
        self, group: ConsumerGroup, old: Member, new: Member, request: HeartbeatRequest, records: list[StoredRecord]
    ) -> Change:
        users = group.counts.patterns
        change, is_new = Change.NONE, False
        if old.pattern != new.pattern:
            change = Change.PENDING
            if old.pattern and users.get(old.pattern) == 1:
                records.append(deletion(PATTERN, group.id, old.pattern))
            if new.pattern:
                if new.pattern not in users:
                    check_pattern(new.pattern)
                    is_new = True
                elif new.pattern in group.patterns:
                    change = Change.KNOWN
            elif old.pattern:
                change = Change.KNOWN
        if is_new or users:
            self._match_if_due(group, old, new, request.may_see, is_new)
        return change

    def _match_if_due(
        self, group: ConsumerGroup, old: Member, new: Member, may_see: Callable[[str], bool], is_new: bool
    ) -> None:
        name = ("match patterns", group.id)
        last = next((matches for _, matches in group.patterns.items()), _NEVER)
        now_ms = self._core.now_ms()
        pauses = _is_within(_PAUSE_MS, last.at_ms, now_ms) or _is_within(_PAUSE_MS, group.not_matched_ms, now_ms)
        if pauses or self._core.background.is_running(name):
            return
        patterns = _patterns_after(group, old, new)
        is_due = (
            is_new
            or len(patterns) != len(group.patterns)
            or (last is not _NEVER and last.metadata_offset < self.topics_came_at)
            or not _is_within(self._core.limits.pattern_refresh_ms, last.at_ms, now_ms)
        )
        if not is_due or not patterns:
            return
        image = self._core.image()
        finish = partial(self._matched, group.id, may_see, image.offset, now_ms)
        if is_quick(patterns, len(image.topic_ids)):
            self._core.timers.set(name, 0, lambda: finish(match(patterns, image.topic_ids)))
        else:
            self._core.background.start(
                name, match, (patterns, list(image.topic_ids)), finish, partial(self._failed, group.id, now_ms)
            )

    def _failed(self, group_id: str, at_ms: int, error: BaseException) -> Outcome[None]:
        """Also when what they match could not be stored. No record tells of it, so the group itself remembers."""
        _log.error("group %s: its patterns could not be matched: %s", group_id, error)
        group = self._core.groups.get(group_id)
        if group is not None:
            group.not_matched_ms = at_ms
        return Outcome(None)

    def _not_stored(self, group_id: str, at_ms: int, error: KafkaError) -> None:
        self._failed(group_id, at_ms, error)

    def _matched(
        self,
        group_id: str,
        may_see: Callable[[str], bool],
        metadata_offset: int,
        at_ms: int,
        found: Mapping[str, Collection[str]],
    ) -> Outcome[None]:
        group = self._core.groups.get(group_id)
        if group is None:
            return Outcome(None)
        records: list[StoredRecord] = []
        less: list[Iterable[str]] = []
        more: list[Iterable[str]] = []
        for pattern, names in found.items():
            if pattern not in group.counts.patterns:
                continue
            matches = Matches(frozenset(name for name in names if may_see(name)), metadata_offset, at_ms)
            before = (group.patterns.get(pattern) or _NEVER).topics
            if before != matches.topics:
                less.append(before)
                more.append(matches.topics)
            records.append(pattern_record(group_id, pattern, matches))
        metadata_hash = self._core.hash_of(group, group.counts.topics_with(less, more))
        if more or metadata_hash != group.latest.now.metadata_hash:
            epoch = group.epoch + 1
            records.append(group_record(group_id, GroupEpoch(epoch, metadata_hash)))
            group.looked_at_metadata(self._core.now_ms() + MAX_INT, epoch)
            self._core.note(EpochBumped, group, epoch, Cause.PARTITIONS_CHANGED, (), "patterns match other topics")
        return Outcome(None, records, partial(self._not_stored, group_id, at_ms))


def _is_within(span_ms: int, since_ms: int, now_ms: int) -> bool:
    """Not if it seems to come from the future: the clock has gone back since."""
    return since_ms <= now_ms <= since_ms + span_ms


def _patterns_after(group: ConsumerGroup, old: Member, new: Member) -> list[str]:
    users = dict(group.counts.patterns)
    if old.pattern and old.pattern in users:
        users[old.pattern] -= 1
    if new.pattern:
        users[new.pattern] = users.get(new.pattern, 0) + 1
    return [pattern for pattern, count in users.items() if count]
