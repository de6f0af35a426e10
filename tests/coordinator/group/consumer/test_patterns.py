"""Subscriptions by pattern: matched apart from heartbeats, when something calls for it, by what the member may see."""

from __future__ import annotations

from time import process_time

import pytest
from tests.coordinator.group.consumer.given import Coordinator, image_of

from ottla.coordinator.group.consumer.core import Settings
from ottla.coordinator.group.consumer.matching import check_pattern, match
from ottla.model.errors import ErrorCode, KafkaError


def given_topics(**topics: int) -> Coordinator:
    return Coordinator(image=image_of(**topics), settings=Settings(assignment_interval_ms=0))


def test_a_pattern_brings_its_topics_with_the_next_heartbeat() -> None:
    given = given_topics(a1=1, a2=2, b=1)

    told = given.join("m1", [], pattern="a.*")
    assert (told.epoch, given.told(told)) == (1, {})
    given.advance(0)
    told = given.beat("m1", 1)

    assert (told.epoch, given.told(told)) == (2, {"a1": [0], "a2": [0, 1]})
    assert given.group.is_subscribed_to("a1") and not given.group.is_subscribed_to("b")


def test_a_second_member_with_it_need_not_wait() -> None:
    given = given_topics(a1=1, a2=2)
    given.join("m1", [], pattern="a.*")
    given.advance(0)

    assert given.join("m2", [], pattern="a.*").epoch == 3


def test_patterns_and_names_add_up() -> None:
    given = given_topics(a=1, b=1, c=1)
    given.join("m1", ["b"], pattern="[ab]")
    given.advance(0)
    assert given.told(given.beat("m1", 2)) == {"a": [0], "b": [0]}

    given.beat("m1", 3, pattern="")
    told = given.beat("m1", 3, owned={"b": [0]})

    assert given.has("m1") == {"b": [0]}
    assert told.epoch == given.group.epoch == 4
    assert given.group.patterns.get("[ab]") is None


def test_topics_that_come_are_found_but_not_within_ten_seconds() -> None:
    given = given_topics(a1=1)
    given.join("m1", [], pattern="a.*")
    given.advance(0)
    given.beat("m1", 1)
    given.set_topics(a1=1, a2=1)

    given.advance(10_000)
    given.beat("m1", 2)
    given.advance(0)
    assert given.beat("m1", 2).epoch == 2
    given.advance(1)
    given.beat("m1", 2)
    given.advance(0)

    assert given.told(given.beat("m1", 2)) == {"a1": [0], "a2": [0]}


def test_without_new_topics_nothing_is_matched_until_the_interval_is_over() -> None:
    given = Coordinator(image=image_of(a1=1), pattern_refresh_ms=30_000)
    given.join("m1", [], pattern="a.*")
    given.advance(0)
    before = given.group.patterns["a.*"].at_ms
    for _ in range(5):
        given.advance(6000)
        given.beat("m1", given.member("m1").epoch)
        given.advance(0)
    assert given.group.patterns["a.*"].at_ms == before

    given.advance(1)
    given.beat("m1", given.member("m1").epoch)
    given.advance(0)

    assert given.group.patterns["a.*"].at_ms == given.now_ms


def test_what_the_member_may_not_see_does_not_match() -> None:
    given = given_topics(a1=1, a2=1)

    given.join("m1", [], pattern="a.*", may_see=lambda topic: topic != "a2")
    given.advance(0)

    assert given.told(given.beat("m1", 1)) == {"a1": [0]}


def test_a_pattern_goes_with_its_last_member() -> None:
    given = given_topics(a1=1, b=1)
    given.join("m1", [], pattern="a.*")
    given.join("m2", [], pattern="a.*")
    given.join("m3", ["b"])
    given.advance(0)
    given.leave("m1")
    assert list(given.group.patterns) == ["a.*"]

    given.leave("m2")

    assert list(given.group.patterns) == []
    assert list(given.group.counts.topics) == ["b"]
    assert given.group.latest.now.metadata_hash == given.groups._core.hashes.of(["b"])


