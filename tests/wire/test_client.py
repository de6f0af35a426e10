"""The client connection against a listener that plays the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import TYPE_CHECKING, Any, cast

import pytest
import uvloop
from kio.schema.api_versions import v0, v4
from kio.schema.errors import ErrorCode
from kio.schema.metadata import v12
from tests.waiting import PATIENCE_S
from tests.wire.messages import sample

from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.model.errors import OttlaError
from ottla.wire import codec
from ottla.wire.client import Connection, ConnectionFailed, RequestTimedOut

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

METADATA, PRODUCE, API_VERSIONS = 3, 0, 18
REQUEST = v12.MetadataRequest(topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False)
ANSWER = sample(v12.MetadataResponse, Random(2))

Reply = Callable[[codec.RequestHeader, bytes], bytes | None]


def world() -> Env:
    nothing = cast(Any, None)
    return Env(clock=nothing, disk=nothing, network=TcpNetwork(), executor=nothing, random=nothing)


@asynccontextmanager
async def broker(reply: Reply) -> AsyncIterator[int]:
    """A listener that answers every frame with what `reply` gives: bytes to send, or None to hang up."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header = codec.parse_request_header(frame)
                answer = reply(header, frame[header.body :])
                if answer is None:
                    break
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 26)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


def framed(header: codec.RequestHeader, body: bytes) -> bytes:
    frame = codec.response_header(header.key, header.version, header.correlation_id) + body
    return len(frame).to_bytes(4, "big") + frame


def always(entity: Any) -> Reply:
    return lambda header, _: codec.response_frame(header.correlation_id, entity)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await test()

    asyncio.run(bounded())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_call_gives_the_answer(runner: Callable[[Any], None]) -> None:
    async def test() -> None:
        async with broker(always(ANSWER)) as port, await Connection.open(world(), "127.0.0.1", port) as connection:
            assert await connection.call(REQUEST) == ANSWER

    runner(test())


def test_the_request_carries_client_id_and_body() -> None:
    seen: list[tuple[codec.RequestHeader, bytes]] = []

    def reply(header: codec.RequestHeader, body: bytes) -> bytes:
        seen.append((header, body))
        return codec.response_frame(header.correlation_id, ANSWER)

    async def test() -> None:
        async with broker(reply) as port, await Connection.open(world(), "127.0.0.1", port, "tester") as connection:
            await connection.call(REQUEST)
            await connection.call(REQUEST)

    run(test)
    assert [(h.key, h.version, h.correlation_id, h.client_id) for h, _ in seen] == [
        (3, 12, 0, "tester"),
        (3, 12, 1, "tester"),
    ]
    assert seen[0][1] == codec.encode_body(REQUEST)


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_many_requests_under_way_get_each_its_own_answer(runner: Callable[[Any], None]) -> None:
    def echo(header: codec.RequestHeader, body: bytes) -> bytes:
        return framed(header, body)

    async def test() -> None:
        # given bodies around the size of the receive buffer, and some far beyond it
        sizes = [0, 1, 65_000, 65_523, 65_524, 65_525, 65_526, 65_527, 65_528, 70_000, 3_000_000, 5] * 5
        async with broker(echo) as port, await Connection.open(world(), "127.0.0.1", port) as connection:

            async def ask(number: int, size: int) -> None:
                body = bytes([number]) * size
                answer = await connection.send_bytes(METADATA, 12, (body[:10], memoryview(body)[10:]))
                assert answer == body
                assert answer.readonly

            async with asyncio.TaskGroup() as group:
                for number, size in enumerate(sizes):
                    group.create_task(ask(number, size))

    runner(test())


def test_an_answer_that_comes_byte_by_byte_is_put_together() -> None:
    async def test() -> None:
        connection = Connection("host", 1, "me")
        answers = [asyncio.get_running_loop().create_future() for _ in range(2)]
        stream = b""
        for number, answer in enumerate(answers):
            connection._pending.append(_pending(number, answer))
            stream += framed(codec.RequestHeader(METADATA, 12, number, None, 0), b"x" * 70_000 * (number + 1))

        for byte in stream:
            connection.get_buffer(-1)[:1] = bytes([byte])
            connection.buffer_updated(1)

        assert [len(await answer) for answer in answers] == [70_000, 140_000]

    run(test)


def _pending(number: int, answer: asyncio.Future[memoryview]) -> Any:
    from ottla.wire.client import _Pending

    return _Pending(number, METADATA, 12, answer)


def test_nobody_listening_is_told_with_the_address() -> None:
    async def test() -> None:
        async with broker(always(ANSWER)) as port:
            pass  # the port is free again
        with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}.*is a broker listening there"):
            await Connection.open(world(), "127.0.0.1", port)

    run(test)


def test_no_answer_in_time_is_told_and_the_connection_lives_on() -> None:
    silent = True

    def reply(header: codec.RequestHeader, _: bytes) -> bytes:
        answer = codec.response_frame(header.correlation_id, ANSWER)
        held.append(answer)
        return b"" if silent else b"".join(held)

    held: list[bytes] = []

    async def test() -> None:
        nonlocal silent
        async with broker(reply) as port, await Connection.open(world(), "127.0.0.1", port) as connection:
            with pytest.raises(RequestTimedOut, match="request 3"):
                await connection.call(REQUEST, within=0.05)
            # when the late answer comes together with that of the next request
            silent = False
            assert await connection.call(REQUEST) == ANSWER

    run(test)


