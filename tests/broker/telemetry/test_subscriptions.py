"""Who is asked for what, and who comes too early: answers as Apache Kafka 4.3 gives them, asked of one."""

from __future__ import annotations

import re
from itertools import count
from uuid import UUID

import pytest

from ottla.broker.telemetry import subscriptions as module
from ottla.broker.telemetry.subscriptions import DEFAULT_INTERVAL_MS, Subscription, Subscriptions, Wanted
from ottla.model.errors import ErrorCode

ME = UUID(int=0xABC << 64 | 7)
FACTS: dict[str, str | None] = {
    "client_id": "me",
    "client_software_name": "librdkafka",
    "client_software_version": "2.10.0",
    "client_source_address": "10.0.0.1",
    "client_source_port": "5555",
}
NONE, EARLY = ErrorCode.none, ErrorCode.throttling_quota_exceeded
INVALID, UNKNOWN = ErrorCode.invalid_request, ErrorCode.unknown_subscription_id
WRONG = 1  # a subscription id that nobody was told


class Story:
    """One client; time passes when told."""

    def __init__(self, *wanted: Subscription) -> None:
        ids = count(1000)
        self.all = Subscriptions(lambda: UUID(int=next(ids) << 70))
        self.all.set(wanted)
        self.now = 1_800_000_000_000
        self.told: Wanted | None = None

    def ask(self, instance_id: UUID | None = ME, facts: dict[str, str | None] | None = None) -> Wanted | ErrorCode:
        answer = self.all.ask(instance_id, facts or FACTS, "connection", self.now)
        if isinstance(answer, Wanted):
            self.told = answer
        return answer

    def wanted(self, facts: dict[str, str | None] | None = None) -> Wanted:
        answer = self.ask(facts=facts)
        assert isinstance(answer, Wanted), answer
        return answer

    def push(
        self, subscription_id: int | None = None, *, me: UUID | None = ME, last: bool = False, codec: int = 0,
        size: int = 10,
    ) -> ErrorCode:  # fmt: skip
        if subscription_id is None:
            subscription_id = self.told.subscription_id if self.told else WRONG
        return self.all.push(
            me, subscription_id, FACTS, "connection", self.now,
            is_ending=last, compression=codec, size=size, max_size=100,
        )  # fmt: skip


def subscription(*metrics: str, interval_ms: int = 1000, **match: str) -> Subscription:
    return Subscription(metrics, interval_ms, {name: re.compile(pattern) for name, pattern in match.items()})


def test_without_subscriptions_nothing_is_wanted_every_five_minutes() -> None:
    told = Story().wanted()
    assert (told.metrics, told.interval_ms, told.instance_id) == ((), DEFAULT_INTERVAL_MS, ME)


@pytest.mark.parametrize("nobody", [None, UUID(int=0)])
def test_who_has_no_id_is_given_one(nobody: UUID | None) -> None:
    story = Story()
    first, second = story.ask(nobody), story.ask(nobody)
    assert isinstance(first, Wanted) and isinstance(second, Wanted)
    assert first.instance_id != second.instance_id


def test_asking_again_is_too_early_until_the_interval_is_over() -> None:
    story = Story()
    story.wanted()
    story.now += DEFAULT_INTERVAL_MS - 1
    assert story.ask() is EARLY
    story.now += 1
    story.wanted()
    assert story.all.throttled == 1


def test_the_first_push_after_asking_comes_when_it_likes_the_next_after_the_interval() -> None:
    story = Story()
    story.wanted()
    story.now += 1
    assert story.push() is NONE
    assert story.push() is EARLY
    story.now += DEFAULT_INTERVAL_MS
    assert story.push() is NONE
    assert story.ask() is EARLY


def test_the_last_push_comes_at_any_time_and_is_the_last() -> None:
    story = Story()
    story.wanted()
    assert [story.push(), story.push(last=True), story.push(), story.push(last=True), story.ask()] == [
        NONE, NONE, INVALID, NONE, EARLY,
    ]  # fmt: skip


@pytest.mark.parametrize("nobody", [None, UUID(int=0), UUID(int=1)])
def test_nobody_can_push_nothing(nobody: UUID | None) -> None:
    assert Story().push(me=nobody) is INVALID


