"""Random members of groups of every kind, on virtual time: what must hold, holds; and would be seen if it did not.

A failure is repeated by its seed: `Crowd(seed, kind)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.coordinator.group.at_random.crowd import Crowd, Kind

from ottla.coordinator.group.classic import sync
from ottla.coordinator.group.classic.group import ClassicGroup
from ottla.coordinator.group.classic.records import StoredGroup, group_record
from ottla.coordinator.group.consumer import heartbeat
from ottla.coordinator.group.consumer.groups import ConsumerGroups
from ottla.coordinator.group.consumer.members import Member
from ottla.coordinator.group.consumer.reconcile import Situation, reconcile
from ottla.coordinator.group.consumer.removal import Removal
from ottla.coordinator.group.migration import upgrade
from ottla.coordinator.group.migration.moves import Moves
from ottla.coordinator.timeline import Timeline
from ottla.model.errors import ErrorCode

LONG_MS = 300_000


def live(seed: int, kind: Kind) -> None:
    crowd = Crowd(seed, kind)
    crowd.live(LONG_MS)
    crowd.leave_in_peace()


@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("seed", range(3))
def test_any_members(seed: int, kind: Kind) -> None:
    live(seed, kind)


@pytest.mark.slow
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_more(seed: int, kind: Kind) -> None:
    live(seed, kind)


@pytest.mark.parametrize("policy", ["upgrade", "disabled"])
def test_a_group_that_may_not_move_back_serves_its_members_all_the_same(policy: str) -> None:
    for seed in range(2):
        crowd = Crowd(seed, Kind.CONSUMER, group_consumer_migration_policy=policy)
        crowd.live(LONG_MS)
        crowd.leave_in_peace()


# -- planted bugs

Plant = Callable[[pytest.MonkeyPatch], None]


def _partitions_are_given_while_others_have_them(patch: pytest.MonkeyPatch) -> None:
    def careless(member: Member, now: Situation) -> Member:
        return reconcile(member, now._replace(has_owner=lambda topic_id, partition: False))

    patch.setattr(heartbeat, "reconcile", careless)


def _members_need_not_say_what_they_have_given_up(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(heartbeat, "reconcile", lambda member, now: reconcile(member, now._replace(owned={})))


def _any_epoch_may_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ConsumerGroups, "check_commit", lambda self, *asked, **more: ErrorCode.none)


def _any_generation_may_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClassicGroup, "check_commit", lambda self, *asked, **more: ErrorCode.none)


def _what_failed_is_not_undone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timeline, "undo", lambda self, begin: None)


def _nobody_is_missed(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Removal, "renew_session", lambda self, group, member: None)


def _who_could_not_be_removed_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Removal, "restore", lambda self, group_id, member_ids, error: None)


def _assignments_are_not_stored(patch: pytest.MonkeyPatch) -> None:
    def forgetful(group_id: str, group: StoredGroup) -> Any:
        return group_record(group_id, group._replace(members=[one._replace(assignment=b"") for one in group.members]))

    patch.setattr(sync, "group_record", forgetful)


def _an_upgrade_forgets_who_has_what(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(upgrade._Claims, "granted", lambda self, places: {})


def _a_downgrade_leaves_partitions_behind(patch: pytest.MonkeyPatch) -> None:
    good = Moves._downgrade

    def quietly(self: Moves, *asked: Any, rebalances: bool) -> Any:
        return good(self, *asked, rebalances=False)

    patch.setattr(Moves, "_downgrade", quietly)


@pytest.mark.parametrize(
    ("plant", "kind", "first"),
    [
        (_partitions_are_given_while_others_have_them, Kind.CONSUMER, 0),
        (_members_need_not_say_what_they_have_given_up, Kind.CONSUMER, 0),
        (_any_epoch_may_commit, Kind.CONSUMER, 0),
        (_any_generation_may_commit, Kind.EAGER, 0),
        (_what_failed_is_not_undone, Kind.CONSUMER, 0),
        (_nobody_is_missed, Kind.CONSUMER, 0),
        (_who_could_not_be_removed_is_forgotten, Kind.CONSUMER, 20),  # seldom the last thing that happens
        (_assignments_are_not_stored, Kind.COOPERATIVE, 0),
        (_an_upgrade_forgets_who_has_what, Kind.MIXED_COOPERATIVE, 0),
        (_a_downgrade_leaves_partitions_behind, Kind.MIXED_EAGER, 25),
    ],
)
def test_a_planted_bug_is_found(plant: Plant, kind: Kind, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)

    for seed in range(first, first + 60):
        try:
            live(seed, kind)
        except (AssertionError, KeyError):  # a group that contradicts itself breaks in many ways
            return
    raise AssertionError("nobody noticed")
