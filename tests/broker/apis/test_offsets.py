"""OffsetCommit, OffsetFetch and OffsetDelete by someone who is in no group."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch
from uuid import UUID, uuid4

import pytest
from greenlet import getcurrent
from tests.broker.apis.asking import DELETE_TOPICS, FIND_COORDINATOR, OFFSET_COMMIT, OFFSET_FETCH, ask, metadata
from tests.broker.apis.committing import await_coordinator, commit, committed, delete, fetch
from tests.broker.apis.test_authorization import denying
from tests.waiting import until

from ottla.broker.apis import offset_fetch_format
from ottla.coordinator.group.offsets import Offsets
from ottla.env.slices import Work
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource
from ottla.testing.node import RunningNode, running_node

COMMIT_VERSIONS = range(2, 11)
FETCH_VERSIONS = range(1, 11)
_numbers = count()
OK = ErrorCode.none


@pytest.fixture
def group(address: str) -> str:
    name = f"group-{next(_numbers)}"
    await_coordinator(address, name)
    return name


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(3)


def id_of(address: str, topic: str) -> UUID:
    return cast(UUID, metadata(address, topic).topics[0].topic_id)


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
def test_what_is_committed_in_a_version_is_there(address: str, group: str, topic: str, version: int) -> None:
    named = id_of(address, topic) if version >= 10 else topic

    assert commit(address, group, {named: {0: 7, 2: 8}}, version, metadata="so far", epoch=4) == {named: {0: OK, 2: OK}}

    epoch = 4 if version >= 6 else -1
    assert committed(address, group) == {topic: [(0, 7, epoch, "so far"), (2, 8, epoch, "so far")]}


@pytest.mark.parametrize("version", FETCH_VERSIONS)
@pytest.mark.parametrize("stable", [False, True])
def test_every_version_tells_it(address: str, group: str, topic: str, version: int, stable: bool) -> None:
    commit(address, group, {topic: {0: 7}}, metadata="so far", epoch=4)
    named = id_of(address, topic) if version >= 10 else topic
    epoch = 4 if version >= 5 else -1

    assert committed(address, group, {named: [1, 0, 99]}, version, stable=stable) == {
        named: [(1, -1, -1, ""), (0, 7, epoch, "so far"), (99, -1, -1, "")]
    }
    if version >= 2:
        assert committed(address, group, None, version, stable=stable) == {named: [(0, 7, epoch, "so far")]}


def test_the_last_commit_counts(address: str, group: str, topic: str) -> None:
    for offset in (7, 9, 3):
        commit(address, group, {topic: {0: offset}})

    assert committed(address, group, {topic: [0]}) == {topic: [(0, 3, -1, "")]}


def test_a_group_that_nobody_knows_has_no_offsets(address: str, group: str, topic: str) -> None:
    assert committed(address, group, {topic: [0]}) == {topic: [(0, -1, -1, "")]}
    assert committed(address, group) == {}


def test_many_groups_are_asked_at_once(address: str, group: str, topic: str) -> None:
    other = f"{group}-other"
    commit(address, group, {topic: {0: 1}})
    commit(address, other, {topic: {0: 2}})

    asked = [{"group_id": name, "topics": None} for name in (other, group, "neither")]
    answer = ask(address, OFFSET_FETCH, 8, groups=asked, require_stable=True)

    assert [
        (found.group_id, [row.committed_offset for topic in found.topics for row in topic.partitions])
        for found in answer.groups
    ] == [(other, [2]), (group, [1]), ("neither", [])]


@pytest.mark.parametrize("stable", [False, True])
@pytest.mark.parametrize("asks_all", [False, True])
def test_answers_are_made_in_slices(address: str, group: str, topic: str, stable: bool, asks_all: bool) -> None:
    commit(address, group, {topic: {0: 1}})
    lets_others: list[bool] = []

    def write(*told: Any) -> None:
        work = getcurrent()
        lets_others.append(isinstance(work, Work) and work.due < inf)
        made(*told)

    made = offset_fetch_format._write_group
    wanted = None if asks_all else [{"name": topic, "partition_indexes": [0]}]
    with patch.object(offset_fetch_format, "_write_group", write):
        ask(address, OFFSET_FETCH, 8, groups=[{"group_id": group, "topics": wanted}] * 3, require_stable=stable)

    assert lets_others == [True] * 3


def test_more_than_fits_into_a_batch_is_refused_before_it_is_made(address: str, group: str, topic: str) -> None:
    row = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    with patch.object(Offsets, "commit") as made:
        answer = ask(
            address, OFFSET_COMMIT, 9, group_id=group, generation_id_or_member_epoch=-1, member_id="",
            group_instance_id=None, topics=[{"name": topic, "partitions": [row] * 16_000}],
        )  # fmt: skip

    made.assert_not_called()
    assert {row.error_code for row in answer.topics[0].partitions} == {ErrorCode.unknown_server_error}


def test_the_empty_group_may_commit(address: str, topic: str) -> None:
    await_coordinator(address, "")
    assert commit(address, "", {topic: {0: 5}}) == {topic: {0: OK}}
    assert committed(address, "")[topic] == [(0, 5, -1, "")]


class TestRefusals:
    @pytest.mark.parametrize(
        ("length", "text", "code"),
        [
            (4096, "x", OK),
            (4097, "x", ErrorCode.offset_metadata_too_large),
            (4096, "ä", OK),
            (2048, "😀", OK),
            (2049, "😀", ErrorCode.offset_metadata_too_large),
        ],
    )
    def test_metadata_have_a_limit(
        self, address: str, group: str, topic: str, length: int, text: str, code: ErrorCode
    ) -> None:
        assert commit(address, group, {topic: {0: 5}}, metadata=text * length) == {topic: {0: code}}
        assert bool(committed(address, group)) == (code is OK)

    def test_one_row_in_error_does_not_hold_up_others(self, address: str, group: str, topic: str) -> None:
        codes = commit(address, group, {topic: {0: 5, 9: 5, -1: 5}, "absent": {0: 5}})

        assert codes == {
            topic: {0: OK, 9: ErrorCode.unknown_topic_or_partition, -1: ErrorCode.unknown_topic_or_partition},
            "absent": {0: ErrorCode.unknown_topic_or_partition},
        }
        assert list(codes[topic]) == [9, -1, 0]
        assert committed(address, group) == {topic: [(0, 5, -1, "")]}

    def test_ids_of_topics_that_are_not_there(self, address: str, group: str, topic: str) -> None:
        unknown = uuid4()
        named = id_of(address, topic)

        assert commit(address, group, {unknown: {0: 5}, named: {0: 6}}, 10) == {
            unknown: {0: ErrorCode.unknown_topic_id},
            named: {0: OK},
        }
        (answer,) = fetch(address, group, {unknown: [0], named: [0]}, 10).groups
        rows = [(topic.topic_id, *topic.partitions) for topic in answer.topics]
        assert [(named, row.error_code, row.committed_offset) for named, row in rows] == [
            (named, OK, 6),
            (unknown, ErrorCode.unknown_topic_id, -1),
        ]

    @pytest.mark.parametrize(
        ("version", "code"),
        [(8, ErrorCode.illegal_generation), (9, ErrorCode.group_id_not_found), (2, ErrorCode.illegal_generation)],
    )
    def test_members_of_groups_that_do_not_exist(
        self, address: str, group: str, topic: str, version: int, code: ErrorCode
    ) -> None:
        assert commit(address, group, {topic: {0: 5}}, version, generation=3, member="me") == {topic: {0: code}}

    def test_members_that_a_group_does_not_know(self, address: str, group: str, topic: str) -> None:
        commit(address, group, {topic: {0: 5}})

        codes = commit(address, group, {topic: {0: 6}}, generation=3, member="me")

        assert codes == {topic: {0: ErrorCode.unknown_member_id}}
        assert committed(address, group)[topic] == [(0, 5, -1, "")]

    @pytest.mark.parametrize("version", COMMIT_VERSIONS)
    def test_who_may_not_read_the_group(self, node: RunningNode, group: str, topic: str, version: int) -> None:
        named = id_of(node.address, topic) if version >= 10 else topic
        with denying(node, (Operation.READ, Resource.GROUP)):
            codes = commit(node.address, group, {named: {0: 5}}, version)

        assert codes == {named: {0: ErrorCode.group_authorization_failed}}

    def test_who_may_not_read_the_topic(self, node: RunningNode, group: str, topic: str) -> None:
        with denying(node, (Operation.READ, Resource.TOPIC)):
            assert commit(node.address, group, {topic: {0: 5}}) == {topic: {0: ErrorCode.topic_authorization_failed}}

    def test_who_may_not_describe(self, node: RunningNode, group: str, topic: str) -> None:
        commit(node.address, group, {topic: {0: 5}})
        with denying(node, (Operation.DESCRIBE, Resource.GROUP)):
            (whole,) = fetch(node.address, group, {topic: [0]}).groups
            old = fetch(node.address, group, {topic: [0]}, 1)
        with denying(node, (Operation.DESCRIBE, Resource.TOPIC)):
            (one,) = fetch(node.address, group, {topic: [0]}).groups
            (everything,) = fetch(node.address, group, None).groups

        assert (whole.error_code, whole.topics) == (ErrorCode.group_authorization_failed, ())
        assert old.topics[0].partitions[0].error_code is ErrorCode.group_authorization_failed
        assert one.topics[0].partitions[0].error_code is ErrorCode.topic_authorization_failed
        assert everything.topics == ()


class TestDeleting:
    def test_offsets_are_deleted_one_by_one(self, address: str, group: str, topic: str) -> None:
        commit(address, group, {topic: {0: 5, 1: 6}})

        answer = delete(address, group, {topic: [0, 2, 9], "absent": [0]})

        assert answer.error_code is OK
        rows = {row.name: [(part.partition_index, part.error_code) for part in row.partitions] for row in answer.topics}
        assert rows == {
            topic: [(9, ErrorCode.unknown_topic_or_partition), (0, OK), (2, OK)],
            "absent": [(0, ErrorCode.unknown_topic_or_partition)],
        }
        assert committed(address, group) == {topic: [(1, 6, -1, "")]}

    @pytest.mark.parametrize(
        ("group_id", "code"), [("", ErrorCode.invalid_group_id), ("nobody", ErrorCode.group_id_not_found)]
    )
    def test_groups_that_are_none(self, address: str, group: str, topic: str, group_id: str, code: ErrorCode) -> None:
        answer = delete(address, group_id, {topic: [0], "absent": [0]})

        assert (answer.error_code, answer.topics) == (code, ())

    def test_who_may_not(self, node: RunningNode, group: str, topic: str) -> None:
        commit(node.address, group, {topic: {0: 5}})
        with denying(node, (Operation.DELETE, Resource.GROUP)):
            assert delete(node.address, group, {topic: [0]}).error_code is ErrorCode.group_authorization_failed
        with denying(node, (Operation.READ, Resource.TOPIC)):
            (row,) = delete(node.address, group, {topic: [0]}).topics[0].partitions

        assert row.error_code is ErrorCode.topic_authorization_failed
        assert committed(node.address, group)

    def test_they_go_with_their_topic(self, address: str, group: str, new_topic: Callable[..., str]) -> None:
        gone, stays = new_topic(), new_topic()
        commit(address, group, {gone: {0: 5}, stays: {0: 6}})

        ask(address, DELETE_TOPICS, 6, topics=[{"name": gone, "topic_id": None}], timeout=timedelta(seconds=60))

        until(lambda: gone not in committed(address, group))
        assert committed(address, group) == {stays: [(0, 6, -1, "")]}


class TestWhoCoordinates:
    def test_without_the_topic_nobody_does(self, tmp_path: Path) -> None:
        with running_node(tmp_path) as fresh:
            (found,) = fetch(fresh.address, "group", None).groups
            row = {"partition_index": 0, "committed_offset": 1, "committed_metadata": ""}
            answer = ask(
                fresh.address, OFFSET_COMMIT, 9, group_id="group", generation_id_or_member_epoch=-1, member_id="",
                group_instance_id=None, topics=[{"name": "absent", "partitions": [row]}],
            )  # fmt: skip
            codes = [fetch(fresh.address, "group", None, version).error_code for version in (2, 7)]

        assert found.error_code is ErrorCode.not_coordinator
        assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition
        assert codes == [ErrorCode.not_coordinator] * 2

    def test_after_a_restart_all_is_as_it_was(self, tmp_path: Path) -> None:
        with running_node(tmp_path, num_partitions=3) as first:
            metadata(first.address, "orders", create=True, version=9)
            await_coordinator(first.address)
            for group in ("a", "b", "c"):
                await_coordinator(first.address, group)
                assert commit(first.address, group, {"orders": {0: 5, 1: 6}}, metadata=group) == {
                    "orders": {0: OK, 1: OK}
                }
            delete(first.address, "b", {"orders": [0]})

        with running_node(tmp_path) as second:
            for group in ("a", "b", "c"):
                await_coordinator(second.address, group)
            assert committed(second.address, "a") == {"orders": [(0, 5, -1, "a"), (1, 6, -1, "a")]}
            assert committed(second.address, "b") == {"orders": [(1, 6, -1, "b")]}
            assert committed(second.address, "c", stable=True) == {"orders": [(0, 5, -1, "c"), (1, 6, -1, "c")]}

    def test_it_is_not_available_when_the_node_stops(self, node: RunningNode, group: str) -> None:
        partitions = node.node.groups._partitions
        node.node.groups._partitions = 0
        try:
            (found,) = ask(node.address, FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[group]).coordinators
            (answer,) = fetch(node.address, group, None).groups
        finally:
            node.node.groups._partitions = partitions

        assert (found.error_code, answer.error_code) == (ErrorCode.coordinator_not_available,) * 2


@pytest.mark.parametrize("version", COMMIT_VERSIONS)
class TestAgain:
    """The second commit of the same partitions is known again, and is no different for that."""

    @pytest.fixture
    def named(self, address: str, group: str, topic: str, version: int) -> str | UUID:
        named = id_of(address, topic) if version >= 10 else topic
        for offset in (5, 6):
            assert commit(address, group, {named: {2: offset, 0: 2}}, version) == {named: {2: OK, 0: OK}}
        return named

    def test_other_offsets(self, address: str, group: str, topic: str, named: str | UUID, version: int) -> None:
        assert commit(address, group, {named: {2: 2**62, 0: 0}}, version, epoch=9) == {named: {2: OK, 0: OK}}

        epoch = 9 if version >= 6 else -1
        assert sorted(committed(address, group)[topic]) == [(0, 0, epoch, ""), (2, 2**62, epoch, "")]

    def test_other_partitions(self, address: str, group: str, named: str | UUID, version: int) -> None:
        assert commit(address, group, {named: {1: 7, 0: 2}}, version) == {named: {1: OK, 0: OK}}
        unknown = ErrorCode.unknown_topic_or_partition
        assert commit(address, group, {named: {9: 7, 0: 2}}, version) == {named: {9: unknown, 0: OK}}

    def test_with_metadata(self, address: str, group: str, topic: str, named: str | UUID, version: int) -> None:
        commit(address, group, {named: {2: 8, 0: 9}}, version, metadata="so far")

        assert sorted(committed(address, group)[topic]) == [(0, 9, -1, "so far"), (2, 8, -1, "so far")]

    def test_in_the_name_of_a_stranger(self, address: str, group: str, named: str | UUID, version: int) -> None:
        codes = commit(address, group, {named: {2: 8, 0: 9}}, version, generation=1, member="me")

        assert set(codes[named].values()) == {ErrorCode.unknown_member_id}

    def test_who_may_no_longer(self, node: RunningNode, group: str, named: str | UUID, version: int) -> None:
        for resource, code in (
            (Resource.GROUP, ErrorCode.group_authorization_failed),
            (Resource.TOPIC, ErrorCode.topic_authorization_failed),
        ):
            with denying(node, (Operation.READ, resource)):
                codes = commit(node.address, group, {named: {2: 8, 0: 9}}, version)
            assert set(codes[named].values()) == {code}

    def test_a_topic_that_is_gone(
        self, address: str, group: str, topic: str, named: str | UUID, version: int
    ) -> None:  # fmt: skip
        ask(address, DELETE_TOPICS, 6, topics=[{"name": topic, "topic_id": None}], timeout=timedelta(seconds=60))

        codes = commit(address, group, {named: {2: 8, 0: 9}}, version)

        unknown = ErrorCode.unknown_topic_id if version >= 10 else ErrorCode.unknown_topic_or_partition
        assert set(codes[named].values()) == {unknown}
