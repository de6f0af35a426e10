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


def _told(handled: list[bytes], connection: ServerConnection, request: memoryview) -> bytes:
    handled.append(bytes(request))
    if bytes(request[:2]) == b"--":  # "--" is the key of what can wait
        connection.patient_key = b"--"
    return frame(bytes(request))


def _questions_at_once(*questions: bytes) -> list[bytes]:
    """One of each client, all there before the loop looks: in which order they were handled."""
    handled: list[bytes] = []

    async def story() -> None:
        env = real_env()
        settings = ConnectionSettings(partial(_told, handled), env, BufferPool(1 << 20), 1 << 20)
        listener = await env.network.listen(partial(ServerConnection, settings, "PLAINTEXT"), "127.0.0.1", 0)
        await listener.serve()
        loop = asyncio.get_running_loop()
        clients = [socket.create_connection(("127.0.0.1", listener.port), timeout=60) for _ in questions]
        for client in clients:
            client.sendall(frame(b"--"))
            assert await loop.run_in_executor(None, client.recv, 100) == frame(b"--")
        handled.clear()
        for client, question in zip(clients, questions, strict=True):
            client.sendall(question)
        for client, question in zip(clients, questions, strict=True):
            answer = b""
            while len(answer) < len(question):
                answer += await loop.run_in_executor(None, client.recv, 1 << 20)
            assert answer == question
            client.close()
        listener.close()
        env.executor.close()

    uvloop.run(story())
    return handled


def test_what_can_wait_is_handled_after_what_others_have_asked() -> None:
    patient = [frame(b"--%d" % number) * 3 for number in range(10)]
    handled = _questions_at_once(*patient, frame(b"hasty"))
    assert handled.index(b"hasty") <= 3  # after one of them at most, as each turn serves one
    assert handled.count(b"--7") == 3
    assert len(handled) == 31


def test_so_many_may_wait_and_no_more() -> None:
    handled = _questions_at_once(*[frame(b"--%d" % number) for number in range(100)])
    assert sorted(handled) == sorted(b"--%d" % number for number in range(100))


def test_patience_has_an_end() -> None:
    async def story() -> list[int]:
        clock = Clock()
        done: list[int] = []
        turn = Turn(clock)
        for number in range(5):
            assert turn.give_way(partial(done.append, number))
        await asyncio.sleep(0)
        assert done == [0]
        clock.now += 1.0
        await asyncio.sleep(0)
        return done

    assert asyncio.run(story()) == [0, 1, 2, 3, 4]


def test_who_gives_way_again_while_having_its_time_has_it_once_more() -> None:
    async def story() -> list[str]:
        done: list[str] = []
        turn = Turn(Clock())

        def again() -> None:
            done.append("first")
            turn.give_way(partial(done.append, "second"))

        turn.give_way(again)
        for _ in range(5):
            await asyncio.sleep(0)
        return done

    assert asyncio.run(story()) == ["first", "second"]
