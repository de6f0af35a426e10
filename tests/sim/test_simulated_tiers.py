"""Simulated clusters whose topics have their old part in an object store that is slow, refuses and lies."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import cache

import pytest
from tests.sim import planted_tier_bugs as bugs

from ottla.env.object_store import ObjectMissing, ObjectStore, StoreError
from ottla.sim.cluster.member import Member
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Variation
from ottla.sim.object_store import SimBucket, StoreMood
from ottla.sim.outcome import Outcome
from ottla.sim.trace import first_difference
from ottla.sim.world import World

TIERS = ("records", "tiers")
STORM = Variation(rage_s=12.0, workloads=TIERS)
LONGER = Variation(rage_s=20.0, workloads=TIERS)
UNHEARD = Variation(rage_s=20.0, workloads=(*TIERS, "unheard"))
SEEDS = 6


@cache
def ended(seed: int) -> Outcome:
    return run(seed, STORM)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_record_is_on_a_disk_or_in_the_store_or_expired(seed: int) -> None:
    assert not ended(seed).violations, f"{ended(seed).timeline}\n{ended(seed).report()}"


def test_these_worlds_have_seen_what_a_tier_goes_through() -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        seen += ended(seed).counts
    for what in (
        "segments copied to the tier",
        "segments that only the tier has",
        "records seen in the store",
        "records that retention took",
        "tiered topics deleted",
        "newcomers",
        "store: put refused",
        "store: delete",
    ):
        assert seen[what] > 0, what
    assert len([name for name in seen if name.startswith("fault: ") and ("store" in name or "object" in name)]) >= 4


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_so_it_is_in_many_more_worlds(first: int) -> None:
    for seed in range(first, first + 10):
        outcome = run(seed, LONGER)
        assert not outcome.violations, outcome.report()


@pytest.mark.parametrize("first", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(2, 24, 2))])
def test_so_it_is_where_events_are_committed_of_which_nobody_was_told(first: int) -> None:
    for seed in (first, first + 1):
        outcome = run(seed, UNHEARD)
        assert not outcome.violations, outcome.report()
        assert outcome.counts["answers of internal topics lost"] > 0


@pytest.mark.parametrize("seed", [28, 133])
def test_what_seeds_have_found_stays_mended(seed: int) -> None:
    outcome = run(seed, LONGER)
    assert not outcome.violations, outcome.report()


def test_one_seed_is_one_story() -> None:
    again = run(1, STORM)
    assert first_difference(ended(1).trace, again.trace) is None
    assert ended(1).digest == again.digest


def test_no_loss_of_power_takes_what_only_the_tier_has() -> None:
    """What the metadata topic says must be on disks before anything goes from them."""

    async def all_lose_their_power(members: Sequence[Member], oracle: Oracle) -> None:
        for _ in range(3):
            await asyncio.sleep(6.0)
            for member in members:
                member.power_loss()

    outcome = run(3, STORM, script=all_lose_their_power)
    assert not outcome.violations, outcome.report()
    assert outcome.counts["segments that only the tier has"] > 0
    assert outcome.counts["power losses"] >= 9


WITHIN = 12
"""Worlds, at most, until a planted mistake shows."""
LATER = (pytest.mark.slow, pytest.mark.timeout(900))
MISTAKES = [
    pytest.param(bugs.delete_from_disk_what_is_not_in_the_tier),
    pytest.param(bugs.lose_events_with_the_power, marks=LATER),
    pytest.param(bugs.pass_over_a_segment_now_and_then),
    pytest.param(bugs.believe_to_know_the_tier_at_once, marks=LATER),
    pytest.param(bugs.believe_whatever_the_store_acknowledges, marks=LATER),
    pytest.param(bugs.believe_whatever_the_store_gives, marks=LATER),
    pytest.param(bugs.delete_from_the_store_what_is_still_to_be_read, marks=LATER),
    pytest.param(bugs.expire_one_segment_too_many, marks=LATER),
    pytest.param(bugs.forget_what_a_deleted_topic_has_there, marks=LATER),
    pytest.param(bugs.leave_what_was_begun, marks=LATER),
    pytest.param(bugs.say_that_it_is_there_before_it_is, marks=LATER),
]


@pytest.mark.parametrize("plant", MISTAKES)
def test_a_planted_bug_is_found(plant: bugs.Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(run(seed, LONGER).violations for seed in range(WITHIN))


def test_a_planted_bug_is_found_where_answers_are_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a copy whose last event was sent and seemed to fail, and is committed before its deletion is."""
    bugs.delete_what_was_begun_before_it_is_copied_anew(monkeypatch)
    assert any(run(seed, UNHEARD).violations for seed in range(WITHIN))


