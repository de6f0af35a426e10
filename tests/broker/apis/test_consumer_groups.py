"""ConsumerGroupHeartbeat and ConsumerGroupDescribe over a socket, in every version; and the other APIs of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest
from tests.broker.apis import asking
from tests.broker.apis.altering import GROUP, set_config
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.committing import await_coordinator, commit, fetch
from tests.broker.apis.consuming import Place, Told
from tests.broker.apis.test_authorization import denying

from ottla.broker.apis import consumer_group_describe
from ottla.env.slices import is_sliced
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Resource
from ottla.testing.node import RunningNode, running_node

VERSIONS = [0, 1]
NONE = ErrorCode.none


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with running_node(
        tmp_path_factory.mktemp("node"), offsets_topic_num_partitions=3, group_consumer_assignment_interval_ms=0
    ) as node:
        create(node.address, topic_to_create("t", 4), topic_to_create("u", 2))
        await_coordinator(node.address)
        yield node


@pytest.fixture
def place(node: RunningNode) -> Place:
    return Place(node.address, "t", "u")


@pytest.fixture
def group(node: RunningNode, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name)
    await_coordinator(node.address, name)
    return name


@pytest.mark.parametrize("version", VERSIONS)
def test_two_members_share_a_topic(place: Place, group: str, version: int) -> None:
    first = place.join(group, "m1", version=version)
    assert first == Told("none", None, "m1", 2, 5000, {"t": [0, 1, 2, 3]})
    assert place.join(group, "m2", version=version) == Told("none", None, "m2", 3, 5000, {})
    assert place.beat(group, "m1", 2, version).assigned == {"t": [0, 1]}
    assert place.beat(group, "m1", 2, version, owned={"t": [0, 1]}) == Told("none", None, "m1", 3, 5000, None)
    assert place.beat(group, "m2", 3, version).assigned == {"t": [2, 3]}

    described = place.describe(group, version)

    kind = 1 if version >= 1 else None
    assert described == {
        "error": "none", "message": None, "state": "Stable", "epochs": (3, 3), "assignor": "uniform",
        "operations": described["operations"],
        "members": [
            ("m1", None, None, 3, "ottla", ["t"], "", [("t", [0, 1])], [("t", [0, 1])], kind),
            ("m2", None, None, 3, "ottla", ["t"], "", [("t", [2, 3])], [("t", [2, 3])], kind),
        ],
    }  # fmt: skip
    assert place.leave(group, "m1", version=version) == Told("none", None, "m1", -1, 0, None)
    assert place.describe(group, version)["state"] == "Assigning"


def test_in_version_0_a_member_may_be_given_its_id(place: Place, group: str) -> None:
    told = place.join(group, "", version=0)

    assert told.member is not None and len(told.member) == 22
    assert place.beat(group, told.member, told.epoch, version=0).error == "none"
    assert place.join(group, "", version=1)[:2] == ("invalid_request", "MemberId can't be empty.")


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"epoch": 0, "topics": ["t"], "owned": {}}, "RebalanceTimeoutMs must be provided in first request."),
        ({"epoch": 0, "topics": ["t"], "timeout_ms": 1}, "TopicPartitions must be empty when (re-)joining."),
        (
            {"epoch": 0, "timeout_ms": 1, "owned": {}},
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
        ({"epoch": 1, "instance": " "}, "InstanceId can't be empty."),
        ({"epoch": 1, "rack": ""}, "RackId can't be empty."),
        ({"epoch": -2}, "InstanceId can't be null."),
        ({"epoch": -3}, "MemberEpoch is invalid."),
        ({"epoch": 1, "member": "\t"}, "MemberId can't be empty."),
        ({"epoch": 1, "group": ""}, "GroupId can't be empty."),
    ],
)
def test_a_request_that_makes_no_sense_is_refused(place: Place, said: dict[str, Any], message: str) -> None:
    told = place.beat(**{"group": "group", "member": "m", **said})

    assert told == Told("invalid_request", message, None, 0, 0, None)


def test_an_assignor_that_is_not_there_is_refused(place: Place, group: str) -> None:
    told = place.join(group, "m1", assignor="best")

    assert told[:2] == (
        "unsupported_assignor",
        "ServerAssignor best is not supported. Supported assignors: uniform, range.",
    )


def test_a_pattern_is_followed(place: Place, group: str) -> None:
    assert place.join(group, "m1", None, pattern="[tu]").epoch == 1
    told = place.beat(group, "m1", 1)
    while told.epoch == 1:
        told = place.beat(group, "m1", 1)

    assert told.assigned == {"t": [0, 1, 2, 3], "u": [0, 1]}
    assert place.describe(group)["members"][0][6] == "[tu]"


def test_members_commit_and_fetch_in_their_epoch(node: RunningNode, place: Place, group: str) -> None:
    place.join(group, "m1")
    at = node.address
    assert commit(at, group, {"t": {0: 5}}, member="m1", generation=2) == {"t": {0: NONE}}
    assert commit(at, group, {"t": {0: 6}}, member="m1", generation=3) == {"t": {0: ErrorCode.stale_member_epoch}}
    assert commit(at, group, {"t": {0: 6}}, member="m2", generation=2) == {"t": {0: ErrorCode.unknown_member_id}}
    assert commit(at, group, {"t": {0: 6}}, version=8, member="m1", generation=2) == {
        "t": {0: ErrorCode.unsupported_version}
    }
    for member, epoch, code in (("m1", 2, NONE), ("m1", 1, ErrorCode.stale_member_epoch), (None, -1, NONE)):
        wanted = [{"name": "t", "partition_indexes": [0]}]
        asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": wanted}
        (answer,) = ask(at, asking.OFFSET_FETCH, 9, groups=[asked], require_stable=True).groups
        assert answer.error_code is code
        assert [row.committed_offset for topic in answer.topics for row in topic.partitions] == [5] * (code is NONE)


def test_groups_of_both_kinds_are_listed_described_and_deleted(node: RunningNode, place: Place, group: str) -> None:
    place.join(group, "m1")
    assert (group, "consumer", "Stable", "consumer") in place.listed(types_filter=["consumer"])
    assert group not in [row[0] for row in place.listed(types_filter=["classic"])]
    (row,) = ask(
        node.address, asking.DESCRIBE_GROUPS, 6, groups=[group], include_authorized_operations=False
    ).groups  # fmt: skip
    assert (row.error_code, row.error_message) == (
        ErrorCode.group_id_not_found,
        f"Group {group} is not a classic group.",
    )
    assert delete(node, group) is ErrorCode.non_empty_group
    place.leave(group, "m1")
    assert delete(node, group) is NONE
    assert place.describe(group)["error"] == "group_id_not_found"
    assert fetch(node.address, group, None).groups[0].topics == ()


def delete(node: RunningNode, group: str) -> ErrorCode:
    (result,) = ask(node.address, asking.DELETE_GROUPS, 2, groups_names=[group]).results
    code: ErrorCode = result.error_code
    return code


def test_groups_are_described_in_slices(node: RunningNode) -> None:
    sliced: list[bool] = []

    def describe(*asked: Any) -> dict[str, Any]:
        sliced.append(is_sliced())
        return described(*asked)

    described = consumer_group_describe._describe
    with patch.object(consumer_group_describe, "_describe", describe):
        ask(node.address, asking.CONSUMER_GROUP_DESCRIBE, 1, group_ids=["a"], include_authorized_operations=False)
    assert sliced == [True]


def test_a_group_can_have_an_interval_of_its_own(node: RunningNode, place: Place, group: str) -> None:
    place.join(group, "m1")

    set_config(node.address, GROUP, group, consumer_heartbeat_interval_ms="9000")

    assert place.beat(group, "m1", 2).interval_ms == 9000
    set_config(node.address, GROUP, group, consumer_heartbeat_interval_ms=None)
    assert place.beat(group, "m1", 2).interval_ms == 5000


def test_without_the_feature_or_the_protocol_nobody_is_served(tmp_path: Any) -> None:
    with running_node(tmp_path / "a", group_coordinator_rebalance_protocols="classic") as node:
        place = Place(node.address)
        assert place.join("g", "m1").error == "unsupported_version"
        assert place.describe("g")["error"] == "unsupported_version"


def test_who_may_not_is_told_so(node: RunningNode, place: Place, group: str) -> None:
    with denying(node, (Operation.READ, Resource.GROUP, group)):
        assert place.join(group, "m1").error == "group_authorization_failed"
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC, "u")):
        assert place.join(group, "m1", ["t", "u"]).error == "topic_authorization_failed"
        place.join(group, "m2", None, pattern="t|u")
        told = place.beat(group, "m2", 1)
        while told.epoch == 1:
            told = place.beat(group, "m2", 1)
    assert told.assigned == {"t": [0, 1, 2, 3]}
    with denying(node, (Operation.DESCRIBE, Resource.TOPIC, "t")):
        described = place.describe(group)
    assert (described["error"], described["members"]) == ("topic_authorization_failed", [])
    assert described["message"] == "The group has described topic(s) that the client is not authorized to describe."
    with denying(node, (Operation.DESCRIBE, Resource.GROUP, group)):
        assert place.describe(group)["error"] == "group_authorization_failed"
