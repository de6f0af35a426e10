"""What each assignor gives to whom, by example."""

from __future__ import annotations

import pytest
from tests.coordinator.group.assignors.given import group, member, told

from ottla.coordinator.group.assignors.catalogue import assign
from ottla.coordinator.group.assignors.spec import AssignmentFailed, GroupSpec

ONE_TOPIC = {"A": 3}
TWO_TOPICS = {"A": 3, "B": 3}
A_AND_B = member("AB")

RANGE = [
    pytest.param(group({}), {}, id="nobody"),
    pytest.param(group({}, m=member("")), {"m": ""}, id="no topics"),
    pytest.param(group({"A": 0}, m=member("A")), {"m": ""}, id="no partitions"),
    pytest.param(
        group(TWO_TOPICS, m0=A_AND_B, m1=A_AND_B), {"m0": "A0 A1 B0 B1", "m1": "A2 B2"}, id="the same of both topics"
    ),
    pytest.param(
        group(TWO_TOPICS, m0=member("AB", "A2 B2"), m1=member("AB", "A0 A1 B0 B1")),
        {"m0": "A0 A1 B0 B1", "m1": "A2 B2"},
        id="what members had does not count",
    ),
    pytest.param(
        group(TWO_TOPICS, m3=member("AB", instance_id="i0"), m2=member("AB", instance_id="i1")),
        {"m2": "A2 B2", "m3": "A0 A1 B0 B1"},
        id="by instance id rather than member id",
    ),
    pytest.param(
        group(TWO_TOPICS, m0=A_AND_B, m1=member("AB", instance_id="z")),
        {"m0": "A2 B2", "m1": "A0 A1 B0 B1"},
        id="static members first",
    ),
    pytest.param(
        group(ONE_TOPIC, **{f"m{number}": member("A") for number in range(5)}),
        {"m0": "A0", "m1": "A1", "m2": "A2", "m3": "", "m4": ""},
        id="more members than partitions",
    ),
    pytest.param(
        group({"A": 3, "B": 2}, m0=A_AND_B, m1=A_AND_B), {"m0": "A0 A1 B0", "m1": "A2 B1"}, id="topics of other sizes"
    ),
    pytest.param(
        group({"A": 3, "B": 3, "C": 2}, m0=member("AB"), m1=member("C"), m2=member("BC")),
        {"m0": "A0 A1 A2 B0 B1", "m1": "C0", "m2": "B2 C1"},
        id="different topics",
    ),
]

UNIFORM = [
    pytest.param(group({}), {}, id="nobody"),
    pytest.param(group({}, m=member("")), {"m": ""}, id="no topics"),
    pytest.param(group({"A": 0}, m=member("A")), {"m": ""}, id="no partitions"),
    pytest.param(group(ONE_TOPIC, m0=member("A"), m1=member("A")), {"m0": "A0", "m1": "A1 A2"}, id="two share three"),
    pytest.param(
        group({"A": 2}, m0=member("A"), m1=member("A"), m2=member("A")),
        {"m0": "", "m1": "A0", "m2": "A1"},
        id="more members than partitions",
    ),
    pytest.param(
        group(TWO_TOPICS, m0=member("AB", "A0 A1 B0"), m1=member("AB", "A2 B1 B2")),
        {"m0": "A0 A1 B0", "m1": "A2 B1 B2"},
        id="nothing to do",
    ),
    pytest.param(
        group(TWO_TOPICS, m0=member("AB", "A0 A1 B0"), m1=member("AB", "A2 B1 B2"), m2=member("AB")),
        {"m0": "A0 A1", "m1": "A2 B1", "m2": "B0 B2"},
        id="one joins",
    ),
    pytest.param(
        group(TWO_TOPICS, m0=member("AB", "A0 B0"), m2=member("AB", "A2 B2")),
        {"m0": "A0 A1 B0", "m2": "A2 B1 B2"},
        id="one left",
    ),
    pytest.param(
        group({"A": 5}, m0=member("A", "A0 A1"), m1=member("A", "A2")),
        {"m0": "A0 A1", "m1": "A2 A3 A4"},
        id="partitions were added",
    ),
    pytest.param(
        group({"A": 5}, m0=member("A", "A0 A1"), m1=member("A", "A2 A3"), m2=member("A", "A4")),
        {"m0": "A0 A1", "m1": "A2 A3", "m2": "A4"},
        id="who has one more keeps it",
    ),
    pytest.param(
        group({"B": 2}, m0=member("B", "A0 B0"), m1=member("B", "A1 B1")),
        {"m0": "B0", "m1": "B1"},
        id="a topic is not subscribed to any more",
    ),
    pytest.param(
        group({"A": 2}, m0=member("A", "A0 A1"), m1=member("A", "A0")),
        {"m0": "A0", "m1": "A1"},
        id="two had the same: the first keeps it",
    ),
    pytest.param(group({"A": 1}, m0=member("A", "A0 A7")), {"m0": "A0"}, id="a partition that is not there"),
    pytest.param(
        group({"A": 2, "B": 1}, m0=member("A", "A-1 A0"), m1=member("B", "B0")),
        {"m0": "A0 A1", "m1": "B0"},
        id="a partition that cannot be, where topics differ",
    ),
    # different topics
    pytest.param(
        group({"A": 3, "B": 3, "C": 2}, m0=member("AB"), m1=member("C"), m2=member("BC")),
        {"m0": "A0 A1 A2", "m1": "C0 C1", "m2": "B0 B1 B2"},
        id="each topic where there is room",
    ),
    pytest.param(
        group({"A": 2, "B": 2}, m0=member("A", "A0 A1"), m1=member("B", "B0 B1"), m2=member("AB", "")),
        {"m0": "A0", "m1": "B0 B1", "m2": "A1"},
        id="one joins a mixed group",
    ),
    pytest.param(
        group({"A": 4, "B": 1}, m0=member("A", "A0 A1 A2 A3"), m1=member("B", "B0")),
        {"m0": "A0 A1 A2 A3", "m1": "B0"},
        id="nobody else may have it",
    ),
    pytest.param(
        group({"A": 2, "B": 2}, m0=member("A", "A0 B0"), m1=member("AB", "A1 B1")),
        {"m0": "A0 A1", "m1": "B0 B1"},
        id="one subscribes to less",
    ),
    pytest.param(
        group({"A": 2, "B": 1}, m0=member("A", "A0 A1 A9"), m1=member("AB", "A0 B0")),
        {"m0": "A0 A1", "m1": "B0"},
        id="a mixed group with what cannot be",
    ),
]


@pytest.mark.parametrize(("spec", "expected"), RANGE)
def test_range(spec: GroupSpec, expected: dict[str, str]) -> None:
    assert told(assign("range", spec)) == expected


@pytest.mark.parametrize(("spec", "expected"), UNIFORM)
def test_uniform(spec: GroupSpec, expected: dict[str, str]) -> None:
    assert told(assign("uniform", spec)) == expected


@pytest.mark.parametrize("name", ["range", "uniform"])
@pytest.mark.parametrize("other", ["A", "AB"])
def test_a_topic_that_is_not_there_is_a_contradiction(name: str, other: str) -> None:
    with pytest.raises(AssignmentFailed):
        assign(name, group({"A": 1}, m0=member("AB"), m1=member(other)))