class TestTheStore:
    def test_has_what_was_put(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            await store.put("a/1", [b"ab", b"cd"])
            await store.put("b/1", [b""])
            assert await store.read("a/1") == b"abcd"
            assert await store.get("a/1", 1, 9) == b"bcd"
            assert [tuple(each) for each in await store.list("a")] == [("a/1", 4)]
            await store.delete(["a/1", "a/2"])
            assert [each.key for each in await store.list("")] == ["b/1"]
            with pytest.raises(ObjectMissing, match="a/1 is not in the store"):
                await store.read("a/1")

        told(story)

    def test_acknowledges_what_it_does_not_keep(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            bucket.mood = StoreMood(drops=1.0)
            await store.put("a", [b"abc"])
            bucket.mood = StoreMood(shortens=1.0)
            await store.put("b", [b"abc"])
            assert [each.key for each in await store.list("")] == ["b"]
            assert len(await store.read("b")) < 3

        told(story)

    def test_gives_other_bytes_than_it_has(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            await store.put("a", [b"abc"])
            bucket.mood = StoreMood(flips=1.0)
            assert await store.read("a") != b"abc"
            bucket.mood = StoreMood(cuts=1.0)
            assert len(await store.get("a", 0, 3)) < 3
            bucket.heal()
            assert await store.read("a") == b"abc"

        told(story)

    def test_lists_what_was_there_before(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            await store.put("a", [b"abc"])
            await asyncio.sleep(5.0)
            await store.put("b", [b"abc"])
            bucket.mood = StoreMood(lists_late_s=2.0)
            assert [each.key for each in await store.list("")] == ["a"]

        told(story)

    def test_loses_what_a_person_can_bring_back(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            await store.put("a", [b"abc"])
            await store.put("b", [b"abc"])
            bucket.lose("a")
            bucket.damage("b", 1, 3)
            assert await store.read("b") != b"abc"
            with pytest.raises(ObjectMissing):
                await store.read("a")
            assert bucket.truth("a") == bucket.truth("b") == b"abc"
            bucket.bring_back()
            assert await store.read("a") == await store.read("b") == b"abc"

        told(story)

    def test_may_carry_out_what_it_has_refused(self) -> None:
        async def story(store: ObjectStore, bucket: SimBucket) -> None:
            bucket.mood = StoreMood(refuses=1.0, refused=("put",))
            for number in range(20):
                with pytest.raises(StoreError, match="out of order"):
                    await store.put(f"{number:02}", [b"abc"])
            at_once = dict(bucket.puttings)
            await asyncio.sleep(10.0)
            assert 0 < len(at_once) < len(bucket.objects) < 20
            late = bucket.puttings.keys() - at_once.keys()
            assert not any(each.may_be_forgotten for each in at_once.values())
            assert all(bucket.puttings[key].may_be_forgotten for key in late), "whoever was refused cannot know of it"

        told(story)

    def test_gets_what_a_dead_host_has_sent(self) -> None:
        with World(1) as world:

            async def story() -> None:
                world.bucket.mood = StoreMood(longest_s=5.0)
                host = world.host("h")
                host.start(lambda env: env.open_store("sim://", {}).put("a", [b"abc"]))
                await asyncio.sleep(0.001)
                host.crash()
                await asyncio.sleep(10.0)
                assert world.bucket.objects == {"a": b"abc"}
                assert world.bucket.puttings["a"].may_be_forgotten

            world.run(story())


def told(story: Callable[[ObjectStore, SimBucket], Awaitable[None]]) -> None:
    with World(1) as world:
        world.run(_awaited(story(world.bucket.client("h"), world.bucket)))


async def _awaited(story: Awaitable[None]) -> None:
    await story
