"""What producers do in transactions, and what they are told: the same by Apache Kafka and by this node."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tests.broker.apis.transacting import Place, Producer

Story = Callable[[Place], Iterator[Any]]
STORIES: dict[str, Story] = {}


def story(tell: Story) -> Story:
    STORIES[tell.__name__] = tell
    return tell


# -- beginning


@story
def init_raises_the_epoch(place: Place) -> Iterator[Any]:
    for version in range(6):
        yield place.init(place.story, version=version)
    yield place.describe(place.story)
    yield place.init("")
    yield place.init(place.story, timeout_ms=0)
    yield place.init(place.story, timeout_ms=900_001)
    yield place.describe("")
    yield place.describe(f"{place.story}-unknown")


@story
def a_producer_says_who_it_was(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.init(place.story, expected=who)
    yield place.init(place.story, expected=who)  # repeated
    yield place.init(place.story, expected=who.with_epoch(1))
    yield place.init(place.story, expected=who, version=4)
    yield place.init(place.story, expected=who, version=3)
    yield place.init(place.story, expected=Producer(place.story, "stranger", 2))
    yield place.init(place.story, expected=Producer(place.story, "nobody", 2))
    yield place.init(f"{place.story}-new", expected=who)


@story
def init_fences_and_aborts(place: Place) -> Iterator[Any]:
    zombie = place.producer(place.story)
    yield place.produce(zombie)
    yield place.init(place.story)
    heir = place.producer(place.story)
    yield heir
    yield place.produce(zombie, 1)
    yield [place.add(zombie, 0, version=version) for version in range(4)]
    yield [place.add_offsets(zombie, version=version) for version in range(5)]
    yield [place.end(zombie, version=version) for version in range(6)]
    yield place.commit_offsets(zombie, 3)
    yield place.ends()
    yield place.fetched()
    yield place.producers()


# -- clients of the first version


@story
def the_first_version(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.end(who, True, 3)
    yield place.end(who, False, 3)
    yield place.add(who, 0, 1)
    yield place.describe(place.story)
    yield place.produce(who, 0, 9)
    yield place.produce(who, 1, 9)
    yield place.produce(who, 1, 9)  # again
    yield place.produce(who, 3, 9)
    yield place.ends()
    yield place.end(who, True, 3)
    yield place.at_rest(place.story)
    yield place.end(who, True, 3)  # again
    yield place.end(who, False, 3)
    yield place.ends(), place.ends(1)
    yield place.settled(lambda: place.add(who, 0))
    yield place.produce(who, 2, 9)
    yield place.end(who, False, 3)
    yield place.at_rest(place.story)
    yield place.end(who, False, 3)
    yield place.end(who, True, 3)
    yield place.fetched()
    yield place.fetched(level=0)
    yield place.producers()
    yield place.producers(1)


@story
def partitions_must_be_added_before(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    for version in (3, 9, 10, 11):
        yield place.produce(who, 0, version)
    place.add(who, 1)
    for version in (9, 10, 11):
        yield place.produce(who, 0, version)
    yield place.ends()
    yield place.produce(who, 0, 11, partition=1)
    yield place.ends(1)


@story
def wrong_partitions(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.add(who, 0, 7)
    yield place.add(who, 0, topic="__consumer_offsets")
    yield place.add(who, 0, topic=f"{place.story}-unknown")
    yield place.add(Producer("", who.id, who.epoch), 0)
    yield place.add(Producer(f"{place.story}-unknown", who.id, who.epoch), 0)
    yield place.add(Producer(place.story, "stranger", who.epoch), 0)
    yield place.add(who.with_epoch(9), 0)
    yield place.describe(place.story)


# -- the second version


@story
def the_second_version(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    for epoch in range(3):
        now = who.with_epoch(epoch)
        yield place.settled(partial(place.produce, now))
        yield place.produce(now, 1)
        yield place.ends()
        yield place.end(now, epoch % 2 == 0)
    yield place.at_rest(place.story)
    yield place.fetched()
    yield place.producers()


@story
def an_end_of_the_second_version_comes_late_or_twice(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.end(who, True)  # nothing to commit
    yield place.produce(who)
    yield place.end(who, True)
    place.at_rest(place.story)
    yield place.end(who, True)
    yield place.end(who, False)
    second = who.with_epoch(1)
    yield place.produce(second)
    yield place.end(who, True)
    yield place.end(who, False)
    yield place.end(who.with_epoch(5), True)
    yield place.describe(place.story)
    yield place.end(second, False)
    place.at_rest(place.story)
    yield place.end(second, False)
    yield place.end(second, True)
    yield place.end(who.with_epoch(2), True)
    yield place.fetched()


@story
def aborting_what_never_began(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.end(who, False)
    yield place.at_rest(place.story)
    yield place.end(who, False)  # again
    yield place.end(who.with_epoch(1), False)
    yield place.at_rest(place.story)
    yield place.settled(lambda: place.produce(who.with_epoch(2)))
    yield place.end(who.with_epoch(2), True)
    yield place.at_rest(place.story)
    yield place.settled(lambda: place.end(who.with_epoch(3), False))
    yield place.at_rest(place.story)


@story
def sequences_in_transactions(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.produce(who, 5)
    yield place.produce(who, 0)
    yield place.produce(who, 0)
    yield place.produce(who, 2)
    yield place.produce(who, 1, transactional=False, name=None)
    yield place.end(who, True)
    place.at_rest(place.story)
    yield place.produce(who, 1)
    yield place.produce(who.with_epoch(1), 3)
    yield place.produce(who.with_epoch(1), 0)
    yield place.produce(who.with_epoch(1), 1, name=None)
    yield place.produce(Producer(place.story, "stranger", 0))
    yield place.produce(Producer(f"{place.story}-unknown", who.id, 1), 1, partition=1)


@story
def what_brokers_ask_each_other(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    for version in (4, 5):
        yield place.tell(who, 0, 1, verify_only=True, version=version)
    yield place.tell(who, 0)
    yield place.tell(who, 0, 1, verify_only=True)
    yield place.tell(who.with_epoch(7), 0, verify_only=True)
    yield place.tell(who.with_epoch(7), 0)
    yield place.tell(Producer(place.story, "stranger", 0), 0, verify_only=True)
    yield place.tell(Producer(f"{place.story}-unknown", who.id, 0), 0, verify_only=True)
    yield place.tell(Producer("", who.id, 0), 0, verify_only=True)
    yield place.tell(who, 0, 9)
    yield place.describe(place.story)
    yield place.end(who, True)
    place.at_rest(place.story)
    yield place.tell(who.with_epoch(1), 0, verify_only=True)


@story
def records_of_an_open_transaction_are_deleted(place: Place) -> Iterator[Any]:
    who, other = place.producer(place.story), place.producer(f"{place.story}-other")
    yield place.produce(who)
    yield place.produce(who, 1)
    yield place.produce(other)
    for before in (1, 2, -1):
        yield place.delete_records(before)
        yield place.ends()
    yield place.end(who, False)
    place.at_rest(place.story)
    yield place.ends()
    yield place.end(other, True)
    place.at_rest(other.name)
    yield place.ends()


@story
def versions_take_turns(place: Place) -> Iterator[Any]:
    """What one version began the other ends."""
    who = place.producer(place.story)
    yield place.produce(who)
    yield place.end(who, True, 3)
    yield place.at_rest(place.story)
    yield place.end(who, True, 5)
    yield place.end(who, False, 5)
    yield place.at_rest(place.story)
    yield place.end(who, True, 3)
    second = who.with_epoch(1)
    yield [place.end(second, is_commit, 3) for is_commit in (True, False)]
    yield place.add(second, 0)
    yield place.produce(second, 0, 9)
    yield place.end(second, True, 5)
    yield place.at_rest(place.story)
    yield [place.produce(second, 1, version) for version in (12, 9)]
    third = who.with_epoch(2)
    yield [place.produce(third, sequence) for sequence in (1, 0)]
    yield place.add(third, 1)
    yield place.produce(third, 0, 9, partition=1)
    yield place.end(third, False, 3)
    yield place.at_rest(place.story)
    yield place.producers(), place.producers(1)
    yield place.fetched(), place.fetched(1)


# -- offsets


@story
def offsets_of_the_first_version(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    for version in (2, 3, 4):
        yield place.commit_offsets(who, 3, version)
    yield place.add_offsets(who)
    yield place.describe(place.story)["state"]
    yield place.commit_offsets(who, 3, 3)
    yield place.commit_offsets(who, 4, 3, partition=1)
    yield place.stable()
    yield place.committed()
    yield place.end(who, True, 3)
    place.at_rest(place.story)
    yield place.stable()
    yield place.committed()
    yield place.settled(lambda: place.add_offsets(who))
    yield place.commit_offsets(who, 9, 3)
    yield place.stable()
    yield place.end(who, False, 3)
    place.at_rest(place.story)
    yield place.committed()


@story
def offsets_of_the_second_version(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.commit_offsets(who, 3)
    yield place.stable()
    yield place.commit_offsets(who, 5, metadata="x" * 4096)
    yield place.commit_offsets(who, 5, metadata="x" * 4097)
    yield place.commit_offsets(who, 5, partition=7)
    yield place.commit_offsets(who, 5, topic=f"{place.story}-unknown")
    yield place.end(who, True)
    place.at_rest(place.story)
    yield [row[:3] for row in place.committed()]
    yield place.commit_offsets(who, 7)
    yield place.settled(lambda: place.commit_offsets(who.with_epoch(1), 7))
    yield place.end(who.with_epoch(1), False)
    place.at_rest(place.story)
    yield [row[:3] for row in place.committed()]


@story
def members_who_are_none(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.commit_offsets(who, 3, generation=1)
    yield place.commit_offsets(who, 3, member="someone")
    yield place.commit_offsets(who, 3, member="someone", generation=4)
    yield place.commit_offsets(Producer("", who.id, who.epoch), 3)
    yield place.commit_offsets(Producer(place.story, "stranger", 0), 3)
    yield place.stable()


@story
def offsets_of_another_generation(place: Place) -> Iterator[Any]:
    """Of a classic group and of a consumer group that have a member each."""
    who, classic, modern = place.producer(place.story), f"{place.story}-classic", f"{place.story}-modern"
    member, epoch = place.join(classic), place.join_as_consumer(modern, "m")
    before = place.stored()
    for version in (3, 4, 5):
        for group, name, generation in ((classic, member, 1), (modern, "m", epoch)):
            for wrong in (generation - 1, generation + 1, -1):
                yield place.commit_offsets(who, 3, version, group=group, member=name, generation=wrong)
            for stranger in ("stranger", ""):
                yield place.commit_offsets(who, 3, version, group=group, member=stranger, generation=generation)
            yield place.commit_offsets(
                who, 3, version, group=group, member=name, generation=generation, instance="i"
            )  # fmt: skip
    yield place.changed(before)
    yield place.commit_offsets(who, 3, group=classic, member=member, generation=1)
    yield place.commit_offsets(who, 3, group=modern, member="m", generation=epoch)
    yield place.end(who)
    yield place.at_rest(place.story)["state"]


# -- what is wrong leaves nothing behind

_STRANGERS: tuple[tuple[str, str | None, int], ...] = (
    # who it says it is: the name's suffix, the producer id if it is not its own, what is added to the epoch
    ("", "stranger", 0),
    ("", "nobody", 0),
    ("", None, -1),
    ("", None, 1),
    ("", None, 7),
    ("-other", None, 0),
    ("-unknown", None, 0),
)


@story
def a_wrong_producer_leaves_nothing_behind(place: Place) -> Iterator[Any]:
    """In each request that there is, in each of its versions, before a transaction and in an open one."""
    place.producer(f"{place.story}-other")
    place.producer(place.story)
    who = place.producer(place.story)  # of epoch 1: there is an older one
    for is_open in (False, True):
        if is_open:
            yield place.produce(who, 0)
        before = place.stored()
        for suffix, other_id, more in _STRANGERS:
            wrong = Producer(place.story + suffix, other_id or who.id, who.epoch + more)
            yield [place.add(wrong, 1, version=version) for version in range(4)]
            yield [place.tell(wrong, 1, verify_only=verify) for verify in (True, False)]
            yield [place.add_offsets(wrong, version) for version in range(5)]
            yield [place.commit_offsets(wrong, 3, version) for version in (0, 2, 3, 4, 5)]
            yield [place.end(wrong, is_commit, version) for version in range(6) for is_commit in (True, False)]
            for version in (3, 9, 10, 11, 12):
                yield place.produce(wrong, 0, version, partition=1)[0]
        yield place.changed(before)
    yield place.end(who)
    yield place.at_rest(place.story)["state"]


@story
def wrong_sequences_leave_nothing_behind(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    yield place.add(who, 0)
    for version in (9, 11, 12):
        before = place.stored()
        yield [place.produce(who, sequence, version)[0] for sequence in (1, 5, 2**31 - 1)]
        yield place.changed(before)
    yield place.produce(who, 0)
    for version in (9, 11, 12):
        before = place.stored()
        yield [place.produce(who, sequence, version)[0] for sequence in (2, 9, 2**31 - 1)]
        yield place.produce(who, 0, version)  # seen before
        yield place.changed(before)
    yield place.produce(who, 1)
    yield place.end(who)
    yield place.at_rest(place.story)["state"]


@story
def what_was_not_added_is_not_stored(place: Place) -> Iterator[Any]:
    """By clients of the first version, whose partitions nobody adds for them."""
    who = place.producer(place.story)
    yield place.add(who, 0)
    before = place.stored()
    for version in (3, 9, 10, 11):
        yield place.produce(who, 0, version, partition=1)
    for version in (0, 3, 4):
        yield place.commit_offsets(who, 3, version)
    yield place.changed(before)
    yield place.end(who, True, 3)
    yield place.at_rest(place.story)["state"]


# -- administration


@story
def listing(place: Place) -> Iterator[Any]:
    idle, busy = place.producer(f"{place.story}-idle"), place.producer(f"{place.story}-busy")
    place.produce(busy)
    for version in range(3):
        yield place.listed(version=version)
    yield place.listed(["Ongoing"])
    yield place.listed(["Empty", "Weird", "ongoing"])
    yield place.listed(["Weird"])
    yield place.listed(producers=[idle.id])
    yield place.listed(producers=["stranger"])
    yield place.listed(["Empty"], producers=[busy.id])
    yield place.listed(["Ongoing"], duration_ms=3_600_000)
    yield place.listed(["Ongoing"], duration_ms=0)[0]
    yield place.listed(pattern=f"{place.story}-i.*")
    yield place.listed(pattern=f"{place.story}-i")
    yield place.listed(pattern="")
    yield place.listed(pattern="(")[0]


@story
def markers_of_an_administrator(place: Place) -> Iterator[Any]:
    who = place.producer(place.story)
    place.produce(who)
    yield place.mark(who, False, -1, 1)
    yield place.ends()
    yield place.fetched()
    yield place.mark(who, False, -1, partition=9)
    yield place.mark(who, True, 5)
    yield place.mark(who, True, 4)
    yield place.mark(who.with_epoch(3), True, 5)
    yield place.mark(who.with_epoch(2), True, 5)
    yield place.mark(who.with_epoch(3), False, 5, transaction_version=0)
    yield place.producers()
    yield place.producers(9)
    yield place.producers(topic=f"{place.story}-unknown")
    yield place.producers(topic="not a name")
