"""A node of one's own for a test: in this process, on a free port, in a thread with an event loop of its own.

with running_node(tmp_path, num_partitions=3) as running:
    producer = Producer({"bootstrap.servers": running.address})
"""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ottla.broker.node import Node
from ottla.broker.run import real_env
from ottla.env.disk import PosixDisk
from ottla.env.randomness import SeededRandom
from ottla.metadata import meta_properties
from ottla.model.config import BrokerConfig, broker_config, standalone

T = TypeVar("T")
_STOP_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class RunningNode:
    node: Node
    loop: asyncio.AbstractEventLoop

    @property
    def address(self) -> str:
        return self.node.address

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def on_loop(self, work: Callable[[], T]) -> T:
        """Runs a function where the node runs: the only place from which its insides may be touched."""

        async def run() -> T:
            return work()

        return self.wait_for(run())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(_STOP_WITHIN_S)


@contextmanager
def running_node(folder: Path, **settings: str | int | bool) -> Iterator[RunningNode]:
    """Settings are broker configs with `_` for `.`. A folder that was used before goes on from where it was left."""
    given = {name.replace("_", "."): _text(value) for name, value in settings.items()}
    config = broker_config(standalone(str(folder), 0) | given)
    _format(config)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="ottla node", daemon=True)
    thread.start()
    try:
        running = RunningNode(Node(real_env(), config), loop)
        running.wait_for(running.node.start())
        try:
            yield running
        finally:
            running.wait_for(running.node.stop())
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_STOP_WITHIN_S)
        loop.close()


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _format(config: BrokerConfig) -> None:
    disk, source = PosixDisk(), SeededRandom(random.SystemRandom())
    folders = dict.fromkeys((config.metadata_log_dir, *config.log_dirs))
    found: dict[str, meta_properties.MetaProperties | None] = {}
    for folder in folders:
        with suppress(OSError, meta_properties.Damaged):  # the node will say what it thinks of it
            found[folder] = meta_properties.load(disk, folder)
    known = next((meta.cluster_id for meta in found.values() if meta is not None), None)
    cluster_id = known or meta_properties.uuid_text(meta_properties.random_uuid(source))
    for folder, meta in found.items():
        if meta is None:
            disk.make_dirs(folder)
            meta = meta_properties.MetaProperties(cluster_id, config.node_id, meta_properties.random_uuid(source))
            meta_properties.store(disk, folder, meta, now_ms=0)
