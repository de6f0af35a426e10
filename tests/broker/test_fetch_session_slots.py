"""Who gives way when there are as many fetch sessions as a broker keeps (KIP-227)."""

from __future__ import annotations

from itertools import count

from ottla.broker.fetch_sessions import FetchSessions, Session, Wanted
from ottla.broker.follower_watch import FollowerWatch, Key

EVICTION_MS = 1000


class Cache:
    def __init__(self, slots: int) -> None:
        numbers = count()
        self.sessions = FetchSessions(slots, EVICTION_MS, lambda _: next(numbers))

    def open(self, now_ms: int, size: int = 1, *, follower: bool = False) -> Session | None:
        wanted: dict[Key, Wanted] = {("t", number): Wanted(0, 1) for number in range(size)}
        return self.sessions.create(wanted, False, now_ms, FollowerWatch(2) if follower else None)

    def use(self, session: Session | None, now_ms: int) -> None:
        assert session is not None
        self.sessions.go_on(session.id, session.epoch, {}, (), False, now_ms)

    def has(self, session: Session | None) -> bool:
        assert session is not None
        return session.id in self.sessions._sessions


def test_one_that_was_not_used_for_long() -> None:
    cache = Cache(2)
    first, second = cache.open(0, 9), cache.open(1, 9)
    assert cache.open(EVICTION_MS) is None
    cache.use(first, EVICTION_MS)
    assert cache.open(EVICTION_MS + 2) is not None
    assert (cache.has(first), cache.has(second)) == (True, False)


def test_a_small_one_to_a_larger_one_once_it_has_been_there_for_long() -> None:
    cache = Cache(2)
    large, small = cache.open(0, 5), cache.open(0, 3)
    for session in (large, small):
        cache.use(session, EVICTION_MS)
    assert cache.open(EVICTION_MS, 9) is None, "they are too young"
    for session in (large, small):
        cache.use(session, EVICTION_MS + 1)
    assert cache.open(EVICTION_MS + 2, 3) is None, "it is no larger"
    assert cache.open(EVICTION_MS + 2, 4) is not None
    assert (cache.has(large), cache.has(small)) == (True, False)


def test_any_consumers_to_a_follower_and_never_the_other_way() -> None:
    cache = Cache(2)
    large, small = cache.open(0, 5), cache.open(0, 3)
    first = cache.open(1, 1, follower=True)
    assert (cache.has(large), cache.has(small), cache.has(first)) == (True, False, True)
    second = cache.open(2, 1, follower=True)
    assert not cache.has(large)
    assert cache.open(3, 9, follower=True) is None, "they are too young"
    for session in (first, second):
        cache.use(session, EVICTION_MS + 3)
    assert cache.open(EVICTION_MS + 3, 9) is None
    assert cache.open(EVICTION_MS + 3, 9, follower=True) is not None


def test_nobody_where_there_are_no_slots() -> None:
    assert Cache(0).open(0, follower=True) is None
