"""Answers that will soon be others: a coordinator or leader that is on its way, a broker that has just died."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, Final, ParamSpec, TypeVar

from ottla.model.errors import ErrorCode, OttlaError

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

T = TypeVar("T")
P = ParamSpec("P")
_AGAIN_AFTER_S: Final = 0.1
_BROKER_WITHIN_S: Final = 3.0  # a dead one is replaced sooner; who gave a wrong address should not wait for long

MOVING: Final = frozenset(
    (
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
        ErrorCode.not_leader_or_follower,
        ErrorCode.leader_not_available,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,  # a leader that was elected a moment ago (KIP-207)
    )
)


class Moving(OttlaError):
    """Who was asked cannot answer now; asked again, from the beginning, somebody will."""

    def __init__(self, message: str, code: ErrorCode) -> None:
        super().__init__(message)
        self.code = code


class BrokerGone(Moving):
    """It cannot be reached, or its connection broke: what was asked of it may or may not have been done."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.broker_not_available)


def asked_again(
    ask: Callable[Concatenate[Session, P], Awaitable[T]],
) -> Callable[Concatenate[Session, P], Awaitable[T]]:
    """For questions that may be asked twice: from the beginning while somebody is on the way, as long as an answer may
    take."""

    @wraps(ask)
    async def asking(session: Session, /, *args: P.args, **kwargs: P.kwargs) -> T:
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                return await ask(session, *args, **kwargs)
            except Moving as error:
                patience = session.cluster.timeout_s
                if isinstance(error, BrokerGone):
                    patience = min(patience, _BROKER_WITHIN_S)
                if loop.time() >= began + patience:
                    raise
            session.forget()
            await asyncio.sleep(_AGAIN_AFTER_S)

    return asking
