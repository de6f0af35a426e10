"""Runs a node in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import logging
import os
import random
import signal
from collections.abc import Callable
from math import inf
from typing import Any, Final

from ottla.broker.file_limit import raise_file_limit, what_is_wrong_with
from ottla.broker.later_parts import import_in_background
from ottla.broker.lifecycle import StartGivenUp
from ottla.broker.node import Node
from ottla.env import logs
from ottla.env.clock import SystemClock
from ottla.env.disk import PosixDisk
from ottla.env.event_loop import new_event_loop
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.process_metrics import ProcessFigures
from ottla.env.randomness import SeededRandom
from ottla.model.config import BrokerConfig
from ottla.model.errors import OttlaError

_log = logging.getLogger("ottla.broker")
_NO_LIMIT = (1 << 63) - 1
_FIRST_CLIENTS_S: Final = 1.0  # they go before imports that nobody waits for
_STOP_IS_LONG_S: Final = 10.0
_NOT_THE_SAME_PRESS_S: Final = 0.5  # a terminal and a supervisor may both pass on one Ctrl-C
_INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it


def real_env() -> Env:
    disk, process = PosixDisk(), ProcessFigures()
    env = Env(SystemClock(), disk, TcpNetwork(), PoolExecutor(), SeededRandom(random.SystemRandom()))
    env.metrics.add(process.collect, refresh=process.refresh)
    env.metrics.add(disk.times.collect)
    return env


def run(config: BrokerConfig, *, on_started: Callable[[str], None], among_others: bool = False) -> None:
    """Returns after a clean stop (SIGINT, SIGTERM or SIGHUP). SIGUSR1 writes the loop's lag to the log.

    A stop that takes long says what it waits for, and a second SIGINT then ends the process as it is.

    A signal while the node starts stops it as soon as it has, or at once while it waits for others: `on_started` is
    then not called. `among_others` is whether other nodes log to the same place.
    """
    logs.set_up(str(config.get("ottla.log.format")), node_id=config.node_id, among_others=among_others)
    raise_file_limit()
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(config, on_started))
    finally:
        # Whatever nobody waits for any more, as the name of a host that was looked up, would be told of while Python
        # itself goes away, and by then the log cannot be written.
        logging.getLogger("asyncio").disabled = True


async def _serve(config: BrokerConfig, on_started: Callable[[str], None]) -> None:
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    node = Node(real_env(), config)

    told_at = inf

    def told_to_stop(by: signal.Signals) -> None:
        nonlocal told_at
        if by is signal.SIGINT and loop.time() > told_at + _NOT_THE_SAME_PRESS_S:
            _log.warning("told twice to stop: ending at once. The next start recovers the logs")
            _end_at_once()
        told_at = min(told_at, loop.time())
        stop.set()
        node.give_up_start()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told_to_stop, number)
    loop.add_signal_handler(signal.SIGUSR1, _tell_lag, node)
    gc.disable()  # of what a start makes little goes away again
    try:
        await _start(node)
    except StartGivenUp:
        await _stop(node)
        return
    gc.enable()
    if (warning := what_is_wrong_with(node)) is not None:
        _log.warning("%s", warning)
    # What was made while starting stays for good: full collections need not look at it again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 5, 400)  # requests leave few cycles behind; one look is over in a few milliseconds
    if not stop.is_set():
        _log.info("serving clients at %s", node.address, extra={"address": node.address, "cluster_id": node.cluster_id})
        on_started(node.address)
    loop.call_later(_FIRST_CLIENTS_S, import_in_background, node.dispatcher.apis.values())
    assert node.failed is not None
    ends: list[asyncio.Future[Any]] = [loop.create_task(stop.wait()), node.failed]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    node.raise_failure()
    _log.info("stopping")
    await _stop(node)


async def _stop(node: Node) -> None:
    stopping = asyncio.get_running_loop().create_task(node.stop())
    while not stopping.done():
        await asyncio.wait((stopping,), timeout=_STOP_IS_LONG_S)
        if not stopping.done():
            _log.warning("still stopping, in %s. Ctrl-C, or SIGINT, ends this node at once", _place_of(stopping))
    await stopping
    node.raise_failure()  # its disk may have failed meanwhile


def _place_of(task: asyncio.Task[None]) -> str:
    """The coroutines that it is in, from the outermost to the one that waits."""
    names = []
    inner: Any = task.get_coro()
    while inspect.iscoroutine(inner):
        names.append(inner.__qualname__)
        inner = inner.cr_await
    return " > ".join(names)


def _end_at_once() -> None:
    os._exit(_INTERRUPTED)


async def _start(node: Node) -> None:
    limit_ms = node.config.get_int("server.max.startup.time.ms")
    try:
        async with asyncio.timeout(None if limit_ms == _NO_LIMIT else limit_ms / 1000) as within:
            await node.start()
    except TimeoutError:
        if not within.expired():
            raise
        raise OttlaError(f"the node has not started within {limit_ms} ms (server.max.startup.time.ms)") from None


def _tell_lag(node: Node) -> None:
    lag = node.loop_lag.take()
    figures = {"p50": lag.p50_ms, "p99": lag.p99_ms, "p99.9": lag.p999_ms, "max": lag.max_ms, "samples": lag.samples}
    _log.info("%s", json.dumps({"loop_lag_ms": figures}), extra={"loop_lag_ms": figures})