def test_a_broker_that_hangs_up_fails_all_that_is_under_way() -> None:
    async def test() -> None:
        async with broker(lambda header, body: None) as port:
            connection = await Connection.open(world(), "127.0.0.1", port)
            outcomes = await asyncio.gather(*(connection.call(REQUEST) for _ in range(3)), return_exceptions=True)

            assert all(isinstance(outcome, ConnectionFailed) for outcome in outcomes)
            assert connection.is_closed
            with pytest.raises(ConnectionFailed, match="was closed"):
                await connection.call(REQUEST)

    run(test)


@pytest.mark.parametrize(
    "garbage",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n", id="http"),
        pytest.param(b"\xff\xff\xff\xff\x00\x00\x00\x00", id="negative size"),
        pytest.param(b"\x00\x00\x00\x05\x00\x00\x00\x63\x00", id="another correlation id"),
        pytest.param(b"\x00\x00\x00\x04\x00\x00\x00\x00", id="no room for the header's tagged fields"),
        pytest.param(b"\x00\x00\x00\x06\x00\x00\x00\x00\x00\x00", id="a cut body"),
    ],
)
def test_an_answer_that_is_none_is_told(garbage: bytes) -> None:
    async def test() -> None:
        async with broker(lambda header, body: garbage) as port:
            connection = await Connection.open(world(), "127.0.0.1", port)
            with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{port}"):
                await connection.call(REQUEST, within=60)
            await connection.close()

    run(test)


def test_closing_fails_what_is_under_way() -> None:
    async def test() -> None:
        async with broker(lambda header, body: b"") as port:
            connection = await Connection.open(world(), "127.0.0.1", port)
            waiting = asyncio.ensure_future(connection.call(REQUEST))
            await asyncio.sleep(0)
            await connection.close()
            with pytest.raises(ConnectionFailed):
                await waiting

    run(test)


def test_what_needs_no_answer_does_not_wait_for_one() -> None:
    def reply(header: codec.RequestHeader, _: bytes) -> bytes:
        return b"" if header.key == PRODUCE else codec.response_frame(header.correlation_id, ANSWER)

    async def test() -> None:
        async with broker(reply) as port, await Connection.open(world(), "127.0.0.1", port) as connection:
            await connection.send_unanswered(PRODUCE, 9, (b"records",))
            assert await connection.call(REQUEST) == ANSWER

    run(test)


def offering(*ranges: tuple[int, int, int]) -> Any:
    version = v4.response.ApiVersion
    answer: v4.ApiVersionsResponse = sample(v4.ApiVersionsResponse, Random(1))
    keys = tuple(
        version(api_key=cast(Any, k), min_version=cast(Any, a), max_version=cast(Any, b)) for k, a, b in ranges
    )
    return type(answer)(error_code=ErrorCode.none, api_keys=keys, throttle_time=answer.throttle_time)


def test_the_newest_version_that_both_know_is_picked() -> None:
    async def test() -> None:
        offer = offering((METADATA, 0, 9), (PRODUCE, 0, 99), (1, 0, 3), (12345, 0, 1))
        async with broker(always(offer)) as port, await Connection.open(world(), "127.0.0.1", port) as connection:
            await connection.negotiate()

            assert connection.best_version(METADATA) == 9
            assert connection.best_version(PRODUCE) == 13
            with pytest.raises(OttlaError, match=r"offers versions 0 to 3 .* known here are 4 to"):
                connection.best_version(1)
            for key in (2, 12345):
                with pytest.raises(OttlaError, match=f"does not offer the API with key {key}"):
                    connection.best_version(key)

    run(test)


def test_an_older_broker_is_asked_again_in_version_0() -> None:
    asked: list[int] = []
    version = v0.response.ApiVersion
    known = (version(api_key=cast(Any, METADATA), min_version=cast(Any, 0), max_version=cast(Any, 5)),)

    def reply(header: codec.RequestHeader, _: bytes) -> bytes:
        asked.append(header.version)
        code = ErrorCode.none if header.version == 0 else ErrorCode.unsupported_version
        return codec.response_frame(
            header.correlation_id,
            v0.ApiVersionsResponse(error_code=code, api_keys=known if header.version == 0 else ()),
        )

    async def test() -> None:
        async with broker(reply) as port, await Connection.open(world(), "127.0.0.1", port) as connection:
            await connection.negotiate()
            assert connection.best_version(METADATA) == 5

    run(test)
    assert asked == [4, 0]


def test_a_slow_reader_holds_back_the_writer() -> None:
    async def test() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await released.wait()
            writer.close()

        released = asyncio.Event()
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        connection = await Connection.open(world(), "127.0.0.1", server.sockets[0].getsockname()[1])
        block = bytes(1 << 20)
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(200):
                await connection.send_unanswered(PRODUCE, 9, (block,))
                sent += 1

        with pytest.raises(TimeoutError):
            await asyncio.wait_for(flood(), 0.3)
        assert connection._transport is not None
        assert sent < 100
        assert connection._transport.get_write_buffer_size() <= 2 << 20
        released.set()
        await connection.close()
        server.close()

    run(test)
