"""Who has just come gets little read ahead, who reads on more, and many share what there is."""

from __future__ import annotations

from uuid import UUID

from tests.tier.given import OF, segment

from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.read_ahead import FIRST, MOST, ReadAhead, run_of

LONG = segment(1, 0, 9_999, size=100 * CHUNK_BYTES)
NEXT = segment(2, 10_000, 19_999, size=100 * CHUNK_BYTES)


def test_it_grows_for_who_reads_on_and_not_for_who_jumps() -> None:
    ahead = ReadAhead(lambda: 1000 * CHUNK_BYTES)
    assert [ahead.read(LONG, n, n + 1) for n in range(6)] == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, MOST, MOST]
    assert [ahead.read(LONG, n, n + 1) for n in (50, 30, 70)] == [FIRST] * 3
    assert ahead.read(LONG, 6, 7) == MOST


def test_it_goes_on_in_the_next_segment() -> None:
    ahead = ReadAhead(lambda: 1000 * CHUNK_BYTES)
    for number in range(90, 96):
        ahead.read(LONG, number, number + 1)
    assert ahead.window(LONG, 96) == MOST
    ahead.goes_on_in(NEXT, MOST)
    assert ahead.read(NEXT, 0, 1) == MOST


def test_while_a_run_comes_half_of_the_window_or_more_is_there() -> None:
    for window in range(1, MOST + 1):
        run = run_of(window)
        assert 1 <= run <= max(window // 2, 1)
    assert run_of(MOST) > 1


def test_many_share_three_quarters_of_what_may_be_kept() -> None:
    ahead = ReadAhead(lambda: 40 * CHUNK_BYTES)
    readers = [segment(n, 0, 99, size=100 * CHUNK_BYTES)._replace(of=OF._replace(partition=n)) for n in range(5)]
    windows = [ahead.read(reader, n, n + 1) for n in range(10) for reader in readers]
    assert sum(windows[-5:]) <= 30
    assert min(windows) >= 1


def test_the_guess_holds_the_batch_of_an_offset() -> None:
    """Its beginning and its end, wherever in it the offset is."""
    ahead = ReadAhead(lambda: 1000 * CHUNK_BYTES)
    for batch in (CHUNK_BYTES, 100_000, 5_000):
        records = 10
        size = 400 * 100_000
        whole = segment(1, 0, size // batch * records - 1, size=size // batch * batch)
        for number in range(0, whole.end_offset, 7):
            start = number // records * batch
            guessed = ahead.guessed(whole, number)
            assert start // CHUNK_BYTES in guessed
            assert (start + batch - 1) // CHUNK_BYTES in guessed
            assert len(guessed) <= 4
        ahead.note_batch(OF, batch // 20)
        assert len(ahead.guessed(whole, 2 * records + 1)) <= 2
        ahead.note_batch(OF, CHUNK_BYTES)


def test_what_is_known_of_readers_is_bounded() -> None:
    ahead = ReadAhead(lambda: 1000 * CHUNK_BYTES)
    for number in range(3000):
        ahead.read(LONG._replace(id=UUID(int=number)), 0, 1)
        ahead.note_batch(OF._replace(partition=number), 100)
    assert len(ahead._windows) <= 1000
    assert len(ahead._batches) <= 1000
