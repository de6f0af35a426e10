"""What an API file knows about the request that it answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.coordinator.told import Told
from ottla.env.ports import Buffer
from ottla.env.slices import breathe
from ottla.metadata.controller.result import ApiError
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import Operation, Principal, Resource
from ottla.wire.build import build, response_type
from ottla.wire.codec import RequestHeader, decode_request

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.wire.server import ServerConnection

_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")


class Context(NamedTuple):
    node: Node
    connection: ServerConnection
    header: RequestHeader
    principal: Principal
    refusal: ApiError | None = None
    """Why the active controller, which is elsewhere, could not be asked: the API makes its answer of it."""
    forwarded_host: str | None = None
    """Where the client is whose request another node passed on."""

    @property
    def client_host(self) -> str:
        return self.forwarded_host or self.connection.host

    @property
    def version(self) -> int:
        return self.header.version

    @property
    def listener(self) -> str:
        return self.connection.listener

    def allowed(self, operation: Operation, resource: Resource, name: str) -> bool:
        """Asked for each row of a request, and so where long ones let others have their turn."""
        breathe()
        return self.node.authorizer.allows(self.principal, operation, resource, name)

    def count_errors(self, codes: Iterable[ErrorCode]) -> None:
        """For APIs that write their answers themselves: the errors in one answer. Others need not care."""
        self.node.dispatcher.stats[self.header.key].fail(codes)

    def respond(self, **values: Any) -> Any:
        """The answer in the version of the request; values are those of the newest version (see wire/build.py)."""
        return build(response_type(self.header.key, self.header.version), values)


class Waiting(NamedTuple):
    """An answer that others decide on, as for members of a group: it is made once they have, from what they told."""

    told: asyncio.Future[Any] | Told[Any]
    answer: Callable[[Any], Any]


async def settled(answer: Any) -> Any:
    """What a handler gave: an answer, a coroutine of it, or what it waits for."""
    if isinstance(answer, Waiting):
        is_told: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        answer.told.add_done_callback(lambda _: None if is_told.done() else is_told.set_result(None))
        await is_told
        return answer.answer(answer.told)
    return await answer if asyncio.iscoroutine(answer) else answer


Handler = Callable[[Context, Any], Any]
Reader = Callable[[int, Buffer], Any]


@dataclass(slots=True, eq=False)
class Api:
    """One API: its number, the versions that we answer, and how.

    `handle` in the file of its name answers: it gets the decoded request and gives the answer (or a whole frame), a
    coroutine of it, or what it waits for. The file is imported when the first request comes: a node offers far more
    than its first client asks for. With `is_raw` it gets the body's bytes and gives a whole frame, or what becomes one.
    With `reads_itself` the file has a `read` too, which makes of a version and the body's bytes what `handle` gets.
    `advertise_from` is what ApiVersions says where that differs, and `is_offered` whether it says anything; an API that
    is not offered is answered nevertheless. `takes_long`: a short question may have a long answer. `forwards`: only the
    active controller can answer; another node passes the request on. With `forwards_itself` the API looks at it first
    and passes on what is left.
    """

    key: int
    name: str
    oldest: int
    newest: int
    folder: str = "ottla.broker.apis"
    is_raw: bool = False
    reads_itself: bool = False
    advertise_from: int | None = None
    is_offered: Callable[[Node], bool] | None = None
    takes_long: bool = False
    forwards: bool = False
    forwards_itself: bool = False
    handle: Handler = field(init=False)
    read: Reader = field(init=False)

    def __post_init__(self) -> None:
        self.handle = self._handle_first
        self.read = self._read_first if self.reads_itself else self._decode

    @property
    def module(self) -> str:
        return f"{self.folder}.{_INNER_CAPITAL.sub('_', self.name).lower()}"

    def load(self) -> None:
        module = import_module(self.module)
        self.handle = module.handle
        if self.reads_itself:
            self.read = module.read

    def _handle_first(self, context: Context, request: Any) -> Any:
        self.load()
        return self.handle(context, request)

    def _read_first(self, version: int, body: Buffer) -> Any:
        self.load()
        return self.read(version, body)

    def _decode(self, version: int, body: Buffer) -> Any:
        return decode_request(self.key, version, body)