def test_many_topics_are_matched_beside_the_loop() -> None:
    given = given_topics(**{f"t{number}": 1 for number in range(2500)})
    given.join("m1", [], pattern="t1.*")
    given.advance(1000)
    assert given.group.patterns.get("t1.*") is None
    given.beat("m1", 1)
    assert len(given.beside.jobs) == 1

    given.beside.finish(given)

    assert len(given.group.patterns["t1.*"].topics) == 1111


def test_a_group_that_is_gone_by_then_stays_so() -> None:
    given = given_topics(a1=1)
    given.holds = True
    given.join("m1", [], pattern="a.*")
    given.fail()
    given.holds = False

    given.advance(0)

    assert given.log == []


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("a.*", "abc", True), ("a.*", "xabc", False), ("a", "ab", False), ("", "a", False), ("a|b", "b", True),
        ("(?i)A", "a", True), ("[", "[", False), ("\\d+", "12", True), ("t-\\p{Greek}", "t-α", True),
    ],
)  # fmt: skip
def test_a_pattern_has_to_match_the_whole_name(pattern: str, name: str, matches: bool) -> None:
    assert match([pattern], [name]) == {pattern: [name] if matches else []}


@pytest.mark.parametrize(
    "pattern",
    [
        "\\pL" * 10_900, "\\pL" * 65, "[^\\pL\\PN]" * 33, ".{0,1000}" * 28, "x{0,1000}" * 8, "x{500,501}" * 2,
        "." * 4097, "(?i)\\W" * 900,
    ],
)  # fmt: skip
def test_a_pattern_that_would_keep_the_loop_is_refused_before_it_can(pattern: str) -> None:
    given = given_topics(t=1)
    began = process_time()

    code, message = given.error("m1", 0, topics=[], pattern=pattern, owned={}, rebalance_timeout_ms=1)

    assert process_time() - began < 0.2  # some take seconds
    assert code is ErrorCode.invalid_regular_expression
    assert message is not None and len(message) < 5000
    assert given.log == []


@pytest.mark.parametrize(
    "pattern",
    [
        "|".join(f"orders-{number}.v1" for number in range(250)),
        "[a-z]{1,249}",
        "(a|b){2}-\\pL+",
        "x{1000}",
        "(a{2}){3}",
    ],
)
def test_patterns_that_people_write_are_taken(pattern: str) -> None:
    check_pattern(pattern)


def test_one_that_counts_is_matched_beside_the_loop() -> None:
    """`((x{0,31}){0,31})` takes seconds for a few hundred long names."""
    given = given_topics(xx=1, y=1)
    given.join("m1", [], pattern="(x{0,9}){2}")
    given.advance(0)
    assert len(given.beside.jobs) == 1

    given.beside.finish(given)

    assert given.group.patterns["(x{0,9}){2}"].topics == {"xx"}


def test_what_could_not_be_stored_is_not_tried_again_with_each_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def counted(patterns: list[str], names: list[str]) -> dict[str, list[str]]:
        runs.append(patterns)
        return match(patterns, names)

    monkeypatch.setattr("ottla.coordinator.group.consumer.patterns.match", counted)
    given = given_topics(a1=1)
    given.join("m1", [], pattern="a.*")
    for _ in range(20):
        if (due := given.alarms.due(given.now_ms)) is not None:
            undone = due[1]().undone
            assert undone is not None
            undone(KafkaError(ErrorCode.coordinator_not_available, "not stored"))
        given.advance(500)
        given.beat("m1", 1)
    assert len(runs) == 1

    given.advance(1)
    given.beat("m1", 1)
    given.advance(0)

    assert len(runs) == 2 and given.group.patterns["a.*"].topics == {"a1"}


def test_a_clock_that_goes_back_stops_nothing() -> None:
    given = given_topics(a1=1)
    given.join("m1", [], pattern="a.*")
    given.advance(0)
    given.beat("m1", 1)

    later = Coordinator(given.log, now_ms=given.now_ms - 3_600_000, image=image_of(2, a1=1, a2=1))
    later.groups.topics_changed(["a2"], created=True)
    later.beat("m1", 2)
    later.advance(0)
    later.beat("m1", 2)

    assert later.has("m1") == {"a1": [0], "a2": [0]}
