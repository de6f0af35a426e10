"""The reply of a coordinator, for who waits without a task: callbacks run at once, not a turn of the loop later.

Like a future as far as that goes. Whoever asked may go away (`cancel`): then nobody is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from ottla.model.errors import KafkaError

R = TypeVar("R")


class Told(Generic[R]):
    __slots__ = ("_callbacks", "_cancelled", "_done", "_error", "_reply")

    def __init__(self) -> None:
        self._reply: R | None = None
        self._error: KafkaError | None = None
        self._done = False
        self._cancelled = False
        self._callbacks: list[Callable[[Told[R]], object]] = []

    def tell(self, reply: R | None, error: KafkaError | None) -> None:
        """What a shard calls (`Shard.submit`)."""
        if self._done:
            return
        self._reply, self._error, self._done = reply, error, True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback(self)

    @property
    def replied(self) -> R | None:
        """The reply, if it was told and is not an error."""
        return self._reply

    def done(self) -> bool:
        return self._done

    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        if not self._done:
            self._done = self._cancelled = True
            self._callbacks.clear()

    def exception(self) -> KafkaError | None:
        return self._error

    def result(self) -> R:
        if self._error is not None:
            raise self._error
        return self._reply  # type: ignore[return-value]

    def add_done_callback(self, callback: Callable[[Told[R]], object]) -> None:
        if self._done:
            callback(self)
        else:
            self._callbacks.append(callback)
