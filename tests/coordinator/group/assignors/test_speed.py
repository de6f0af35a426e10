"""A thousand members and ten thousand partitions are no matter: neither at first, nor when one leaves."""

from __future__ import annotations

from time import process_time

import pytest
from tests.coordinator.group.assignors.given import topic

from ottla.coordinator.group.assignors.catalogue import ASSIGNORS, assign
from ottla.coordinator.group.assignors.spec import GroupSpec, MemberSpec

MEMBERS = 1_000
PARTITIONS = 100
TOPICS = [topic(chr(number)) for number in range(100)]


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize(("mixed", "within_s"), [(False, 2.0), (True, 4.0)])
def test_large_groups(name: str, mixed: bool, within_s: float) -> None:
    topics = [frozenset(TOPICS[number % 2 if mixed else 0 :]) for number in range(MEMBERS)]
    members = {f"m{number:04}": MemberSpec(topics[number]) for number in range(MEMBERS)}
    spec = GroupSpec(members, dict.fromkeys(TOPICS, PARTITIONS))

    began = process_time()
    assigned = assign(name, spec)
    first = process_time()
    rest = {key: member._replace(target=assigned[key]) for key, member in members.items() if key != "m0500"}
    assign(name, spec._replace(members=rest))
    then = process_time()

    assert max(first - began, then - first) < within_s
