"""Simulated clusters that clean and give up what is old, change their voters, and are upgraded node by node."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from tests.sim import planted_upkeep_bugs as bugs
from tests.sim.test_cluster_oracle import FIRST, KEY, Told

from ottla.broker.software import THIS
from ottla.metadata.image import METADATA_VERSION
from ottla.sim.cluster.cleaned import cleaned_too_much
from ottla.sim.cluster.cleanup import Cleanup
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.plan import COMBINED, Plan, Shape
from ottla.sim.cluster.releases import RELEASES, Release
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Variation
from ottla.sim.cluster.verdict import check_logs
from ottla.sim.log_files import PartitionId, StoredLog, StoredRecord


def ran(plan: Plan, *workloads: str, seeds: range = range(3)) -> Counter[str]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        ended = run(seed, Variation(rage_s=12.0, workloads=("records", *workloads)), plan=plan)
        assert not ended.violations, f"{ended.timeline}\n{ended.report()}"
        seen += ended.counts
    return seen


def a_plan(shape: Shape = COMBINED, release: Release | None = None) -> Plan:
    drawn = Plan.drawn(Random(5))
    return Plan(shape, drawn.settings, drawn.topics, release or Release(THIS))


def test_tables_are_cleaned_on_all_replicas() -> None:
    assert ran(a_plan(), "tables")["records cleaned away"] > 100


def test_windows_give_up_what_is_old() -> None:
    assert ran(a_plan(), "windows")["records that retention took"] > 100


def test_controllers_become_voters_and_cease_to_be() -> None:
    seen = ran(a_plan(Shape((1, 2, 3), (101, 102, 103, 104), (101, 102, 103))), "voters", seeds=range(2, 4))

    assert seen["add voter: none"] > 0
    assert seen["remove voter: none"] > 0


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: f"metadata {release.features[METADATA_VERSION]}")
def test_a_cluster_is_upgraded_node_by_node(release: Release) -> None:
    seen = ran(a_plan(release=release), "upgrade", seeds=range(2))

    assert seen["software replaced"] == 6
    assert seen["upgrade of features: none"] == 2


WITHIN = 40
"""Worlds, at most, until a planted mistake shows."""
LATER = (pytest.mark.slow, pytest.mark.timeout(900))
MISTAKES = [
    pytest.param(bugs.give_up_one_segment_too_many, "windows", None),
    pytest.param(bugs.count_one_second_as_three, "windows", None),
    pytest.param(bugs.grant_what_not_all_support, "upgrade", RELEASES[0]),
    pytest.param(bugs.throw_swaps_away, "tables", None, marks=LATER),
    pytest.param(bugs.clean_what_is_not_committed, "tables", None, marks=LATER),
    pytest.param(bugs.give_up_what_is_not_committed, "windows", None, marks=LATER),
]


@pytest.mark.parametrize(("plant", "workload", "release"), MISTAKES)
def test_a_planted_bug_is_found(
    plant: bugs.Plant, workload: str, release: Release | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    storm = Variation(rage_s=20.0, workloads=("records", workload))
    plan = a_plan(release=release) if release is not None else None
    assert any(run(seed, storm, plan=plan).violations for seed in range(WITHIN))


class TestWhatMayBeGone:
    """By the oracle, of a topic that is told to give something up."""

    @pytest.mark.parametrize(
        ("cleanup", "size", "is_right"),
        [
            (Cleanup(), 0, False),
            (Cleanup(retention_ms=1000), 0, True),
            (Cleanup(retention_ms=5000), 0, False),
            (Cleanup(retention_bytes=100), 100, True),
            (Cleanup(retention_bytes=100), 99, False),
        ],
    )
    def test_is_what_is_too_old_or_too_much(self, cleanup: Cleanup, size: int, is_right: bool) -> None:
        told = Told()
        told.oracle.partitions[KEY].cleanup = cleanup
        told.oracle.latest_ms = 7001
        told.oracle.commits(KEY, 0, (b"a",), "c", keys=(b"k",), timestamp=6000)
        told.oracle.gives_up(KEY, 1, 1, size)

        assert (told.oracle.violations == []) == is_right

    @pytest.mark.parametrize(
        ("left", "is_right"),
        [({0: b"a", 1: b"b"}, True), ({1: b"b"}, True), ({0: b"a"}, False), ({}, False)],
    )
    def test_is_what_a_later_value_of_its_key_has_replaced(self, left: dict[int, bytes], is_right: bool) -> None:
        oracle = compacted({0: b"a", 1: b"b"})
        check_logs(oracle, {KEY: {node: stored(left, 2) for node in (1, 2, 3)}})

        assert (oracle.violations == []) == is_right

    def test_is_no_value_whose_replacement_was_never_committed(self) -> None:
        oracle = compacted({0: b"a"})
        check_logs(oracle, {KEY: {1: stored({0: b"a"}, 2), 2: stored({0: b"a"}, 2), 3: stored({}, 2)}})

        assert "is lost at node 3, and nothing has replaced it" in oracle.violations[0]

    @pytest.mark.parametrize(
        ("left", "high_watermark", "is_right"),
        [
            pytest.param({0: b"a"}, 1, True, id="a leader that is cut off lacks what another has committed"),
            pytest.param(
                {2: b"b"}, 1, True, id="a leader cleaned more before it crashed than it knows to be committed"
            ),
            pytest.param({}, 1, False, id="nothing is left"),
            pytest.param({1: b"x"}, 1, False, id="what nobody committed has replaced it"),
            pytest.param({2: b"x"}, 1, False, id="and lies where another leader has committed something else"),
            pytest.param({0: b"a"}, 3, False, id="only an earlier one is left"),
        ],
    )
    def test_is_at_a_leader_what_something_committed_has_replaced(
        self, left: dict[int, bytes], high_watermark: int, is_right: bool
    ) -> None:
        story = compacted({0: b"a", 2: b"b"}).partitions[KEY]

        assert (list(cleaned_too_much(story, stored(left, 3), 0, high_watermark)) == []) == is_right

    @pytest.mark.parametrize(
        ("keeps_deletions", "end", "is_right"), [(False, 3, True), (False, 2, False), (True, 3, False)]
    )
    def test_is_at_a_leader_a_deletion_that_it_had(self, keeps_deletions: bool, end: int, is_right: bool) -> None:
        story = compacted({0: b"a", 2: b""}).partitions[KEY]
        story.cleanup = Cleanup(compact=True, keeps_deletions=keeps_deletions)

        assert (list(cleaned_too_much(story, stored({}, end), 0, 1)) == []) == is_right

    def test_is_at_a_leader_what_was_replaced_by_something_lost_and_excused(self) -> None:
        story = compacted({0: b"a", 2: b"b"}).partitions[KEY]
        story.facts[2].is_excused = True

        assert list(cleaned_too_much(story, stored({}, 3), 0, 3)) == [(b"k", 0)]
        story.lost_keys[b"k"] = 2
        assert list(cleaned_too_much(story, stored({}, 3), 0, 3)) == []


def compacted(values: dict[int, bytes]) -> Oracle:
    told = Told()
    oracle = told.oracle
    oracle.partitions[KEY].cleanup = Cleanup(compact=True)
    for offset, value in values.items():
        oracle.sends(KEY, (value,))
        oracle.commits(KEY, offset, (value,), "c", keys=(b"k",), timestamp=5)
    assert FIRST.leader == 1
    return oracle


def stored(values: dict[int, bytes], end: int) -> StoredLog:
    records = {offset: StoredRecord(value, -1, -1, -1, b"k", 5) for offset, value in values.items()}
    return StoredLog(0, end, records)


def test_partitions_are_told_apart_by_what_was_asked_for() -> None:
    assert Cleanup.by_configs({"cleanup.policy": "compact", "delete.retention.ms": "0"}) == Cleanup(True, False)
    assert Cleanup.by_configs({"retention.ms": "5"}).deletes
    assert not Cleanup.by_configs({"segment.bytes": "5"}).deletes
    assert not Oracle(lambda: 0.0).is_compacted(PartitionId(KEY.topic_id, 9))
