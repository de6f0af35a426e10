"""However many connections speak at once, each gets its answer, and a timer has its turn between them."""

from __future__ import annotations

import asyncio
import socket
import time
from functools import partial

import uvloop

from ottla.broker.run import real_env
from ottla.wire.buffers import BufferPool
from ottla.wire.connection_settings import ConnectionSettings
from ottla.wire.server import ServerConnection
from ottla.wire.turn import Turn

CONNECTIONS = 200
WORK_S = 0.001
QUESTIONS = [b"first", b"second", b"third"]


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def elapsed(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)


def frame(text: bytes) -> bytes:
    return len(text).to_bytes(4, "big") + text


def test_a_crowd_does_not_keep_the_loop_to_itself() -> None:
    handled: list[float] = []

    def handler(connection: ServerConnection, request: memoryview) -> bytes:
        ends = time.perf_counter() + WORK_S
        while time.perf_counter() < ends:
            pass
        handled.append(ends)
        return frame(bytes(request))

    async def story() -> int:
        env = real_env()
        settings = ConnectionSettings(handler, env, BufferPool(1 << 20), 1 << 20)
        listener = await env.network.listen(partial(ServerConnection, settings, "PLAINTEXT"), "127.0.0.1", 0)
        await listener.serve()
        loop = asyncio.get_running_loop()
        clients = [socket.create_connection(("127.0.0.1", listener.port), timeout=60) for _ in range(CONNECTIONS)]
        while len(settings.connections) < CONNECTIONS:
            await asyncio.sleep(0.01)
        for client in clients:  # all is there before the loop looks again
            client.sendall(b"".join(map(frame, QUESTIONS)))
        longest = before = 0
        while len(handled) < CONNECTIONS * len(QUESTIONS):
            woken = loop.create_future()
            loop.call_later(0.001, woken.set_result, None)
            await woken
            longest, before = max(longest, len(handled) - before), len(handled)
        answer = b"".join(map(frame, QUESTIONS))
        for client in clients:
            assert await asyncio.to_thread(client.recv, len(answer), socket.MSG_WAITALL) == answer
            client.close()
        listener.close()
        env.executor.close()
        return longest

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        longest = runner.run(asyncio.wait_for(story(), 60))
    assert longest <= 60, (
        "requests in a row, while a timer was due: 8 readings, 8 more until the clock is looked at again, 4 ms"
    )


def test_once_a_turn_is_spent_it_is_so_for_all() -> None:
    async def story() -> None:
        clock = Clock()
        turn = Turn(clock)
        began = [turn.is_spent() for _ in range(8)]
        assert not any(began)
        clock.now = 1.0
        later = [turn.is_spent() for _ in range(16)]
        assert later == [False] * 7 + [True] * 9
        gone_on: list[int] = []
        turn.postpone(lambda: gone_on.append(1))
        await asyncio.sleep(0.01)
        assert gone_on == [1] and not turn.is_spent()

    asyncio.run(story())
