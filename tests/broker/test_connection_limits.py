"""Limits of connections on a real node: who waits, who is closed, and what changes while it runs."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.broker.apis.altering import BROKER, SET, changed
from tests.broker.apis.asking import INCREMENTAL_ALTER_CONFIGS, create, topic_to_create
from tests.broker.watching import scrape
from tests.interop.raw import API_VERSIONS, FETCH, Raw, fetch_values, frame
from tests.waiting import PATIENCE_S, until

from ottla.broker.context import Api, Context
from ottla.broker.dispatch import Dispatcher
from ottla.env.clock import SystemClock
from ottla.model.config import ConfigError
from ottla.testing.node import RunningNode, running_node
from ottla.wire.codec import request_header
from ottla.wire.reply import Later


def is_served(raw: Raw, within: float = PATIENCE_S) -> bool:
    raw.socket.settimeout(within)
    try:
        raw.ask(API_VERSIONS, 0)
    except TimeoutError:
        return False
    return True


def is_closed(raw: Raw, within: float = PATIENCE_S) -> bool:
    raw.socket.settimeout(within)
    return raw.is_closed_by_node()


def set_dynamically(raw: Raw, **values: int | str) -> None:
    """Over a connection that is there already."""
    changes = [(name.replace("_", "."), SET, str(value)) for name, value in values.items()]
    answer = raw.ask(INCREMENTAL_ALTER_CONFIGS, 1, resources=[changed(BROKER, "", *changes)], validate_only=False)
    assert answer.responses[0].error_code == 0, answer


def connections(node: RunningNode) -> int:
    return node.on_loop(lambda: len(node.node.listening.connections.connections))


@pytest.mark.parametrize("name", ["max_connections", "listener_name_plaintext_max_connections"])
def test_the_next_one_waits_until_one_goes(tmp_path: Path, name: str) -> None:
    with running_node(tmp_path, **{name: 2}) as node, Raw(node.port) as first, Raw(node.port) as second:
        assert is_served(first) and is_served(second)
        with Raw(node.port) as third:
            third.send(frame(API_VERSIONS, 0))
            third.socket.settimeout(0.3)
            with pytest.raises(TimeoutError):
                third.receive_frame()
            assert is_served(first)
            second.socket.close()
            third.socket.settimeout(PATIENCE_S)
            assert third.receive_frame()


def test_more_are_let_in_and_too_many_are_closed_when_the_limit_changes(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connections=1) as node, ExitStack() as stack:
        first = stack.enter_context(Raw(node.port))
        assert is_served(first)
        others = [stack.enter_context(Raw(node.port)) for _ in range(3)]
        set_dynamically(first, max_connections=4)
        assert all(is_served(other) for other in others)
        set_dynamically(first, max_connections=1)
        until(lambda: connections(node) == 1)


def test_how_many_may_wait_can_be_set(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connections=1, socket_listen_backlog_size=1) as node, ExitStack() as stack:
        assert is_served(stack.enter_context(Raw(node.port)))

        def come() -> None:
            for _ in range(5):
                stack.enter_context(Raw(node.port, timeout=0.5))

        with pytest.raises(TimeoutError):  # beyond that the system does not answer
            come()


def test_a_listener_gets_a_limit_of_its_own_while_the_node_runs(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, ExitStack() as stack:
        first = stack.enter_context(Raw(node.port))
        set_dynamically(first, listener_name_plaintext_max_connections=1)
        assert not is_served(stack.enter_context(Raw(node.port)), within=0.3)


def test_a_limit_of_a_listener_that_makes_no_sense_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"listener\.name\.plaintext\.max\.connections"):
        with running_node(tmp_path, listener_name_plaintext_max_connections="many"):
            pass


def test_the_listener_between_nodes_takes_the_place_of_the_longest_idle(tmp_path: Path) -> None:
    with running_node(
        tmp_path, max_connections=2, inter_broker_listener_name="INNER",
        listeners="PLAINTEXT://127.0.0.1:0,INNER://127.0.0.1:0",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        connections_max_idle_ms=1000_000,
    ) as node, ExitStack() as stack:  # fmt: skip
        inner_port = node.node.listening.listeners["INNER"].port
        idle, busy = (stack.enter_context(Raw(node.port)) for _ in range(2))
        assert is_served(idle) and is_served(busy)
        node.on_loop(lambda: [one.idle_for(0.0) for one in node.node.listening.connections.connections])
        assert is_served(busy)
        inner = stack.enter_context(Raw(inner_port))
        assert is_served(inner)
        assert is_closed(idle)
        assert is_served(busy)


def test_an_address_has_its_share(tmp_path: Path) -> None:
    with (
        running_node(tmp_path, max_connections_per_ip=2, ottla_metrics_listener="127.0.0.1:0") as node,
        ExitStack() as stack,
    ):
        raws = [stack.enter_context(Raw(node.port)) for _ in range(2)]
        assert all(map(is_served, raws))
        assert is_closed(stack.enter_context(Raw(node.port)))
        assert scrape(node).value("ottla_connections_refused_total") == 1
        set_dynamically(raws[0], max_connections_per_ip_overrides="localhost:3")
        assert is_served(stack.enter_context(Raw(node.port)))
        assert is_closed(stack.enter_context(Raw(node.port)))


def test_those_that_end_as_soon_as_they_began_leave_their_place(tmp_path: Path) -> None:
    with running_node(tmp_path, max_connections_per_ip=20) as node:
        for _ in range(60):
            with socket.create_connection(("127.0.0.1", node.port)) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # ends with a reset
        until(lambda: served_now(node.port))  # some may still wait to be accepted, and then to be found gone


def served_now(port: int) -> bool:
    with Raw(port) as raw:
        try:
            return is_served(raw)
        except ConnectionResetError:
            return False


def test_limits_of_addresses_that_make_no_sense_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"'10.0.0.1' is not host:count"):
        with running_node(tmp_path, max_connections_per_ip_overrides="10.0.0.1"):
            pass


@pytest.mark.parametrize("prefix", ["", "listener_name_plaintext_"])
def test_connections_that_come_too_fast_wait(tmp_path: Path, prefix: str) -> None:
    with running_node(tmp_path, **{f"{prefix}max_connection_creation_rate": 1}) as node, ExitStack() as stack:
        began = time.monotonic()
        for _ in range(11):
            assert is_served(stack.enter_context(Raw(node.port)))
        assert time.monotonic() - began > 0.3


def test_who_is_idle_is_closed_and_who_waits_for_an_answer_is_not(tmp_path: Path) -> None:
    with running_node(tmp_path, connections_max_idle_ms=1500, ottla_metrics_listener="127.0.0.1:0") as node:
        create(node.address, topic_to_create("t"))
        with Raw(node.port) as idle, Raw(node.port) as busy, Raw(node.port) as waiting:
            waiting.send(frame(FETCH, 11, **fetch_values({("t", 0): 0}, max_wait_ms=2500)))
            while not idle.has_something():
                assert is_served(busy)
                time.sleep(0.02)
            assert is_closed(idle)
            assert waiting.receive_frame()
            assert is_closed(busy) and is_closed(waiting)
        name = "kafka_server_socket_server_metrics_expired_connections_killed_count"
        assert scrape(node).value(name) >= 3


def test_who_does_not_read_is_idle_too(tmp_path: Path) -> None:
    from tests.hostile.test_memory import batch_of
    from tests.interop.raw import PRODUCE, produce_values

    with running_node(tmp_path, connections_max_idle_ms=500) as node:
        create(node.address, topic_to_create("t"))
        with Raw(node.port) as raw, Raw(node.port, receive_buffer=4096) as slow:
            for _ in range(12):
                raw.ask(PRODUCE, 9, **produce_values("t", batch_of(900_000)))
            slow.send(frame(FETCH, 11, **fetch_values({("t", 0): 0}, partition_max_bytes=50_000_000)))
            until(lambda: connections(node) == 0)


def test_idle_connections_can_stay(tmp_path: Path) -> None:
    with running_node(tmp_path, connections_max_idle_ms=-1) as node, Raw(node.port) as raw:
        time.sleep(0.3)
        assert is_served(raw)


def test_a_muted_connection_is_not_heard_for_a_while(tmp_path: Path) -> None:
    with running_node(tmp_path) as node, Raw(node.port) as raw:
        assert is_served(raw)
        node.on_loop(lambda: next(iter(node.node.listening.connections.connections)).mute(0.4))
        began = time.monotonic()
        assert is_served(raw)
        assert time.monotonic() - began > 0.35


def test_no_more_requests_run_at_once_than_may() -> None:
    """Those that take a while: what is answered at once needs no queue."""

    async def story() -> None:
        running: list[asyncio.Future[None]] = []

        async def handle(context: Context, request: Any) -> Any:
            running.append(asyncio.get_running_loop().create_future())
            await running[-1]
            raise RuntimeError("enough")  # what it answers is of no interest here

        node = SimpleNamespace(env=SimpleNamespace(clock=SystemClock()), config=SimpleNamespace(queued_max_requests=2))
        api = Api(60, "DescribeCluster", 0, 2)
        api.handle = handle
        dispatcher = Dispatcher(cast(Any, node), [api])
        request = memoryview(request_header(60, 0, 1, "x") + b"\x00\x00")
        answers = [dispatcher(cast(Any, None), request) for _ in range(5)]
        await asyncio.sleep(0.01)
        assert (len(running), dispatcher.queued) == (2, 3)
        running[0].set_result(None)
        await asyncio.sleep(0.01)
        assert (len(running), dispatcher.queued) == (3, 2)
        assert [isinstance(answer, Later) and answer.done for answer in answers] == [True, False, False, False, False]
        await dispatcher.stop()
        assert dispatcher.queued == 0

    asyncio.run(story())
