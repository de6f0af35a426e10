"""Requests that take more than a moment: answered in slices, and large ones a few at a time.

A row of a few bytes becomes an object, an answer's row and its bytes, half a kilobyte in all. So a request that is
large waits, as bytes, until fewer others are being answered.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from ottla.env.slices import Work
from ottla.wire.buffers import BufferPool
from ottla.wire.reply import Later, Message
from ottla.wire.turn import Turn

SMALL_BYTES: Final = 1024  # up to here only an API that says so takes long
_LARGE_BYTES: Final = 16 * 1024
_AT_A_TIME: Final = 2


class LongRequests:
    def __init__(self, elapsed: Callable[[], float]) -> None:
        self._elapsed = elapsed
        self._unfinished: dict[_Request, None] = {}
        self._large = 0  # that are being answered
        self._queued: deque[_Request] = deque()

    def answer(self, turn: Turn, pool: BufferPool, size: int, answer: Callable[[], Message | Later]) -> Message | Later:
        """What `answer` gives or raises, if it comes to that at once."""
        request = _Request(self, turn, pool, size, Work(self._elapsed, answer))
        pool.hold(size)
        self._unfinished[request] = None
        if request.is_large and self._large >= _AT_A_TIME:
            self._queued.append(request)
            return request.later
        self._large += request.is_large
        request.go_on()
        if request.later.error is not None:
            raise request.later.error
        return request.later.message if request.later.done else request.later

    def finished(self, request: _Request) -> None:
        if request not in self._unfinished:
            return
        del self._unfinished[request]
        request.pool.let_go(request.size)
        if request in self._queued:
            self._queued.remove(request)
            return
        self._large -= request.is_large
        if self._queued and self._large < _AT_A_TIME:
            self._large += 1
            following = self._queued.popleft()
            following.turn.postpone(following.go_on)

    def stop(self) -> None:
        for request in list(self._unfinished):
            request.give_up()


class _Request:
    def __init__(
        self, home: LongRequests, turn: Turn, pool: BufferPool, size: int, work: Work[Message | Later]
    ) -> None:
        self.turn = turn
        self.pool = pool
        self.size = size
        self.is_large = size > _LARGE_BYTES
        self.later = Later(cancel=self.give_up)
        self._home = home
        self._work = work
        self._waits_for: Later | None = None  # the work is done, and has begun what gives the answer

    def go_on(self) -> None:
        if self.later.done:  # given up
            return
        self._work.go_on()
        if not self._work.is_done:
            self.turn.postpone(self.go_on)
            return
        try:
            answer = self._work.outcome()
        except Exception as error:
            self._home.finished(self)
            self.later.fail(error)
            return
        if not isinstance(answer, Later):
            self._home.finished(self)
            self.later.complete(answer)
        elif answer.done:
            self._hand_on(answer)
        else:
            self._waits_for = answer
            answer.listen(lambda: self._hand_on(answer))
            if answer.is_idle:
                self._home.finished(self)

    def _hand_on(self, answer: Later) -> None:
        self._home.finished(self)
        if answer.failed:
            self.later.fail(answer.error)
        else:
            self.later.complete(answer.message)

    def give_up(self) -> None:
        self._work.give_up()
        self._home.finished(self)
        if self._waits_for is not None:
            self._waits_for.cancel()
