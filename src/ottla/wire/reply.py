"""What a handler gives back for a request: bytes, bytes and ranges of files, something later, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla.env.ports import Readable


class FileRange(NamedTuple):
    """Bytes that are read while they are sent, so that an answer of any size needs little memory."""

    file: Readable
    position: int
    size: int


Part = bytes | FileRange
Message = bytes | list[Part] | None  # a whole frame, size included; None: the client expects no answer


class Later:
    """An answer that comes later.

    With `overlaps`, the request has had its effects and the next one may begin, only the answers must keep their order;
    otherwise the connection rests until this one is complete. One that `is_idle` waits for others to act.
    """

    __slots__ = (
        "_cancel", "_listener", "done", "error", "failed", "held_bytes", "is_idle", "message", "on_complete",
        "overlaps",
    )  # fmt: skip

    def __init__(
        self, *, overlaps: bool = False, is_idle: bool = False, cancel: Callable[[], object] | None = None
    ) -> None:
        self.overlaps = overlaps
        self.is_idle = is_idle
        self.done = False
        self.failed = False
        self.error: Exception | None = None  # that it failed with, if nobody has told of it yet
        self.message: Message = None
        self.held_bytes = 0  # counted by the connection that keeps it until it can be sent
        self.on_complete: Callable[[], None] | None = None  # for who measures
        self._cancel = cancel
        self._listener: Callable[[], None] | None = None

    def complete(self, message: Message) -> None:
        if self.done:
            return
        self.done = True
        self.message = message
        on_complete, listener = self.on_complete, self._listener
        self.on_complete = self._listener = self._cancel = None  # no cycles: what was needed until now goes at once
        if on_complete is not None:
            on_complete()
        if listener is not None:
            listener()

    def fail(self, error: Exception | None = None) -> None:
        """There will be no answer: the connection is closed, as the client would wait for it forever."""
        if self.done:
            return
        self.failed = True
        self.error = error
        self.complete(None)

    def listen(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def on_cancel(self, cancel: Callable[[], object]) -> None:
        self._cancel = cancel

    def cancel(self) -> None:
        """The client is gone: whoever would have answered can stop."""
        cancel, self._cancel, self._listener = self._cancel, None, None
        if not self.done and cancel is not None:
            cancel()
        self.done = True


class CloseConnection(Exception):
    """The way Kafka answers what it will not answer: by closing the connection."""
