"""The budget of receive buffers, and who may go beyond it."""

from __future__ import annotations

from ottla.wire.buffers import BufferPool, Lent

KB64 = 64 * 1024


def test_one_that_is_alone_gets_any_size() -> None:
    pool = BufferPool(KB64)
    large = pool.take(10 * KB64)
    assert large is not None
    assert pool.take(1) is None
    pool.give_back(large)
    assert pool.take(1) is not None


def test_requests_that_hold_more_than_their_buffers_fill_the_budget_too() -> None:
    """A buffer that was given back while its request is still looked at must not be lent beyond the budget."""
    pool = BufferPool(2 * KB64)
    for _ in range(2):
        buffer = pool.take(KB64)
        assert buffer is not None
        pool.hold(KB64)
        pool.give_back(buffer)
    assert pool.take(KB64) is None
    given: list[Lent] = []
    pool.wait(KB64, given.append)
    pool.let_go(KB64)
    assert len(given) == 1


def test_answers_that_nobody_reads_do_not_keep_a_request_out_for_ever() -> None:
    pool = BufferPool(2 * KB64)
    pool.count_unread(0, 100 * KB64)
    first = pool.take(KB64)
    assert first is not None
    given: list[Lent] = []
    assert pool.take(KB64) is None
    pool.wait(KB64, given.append)
    pool.count_unread(100 * KB64, 0)
    assert len(given) == 1
    pool.give_back(first)
    pool.give_back(given[0])
    assert pool.lent == 0