@pytest.mark.parametrize(
    ("codec", "size", "expected"),
    [
        (4, 100, NONE),
        (0, 0, NONE),
        (5, 10, ErrorCode.unsupported_compression_type),
        (-1, 10, ErrorCode.unsupported_compression_type),
        (0, 101, ErrorCode.telemetry_too_large),
        (77, 101, ErrorCode.unsupported_compression_type),
    ],
)
def test_a_push_is_looked_at(codec: int, size: int, expected: ErrorCode) -> None:
    story = Story()
    story.wanted()
    assert story.push(codec=codec, size=size) is expected


@pytest.mark.parametrize(("subscription_id", "codec"), [(WRONG, 0), (None, 77)])
def test_who_pushes_what_is_not_wanted_may_ask_at_once(subscription_id: int | None, codec: int) -> None:
    story = Story()
    story.wanted()
    assert story.push(subscription_id, codec=codec) is not NONE
    story.wanted()
    assert story.ask() is EARLY


def test_who_is_throttled_after_that_may_not() -> None:
    story = Story()
    story.wanted()
    assert [story.push(WRONG), story.push(), story.ask()] == [UNKNOWN, EARLY, EARLY]
    assert story.all.unknown_subscriptions == 1


def test_a_client_that_another_broker_told_has_to_ask_here() -> None:
    story = Story()
    assert story.push(WRONG) is UNKNOWN
    story.wanted()


def test_when_subscriptions_change_the_old_id_is_unknown_and_asking_is_never_too_early() -> None:
    story = Story()
    before = story.wanted()
    story.all.set([subscription("a.")])
    assert story.push(before.subscription_id) is UNKNOWN
    after = story.wanted()
    assert after.subscription_id != before.subscription_id
    assert (after.metrics, after.interval_ms) == (("a.",), 1000)


@pytest.mark.parametrize(
    ("subscriptions", "metrics", "interval_ms"),
    [
        ([subscription("b.", "a.", interval_ms=700), subscription("c.", interval_ms=500)], ("a.", "b.", "c."), 500),
        ([subscription("a."), subscription("*")], ("*",), 1000),
        ([subscription("a.", client_id="m.")], ("a.",), 1000),
        ([subscription("a.", client_id="m")], (), DEFAULT_INTERVAL_MS),
        ([subscription("a.", client_id="me", client_source_port="6.*")], (), DEFAULT_INTERVAL_MS),
        ([subscription("a.", client_software_name="librdkafka", client_software_version=r"2\..*")], ("a.",), 1000),
        ([subscription("a.", interval_ms=3_600_000)], ("a.",), DEFAULT_INTERVAL_MS),
    ],
)  # fmt: skip
def test_a_client_gets_all_that_match_it(
    subscriptions: list[Subscription], metrics: tuple[str, ...], interval_ms: int
) -> None:
    told = Story(*subscriptions).wanted()
    assert (told.metrics, told.interval_ms) == (metrics, interval_ms)


def test_what_a_client_does_not_say_matches_nothing() -> None:
    story = Story(subscription("a.", client_id=".*"))
    assert story.wanted(facts={**FACTS, "client_id": None}).metrics == ()


def test_a_client_can_be_picked_by_its_instance_id() -> None:
    story = Story(subscription("a.", client_instance_id="AAAAAAAACrwAAAAAAAAABw"))
    assert story.wanted().metrics == ("a.",)


def test_subscription_ids_differ_between_clients_and_are_32_bit() -> None:
    story = Story()
    told = [story.ask(None) for _ in range(100)]
    numbers = {answer.subscription_id for answer in told if isinstance(answer, Wanted)}
    assert len(numbers) == 100
    assert all(-(1 << 31) <= number < 1 << 31 for number in numbers)


def test_clients_are_forgotten_when_they_go_or_are_silent() -> None:
    story = Story()
    story.wanted()
    story.all.disconnected("another connection")
    story.all.expire(story.now + 3 * DEFAULT_INTERVAL_MS - 1)
    assert len(story.all) == 1
    story.all.expire(story.now + 3 * DEFAULT_INTERVAL_MS)
    assert len(story.all) == 0
    story.wanted()
    story.all.disconnected("connection")
    assert len(story.all) == 0
    assert not story.all._by_connection


def test_there_is_a_limit_to_how_many_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_CLIENTS", 3)
    story = Story()
    for number in range(10):
        story.all.ask(UUID(int=100 + number), FACTS, number, story.now)
    assert len(story.all) == len(story.all._by_connection) == 3
