"""The same members of consumer groups with Apache Kafka and with this node: they are told the same."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.altering import DELETE, GROUP, SET, changed
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.beside import Both, running_both
from tests.broker.apis.committing import await_coordinator, commit, fetch
from tests.broker.apis.consuming import Place

from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
SETTINGS: dict[str, Any] = {
    "num_partitions": 2,
    "group_consumer_assignment_interval_ms": 0,
    "group_consumer_max_size": 4,
    "group_initial_rebalance_delay_ms": 0,
    "auto_create_topics_enable": False,
}
TOPICS = (("t", 4), ("u", 2), ("one", 1))
Story = Callable[[Place], Iterator[Any]]
STORIES: dict[str, Story] = {}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(tmp_path_factory, **SETTINGS) as both:
        for address in both:
            create(address, *(topic_to_create(*topic) for topic in TOPICS))
        yield both


def story(tell: Story) -> Story:
    STORIES[tell.__name__] = tell
    return tell


@pytest.mark.parametrize("name", STORIES)
def test_members_are_told_the_same(both: Both, name: str) -> None:
    told = []
    for address in (both.kafka, both.ottla):
        await_coordinator(address, name)
        told.append(list(STORIES[name](Place(address, *(topic for topic, _ in TOPICS), f"{name}-new"))))
    for step, (theirs, ours) in enumerate(zip(*told, strict=True)):
        assert ours == theirs, f"step {step} of {name}:\n{ours}\n{theirs}"


def until(look: Callable[[], Any], wanted: Callable[[Any], bool]) -> Any:
    """What somebody else's turn brings about."""
    deadline = time.monotonic() + 20
    while not wanted(found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


# -- joining, sharing, leaving


@story
def one_member_comes_and_goes(place: Place) -> Iterator[Any]:
    group = "one_member_comes_and_goes"
    yield place.describe(group)
    yield place.join(group, "m1")
    yield place.beat(group, "m1", 2)
    yield place.beat(group, "m1", 2, owned={"t": [0, 1, 2, 3]})
    yield place.describe(group)
    yield place.beat(group, "m1", 2, topics=["t"], owned={"t": [0, 1, 2, 3]}, timeout_ms=1000)
    yield place.join(group, "m1")
    yield place.leave(group, "m1")
    yield place.describe(group)
    yield place.beat(group, "m1", 2)
    yield place.join(group, "m1")


@story
def two_members_share(place: Place) -> Iterator[Any]:
    group = "two_members_share"
    yield place.join(group, "m1")
    yield place.join(group, "m2")
    yield place.describe(group)
    yield place.beat(group, "m2", 3)
    yield place.beat(group, "m1", 2)
    yield place.describe(group)
    yield place.beat(group, "m1", 2, owned={"t": [0, 1, 2, 3]})
    yield place.beat(group, "m2", 3, owned={})
    yield place.beat(group, "m1", 2, owned={"t": [0, 1]})
    yield place.describe(group)
    yield place.beat(group, "m2", 3)
    yield place.beat(group, "m2", 3, owned={"t": [2, 3]})
    yield place.describe(group)
    yield place.leave(group, "m1")
    yield place.describe(group)
    yield place.beat(group, "m2", 3)
    yield place.beat(group, "m2", 4)
    yield place.describe(group)


@story
def an_answer_is_lost(place: Place) -> Iterator[Any]:
    group = "an_answer_is_lost"
    place.join(group, "m1")
    place.join(group, "m2")
    yield place.beat(group, "m1", 2)
    yield place.beat(group, "m1", 2, owned={"t": [0, 1]})
    yield place.beat(group, "m1", 2)  # without what it owns it is fenced
    yield place.beat(group, "m1", 2, owned={"t": [0, 1]})
    yield place.beat(group, "m1", 2, owned={"t": [0, 1, 2]})
    yield place.beat(group, "m1", 2, owned={"u": [0]})
    yield place.beat(group, "m1", 2, owned={})
    yield place.beat(group, "m1", 1, owned={"t": [0, 1]})
    yield place.beat(group, "m1", 9, owned={"t": [0, 1]})
    yield place.beat(group, "m1", 3, owned={"t": [0, 1]})


@story
def subscriptions_change(place: Place) -> Iterator[Any]:
    group = "subscriptions_change"
    yield place.join(group, "m1", ["t", "u"])
    yield place.beat(group, "m1", 2, topics=["u"], owned={"t": [0, 1, 2, 3], "u": [0, 1]})
    yield place.describe(group)
    yield place.beat(group, "m1", 2, owned={"u": [0, 1]})
    yield place.describe(group)
    yield place.beat(group, "m1", 3, topics=["u", "one", "not-there"])
    yield place.beat(group, "m1", 4, topics=[])
    yield place.beat(group, "m1", 4, owned={})
    yield place.describe(group)
    yield place.join(group, "m2", [])
    yield place.join(group, "m3", ["not-there"])
    yield place.describe(group)


@story
def topics_come_and_grow(place: Place) -> Iterator[Any]:
    group = "topics_come_and_grow"
    name = f"{group}-new"
    yield place.join(group, "m1", [name])
    yield place.describe(group)
    create(place.address, topic_to_create(name, 1))
    yield until(lambda: place.beat(group, "m1", 2), lambda told: told.epoch == 3)
    yield place.beat(group, "m1", 3, owned={name: [0]})
    ask(
        place.address, asking.CREATE_PARTITIONS, 3, topics=[{"name": name, "count": 3, "assignments": None}],
        timeout=timedelta(seconds=60), validate_only=False,
    )  # fmt: skip
    yield until(lambda: place.beat(group, "m1", 3), lambda told: told.epoch == 4)
    ids = place.ids()
    ask(
        place.address, asking.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": ids[name]}], topic_names=[],
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    until(lambda: place.beat(group, "m1", 4), lambda told: place.describe(group)["epochs"][0] == 5)
    yield place.beat(group, "m1", 4)
    yield place.beat(group, "m1", 4, owned={})
    yield place.describe(group)


@story
def assignors_are_chosen(place: Place) -> Iterator[Any]:
    group = "assignors_are_chosen"
    yield place.join(group, "m1", assignor="range")
    yield place.describe(group)
    yield place.join(group, "m2", assignor="uniform")
    yield place.beat(group, "m1", 2, assignor="uniform")
    yield place.describe(group)
    yield place.beat(group, "m1", 2, assignor="none-such")
    yield place.beat(group, "m1", 2, assignor="")


@story
def a_group_is_full(place: Place) -> Iterator[Any]:
    group = "a_group_is_full"
    for number in range(4):
        place.join(group, f"m{number}")
    yield place.join(group, "m4")
    yield place.join(group, "m3")
    yield place.leave(group, "m0")
    yield place.join(group, "m4").error


# -- static members


@story
def a_static_member_is_restarted(place: Place) -> Iterator[Any]:
    group = "a_static_member_is_restarted"
    yield place.join(group, "m1", instance="i1", rack="r1")
    yield place.join(group, "m2", instance="i2")
    yield place.beat(group, "m1", 2, instance="i1")
    yield place.beat(group, "m1", 2, instance="i1", owned={"t": [0, 1]})
    yield place.beat(group, "m2", 3, instance="i2")
    yield place.join(group, "m3", instance="i1")
    yield place.beat(group, "m1", -2, instance="i1")
    yield place.describe(group)
    yield place.beat(group, "m1", 3, instance="i1")
    yield place.join(group, "m3", instance="i1")
    yield place.describe(group)
    yield place.beat(group, "m1", 3, instance="i1")
    yield place.beat(group, "m1", 3)
    yield place.beat(group, "m1", -1, instance="i1")
    yield place.beat(group, "m1", -2, instance="i1")
    yield place.beat(group, "m3", -1, instance="none")
    yield place.beat(group, "m3", 3, instance="none")
    yield place.beat(group, "m3", 3, instance="i1")
    yield place.beat(group, "m3", -1, instance="i1")
    yield place.describe(group)


@story
def a_static_member_comes_back_with_another_subscription(place: Place) -> Iterator[Any]:
    group = "a_static_member_comes_back_with_another_subscription"
    yield place.join(group, "m1", instance="i1")
    yield place.beat(group, "m1", -2, instance="i1")
    yield place.join(group, "m2", ["u"], instance="i1")
    yield place.beat(group, "m2", 3, instance="i1", owned={"u": [0, 1]})
    yield place.describe(group)


# -- patterns


@story
def members_subscribe_by_pattern(place: Place) -> Iterator[Any]:
    group = "members_subscribe_by_pattern"
    yield place.join(group, "m1", None, pattern="t|not.*")
    yield until(lambda: place.beat(group, "m1", 1), lambda told: told.epoch == 2)
    yield place.describe(group)
    yield place.join(group, "m2", None, pattern="t|not.*")
    yield place.describe(group)
    yield place.beat(group, "m1", 2, pattern="", topics=["one"])
    yield place.describe(group)
    yield place.leave(group, "m2")
    yield place.describe(group)
    yield place.beat(group, "m1", 2, owned={})


@story
def a_pattern_and_names(place: Place) -> Iterator[Any]:
    group = "a_pattern_and_names"
    yield place.join(group, "m1", ["u"], pattern="on.")
    yield until(lambda: place.beat(group, "m1", 2), lambda told: told.epoch == 3)
    yield place.describe(group)


PATTERNS = (
    "(", ")", "[", "*", "a**", "a{1001}", "\\", "\\q", "(?P<n", "(?<n>a)", "(?!a)", "[b-a]", "a{2,1}", "(?i)T", "a|*",
    "\\pX", "[[:no:]]", "x{2}{3}", "(?z)", "\\8", "[a-\\d]",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_is_judged_the_same(both: Both, pattern: str) -> None:
    told = []
    for address in (both.kafka, both.ottla):
        await_coordinator(address, "judged")
        told.append(Place(address, "t").join("judged", f"m{PATTERNS.index(pattern)}", None, pattern=pattern)[:2])
        Place(address).leave("judged", f"m{PATTERNS.index(pattern)}")
    assert told[1] == told[0]


# -- what is wrong with a request


@story
def requests_that_are_wrong(place: Place) -> Iterator[Any]:
    group = "requests_that_are_wrong"
    yield place.beat(group, "", 0, version=1, topics=["t"], owned={}, timeout_ms=1)
    yield place.beat(group, " ", 1)
    yield place.beat(group, "", 1, version=0)
    yield place.beat(group, "", -1, version=0)
    yield place.beat("", "m", 0, topics=["t"], owned={}, timeout_ms=1)
    yield place.beat("  ", "m", 1)
    yield place.beat(group, "m", 1, instance="")
    yield place.beat(group, "m", 1, rack=" ")
    yield place.beat(group, "m", 0, topics=["t"], owned={})
    yield place.beat(group, "m", 0, topics=["t"], timeout_ms=1)
    yield place.beat(group, "m", 0, topics=["t"], timeout_ms=1, owned={"t": [0]})
    yield place.beat(group, "m", 0, timeout_ms=1, owned={})
    yield place.beat(group, "m", -2)
    yield place.beat(group, "m", -3)
    yield place.beat(group, "m", -100)
    yield place.beat(group, "m", 5)
    yield place.beat(group, "m", -1)
    yield place.beat(group, "m", -2, instance="i")
    yield place.beat(group, "m", 1, assignor="none-such")
    yield place.join(group, "m", None, pattern="")
    yield place.beat(group, "other", 1)
    yield place.beat(group, "other", -1)
    yield place.describe(group)
    yield place.describe("")
    yield place.describe(group, version=0)


@story
def an_id_is_given_in_version_0(place: Place) -> Iterator[Any]:
    group = "an_id_is_given_in_version_0"
    told = place.join(group, "", version=0)
    yield len(told.member or ""), told._replace(member=None)
    again = place.beat(group, told.member or "", told.epoch, version=0)
    yield again.member == told.member, again._replace(member=None)


# -- offsets


@story
def commits_by_epoch(place: Place) -> Iterator[Any]:
    group = "commits_by_epoch"
    place.join(group, "m1")
    at = place.address
    t = place.ids()["t"]
    yield commit(at, group, {"t": {0: 1}}, member="m1", generation=2)
    yield commit(at, group, {"t": {0: 1}}, member="m1", generation=3)
    yield commit(at, group, {"t": {0: 1}}, member="m1", generation=1)
    yield commit(at, group, {"t": {0: 1}}, member="m2", generation=2)
    yield commit(at, group, {"t": {0: 1}})
    yield commit(at, group, {"t": {0: 1}}, member="m1", generation=2, version=8)
    place.join(group, "m2")
    place.beat(group, "m1", 2)
    place.beat(group, "m1", 2, owned={"t": [0, 1]})  # in epoch 3, with partitions of epoch 2
    yield list(commit(at, group, {t: {0: 2}}, member="m1", generation=2, version=10).values())
    yield commit(at, group, {"t": {0: 2}}, member="m1", generation=2)
    yield commit(at, group, {"t": {2: 2}}, member="m1", generation=2)
    yield commit(at, group, {"t": {0: 2, 2: 2}}, member="m1", generation=2)
    yield place.beat(group, "m2", 3)
    yield commit(at, group, {"t": {2: 2}}, member="m2", generation=2)
    yield commit(at, group, {"t": {2: 2}}, member="m2", generation=3)
    place.leave(group, "m1")
    place.leave(group, "m2")
    yield commit(at, group, {"t": {0: 5}})
    yield commit(at, group, {"t": {0: 5}}, generation=3, member="m2")


@story
def fetches_by_epoch(place: Place) -> Iterator[Any]:
    group = "fetches_by_epoch"
    place.join(group, "m1")
    commit(place.address, group, {"t": {0: 7}}, member="m1", generation=2)
    for member, epoch in (("m1", 2), ("m1", 1), ("m1", 3), ("m1", -1), ("m2", 2), (None, 2), (None, -1), ("", -1)):
        for stable in (False, True):
            wanted = [{"name": "t", "partition_indexes": [0]}]
            asked = {"group_id": group, "member_id": member, "member_epoch": epoch, "topics": wanted}
            (answer,) = ask(place.address, asking.OFFSET_FETCH, 9, groups=[asked], require_stable=stable).groups
            yield answer.error_code, [row.committed_offset for topic in answer.topics for row in topic.partitions]
    yield fetch(place.address, "no-such-group", {"t": [0]}).groups[0].error_code


@story
def offsets_are_deleted(place: Place) -> Iterator[Any]:
    group = "offsets_are_deleted"
    place.join(group, "m1")
    commit(place.address, group, {"t": {0: 7}, "u": {0: 1}}, member="m1", generation=2)
    for topic in ("t", "u"):
        rows = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        answer = ask(place.address, asking.OFFSET_DELETE, 0, group_id=group, topics=rows)
        yield answer.error_code, [row.error_code for topic in answer.topics for row in topic.partitions]


# -- administration


@story
def groups_of_both_kinds_are_seen(place: Place) -> Iterator[Any]:
    group = "groups_of_both_kinds_are_seen"
    simple = f"{group}-simple"
    await_coordinator(place.address, simple)
    place.join(group, "m1")
    commit(place.address, simple, {"t": {0: 7}})

    def ours(**filters: list[str]) -> list[tuple[str, ...]]:
        return [row for row in place.listed(**filters) if row[0].startswith(group)]

    yield ours()
    yield ours(types_filter=["consumer"])
    yield ours(types_filter=["Classic"])
    yield ours(types_filter=["CONSUMER", "classic"])
    yield ours(types_filter=["other"])
    yield ours(states_filter=["stable"])
    yield ours(states_filter=["STABLE", "Empty"])
    yield ours(states_filter=["Reconciling", "Assigning"])
    yield ours(states_filter=["empty"], types_filter=["consumer"])
    for version in (0, 5, 6):
        for name in (group, simple, "nothing"):
            (row,) = ask(
                place.address, asking.DESCRIBE_GROUPS, version, groups=[name], include_authorized_operations=False
            ).groups
            told = (row.error_code, row.group_state, row.protocol_type, row.protocol_data, len(row.members))
            yield (*told, row.error_message) if version == 6 else told
    yield place.describe(simple)
    for name in (group, "nothing"):
        yield ask(place.address, asking.DELETE_GROUPS, 2, groups_names=[name]).results[0].error_code
    place.leave(group, "m1")
    yield ours(states_filter=["empty"], types_filter=["consumer"])
    yield ask(place.address, asking.DELETE_GROUPS, 2, groups_names=[group]).results[0].error_code
    yield place.describe(group)


@story
def an_empty_group_changes_its_kind(place: Place) -> Iterator[Any]:
    group = "an_empty_group_changes_its_kind"
    commit(place.address, group, {"t": {0: 7}})
    yield [row for row in place.listed() if row[0] == group]
    yield place.join(group, "m1")
    yield [row for row in place.listed() if row[0] == group]
    yield fetch(place.address, group, {"t": [0]}).groups[0].topics[0].partitions[0].committed_offset
    place.leave(group, "m1")
    join = {
        "group_id": group, "session_timeout": timedelta(seconds=60), "member_id": "",
        "rebalance_timeout": timedelta(seconds=60), "group_instance_id": None, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b""}], "reason": None,
    }  # fmt: skip
    yield ask(place.address, asking.JOIN_GROUP, 9, **join | {"member_id": "someone"}).error_code
    yield ask(place.address, asking.JOIN_GROUP, 3, **join).error_code
    yield [row for row in place.listed() if row[0] == group]
    yield place.describe(group)


@story
def a_group_has_configs_of_its_own(place: Place) -> Iterator[Any]:
    group = "a_group_has_configs_of_its_own"
    place.join(group, "m1")
    values = (
        ("consumer.heartbeat.interval.ms", "7000"), ("consumer.heartbeat.interval.ms", "4999"),
        ("consumer.heartbeat.interval.ms", "15001"), ("consumer.session.timeout.ms", "44999"),
        ("consumer.session.timeout.ms", "60001"), ("consumer.session.timeout.ms", "60000"),
        ("consumer.session.timeout.ms", "many"), ("consumer.assignment.interval.ms", "15001"),
        ("consumer.assignment.interval.ms", "-1"), ("consumer.none.such", "1"),
    )  # fmt: skip
    for name, value in values:
        resource = changed(GROUP, group, (name, SET, value))
        (row,) = ask(
            place.address, asking.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
        ).responses
        yield row.error_code
    until(lambda: place.beat(group, "m1", 2), lambda told: told.interval_ms == 7000)
    resource = changed(GROUP, group, ("consumer.heartbeat.interval.ms", DELETE, None))
    ask(place.address, asking.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
    until(lambda: place.beat(group, "m1", 2), lambda told: told.interval_ms == 5000)
