"""From a frame to the API that answers it."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.context import Api, Context, Waiting, settled
from ottla.broker.controller_channel import ControllerIsHere
from ottla.broker.error_codes import errors_in
from ottla.broker.long_requests import SMALL_BYTES, LongRequests
from ottla.broker.request_metrics import ApiStats, RequestMetrics
from ottla.env.ports import Buffer
from ottla.env.slices import Sliced, is_sliced
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import KafkaError
from ottla.security.authorizer import ANONYMOUS
from ottla.wire.codec import (
    API_VERSIONS,
    MalformedRequest,
    RequestHeader,
    UnsupportedVersion,
    parse_request_header,
    response_frame,
)
from ottla.wire.reply import CloseConnection, Later, Message

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.wire.server import ServerConnection

_log = logging.getLogger("ottla.broker")


# Only Produce carries data, and no client asks more than this at once. How many rows it may have is bounded beside it
# (env/slices.py): what costs is not the bytes.
LARGEST_QUESTION: Final = 4 * 1024 * 1024
_PRODUCE: Final = 0


class Dispatcher:
    def __init__(self, node: Node, apis: Iterable[Api], *, may_forward: bool = True) -> None:
        self.apis = {api.key: api for api in apis}
        self.metrics = RequestMetrics(self.apis.values())
        self.stats = self.metrics.by_key
        self._node = node
        self._may_forward = may_forward
        self._elapsed = node.env.clock.elapsed
        self._long = LongRequests(self._elapsed)
        self._tasks: dict[asyncio.Task[None], None] = {}
        # Requests that take a while and must wait until there are fewer such (queued.max.requests): at most one of each
        # connection, which is not read meanwhile.
        self._queued: deque[tuple[Coroutine[Any, Any, None], Coroutine[Any, Any, Any]]] = deque()

    def __call__(self, connection: ServerConnection, frame: memoryview) -> Message | Later:
        header = parse_request_header(frame)
        stats = self.stats.get(header.key)
        api = stats.api if stats is not None else None
        context = Context(self._node, connection, header, ANONYMOUS)
        if stats is None or api is None or not api.oldest <= header.version <= api.newest:
            return self._unsupported(api, context)
        if len(frame) > LARGEST_QUESTION and header.key != _PRODUCE:
            raise MalformedRequest(f"{api.name} of {len(frame)} bytes (allowed are {LARGEST_QUESTION})")
        stats.versions[header.version] = count = stats.versions[header.version] + 1
        began = self._elapsed() if count & stats.mask == stats.mark else None
        body = frame[header.body :]
        answer: Message | Later
        if api.is_raw:
            answer = api.handle(context, body)
        elif api.forwards and self._forwards(api):
            answer = self._later(header, stats, self._forward(api, context, bytes(frame)))
        elif api.takes_long or len(body) > SMALL_BYTES:
            answer = self.in_slices(context, body, partial(self._ask, api, context, stats))
        else:
            answer = self._ask(api, context, stats, body)
        if began is not None:
            self._measure(stats, answer, began)
        return answer

    def _measure(self, stats: ApiStats, answer: Message | Later, began: float) -> None:
        if isinstance(answer, Later) and not answer.done:
            answer.on_complete = lambda: stats.times.note(self._elapsed() - began)
        else:
            stats.times.note(self._elapsed() - began)

    def in_slices(
        self, context: Context, body: memoryview, answer: Callable[[Buffer], Message | Later]
    ) -> Message | Later:
        connection = context.connection
        data = bytes(body)  # the buffer is used again before the answer is there
        return self._long.answer(connection.turn, connection.pool, len(data), partial(answer, data))

    def _ask(self, api: Api, context: Context, stats: ApiStats, body: Buffer) -> Message | Later:
        header = context.header
        answer = api.handle(context, api.read(header.version, body))
        if isinstance(answer, bytes):
            return answer
        if isinstance(answer, Waiting):
            return _wait(context, stats, answer)
        if asyncio.iscoroutine(answer):
            return self._later(header, stats, answer)
        return _encoded(header, stats, answer)

    def _forwards(self, api: Api) -> bool:
        return self._may_forward and not api.forwards_itself and not self._node.local_controller.is_active

    async def _forward(self, api: Api, context: Context, frame: bytes) -> Any:
        """If nobody answers, the API itself says so, in its own form."""
        try:
            return await self._node.forwarding.pass_on(context, frame)
        except ControllerIsHere:
            pass
        except KafkaError as error:
            context = context._replace(refusal=ApiError(error.code, error.message))
        header = context.header
        return await settled(api.handle(context, api.read(header.version, frame[header.body :])))

    def _unsupported(self, api: Api | None, context: Context) -> bytes:
        """Kafka closes the connection; only ApiVersions answers, so that a newer client can step down (KIP-511)."""
        header = context.header
        if api is not None and header.key == API_VERSIONS:
            oldest = context._replace(header=header._replace(version=0))
            return response_frame(header.correlation_id, api.handle(oldest, None))
        name = api.name if api is not None else f"key {header.key}"
        raise UnsupportedVersion(f"{name} version {header.version} is not supported")

    def _later(self, header: RequestHeader, stats: ApiStats, answer: Any) -> Later:
        later = Later()
        in_slices = is_sliced()

        async def encoded() -> bytes:
            return _encoded(header, stats, await answer)

        async def run() -> None:
            try:
                later.complete(await (Sliced(self._elapsed, encoded()) if in_slices else encoded()))
            except asyncio.CancelledError:
                raise
            except CloseConnection as error:
                later.fail(error)
            except Exception:
                _log.exception("request with key %d version %d failed", header.key, header.version)
                later.fail()

        if len(self._tasks) < self._node.config.queued_max_requests:
            self._start(run())
        else:
            self._queued.append((run(), answer))
        return later

    def _start(self, run: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(run)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        while self._queued and len(self._tasks) < self._node.config.queued_max_requests:
            self._start(self._queued.popleft()[0])

    @property
    def queued(self) -> int:
        return len(self._queued)

    async def stop(self) -> None:
        while self._queued:
            for work in self._queued.popleft():
                work.close()
        self._long.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _encoded(header: RequestHeader, stats: ApiStats, answer: Any) -> bytes:
    if isinstance(answer, bytes):
        return answer  # a frame, whose errors are counted already
    if errors := errors_in(answer):
        stats.fail(errors)
    return response_frame(header.correlation_id, answer)


def _wait(context: Context, stats: ApiStats, waiting: Waiting) -> Message | Later:
    """Takes no place among the requests that take a while: thousands may wait, and nothing works for them meanwhile."""
    header, turn, told = context.header, context.connection.turn, waiting.told
    if told.done():
        return _encoded(header, stats, waiting.answer(told))

    def go_on() -> None:
        if later.done:
            return
        try:
            later.complete(_encoded(header, stats, waiting.answer(told)))
        except Exception:
            _log.exception("request with key %d version %d failed", header.key, header.version)
            later.fail()

    def when_told(told: Any) -> None:
        if told.cancelled():
            return
        if turn.is_over():
            turn.postpone(go_on)
        else:
            go_on()

    later = Later(is_idle=True, cancel=told.cancel)
    told.add_done_callback(when_told)
    return later
