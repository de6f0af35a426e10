"""The controller alone, with very many partitions on simulated brokers: memory, and how long it takes to move leaders.

    python -m bench.many_partitions                 100,000 partitions
    python -m bench.many_partitions 1000000

All that a decision costs is in the figures, short of disk and network: the decision, the replay, the encoding of the
batch, the new image, the index. Each size runs in a process of its own.

| figure | what happens |
|---|---|
| create | CreateTopics until all are there, 1,000 partitions a request |
| takes over | a new controller makes its index |
| moves 1,000 leaders | a broker that leads 1,000 partitions is fenced |
| gives them back | it is back in all ISRs, and leaderships go back to it |
| alters one | AlterPartition of one partition |
| heartbeat | of a broker for which nothing changes |
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Final, TypeVar
from uuid import UUID

from ottla.env.randomness import SeededRandom
from ottla.metadata.batches import metadata_batch
from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.controller import handle
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, SUPPORTED, bootstrap_records
from ottla.metadata.controller.requests import (
    AlterPartition,
    BalanceLeaders,
    BrokerHeartbeat,
    CreateTopics,
    FenceBroker,
    IsrMember,
    NewTopic,
    PartitionAlteration,
    RegisterBroker,
    Request,
)
from ottla.metadata.controller.result import Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from ottla.metadata.records.base import MetadataRecord

R = TypeVar("R")
REPLICAS: Final = 3
LEADERS: Final = 1000  # that one broker has
PER_REQUEST: Final = 1000


class Controller:
    """Decides, encodes, replays, follows; there is no quorum to wait for."""

    def __init__(self) -> None:
        self.settings = ControllerSettings("bench", SeededRandom(Random(1)), config_rules())
        self.image: MetadataImage = EMPTY_IMAGE
        self.soft = self.fresh_soft_state()
        self._append(bootstrap_records())

    def fresh_soft_state(self) -> SoftState:
        return SoftState(self.image, self.settings, lambda: 0.0)

    def submit(self, request: Request[R]) -> R:
        result = handle(request, self.image, self.settings, self.soft)
        assert not isinstance(result, Refused), result
        if result.records:
            self._append(result.records)
        return result.reply

    def _append(self, records: tuple[MetadataRecord, ...]) -> None:
        delta = MetadataDelta(self.image)
        delta.replay_all(records)
        metadata_batch(records, LATEST_METADATA_VERSION, 0)
        self.image = delta.apply(self.image.offset + len(records), 1)
        self.soft.follow(delta, self.image)


@contextmanager
def timed(name: str, times: int = 1) -> Iterator[None]:
    start = time.perf_counter()
    yield
    took = (time.perf_counter() - start) / times
    print(f"  {name:<28} {took:10.3f} s" if took > 0.01 else f"  {name:<28} {took * 1e6:10.0f} us", flush=True)


def resident_mb() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6


def with_brokers(controller: Controller, count: int) -> None:
    for broker_id in range(count):
        epoch = controller.submit(
            RegisterBroker(
                broker_id,
                "bench",
                UUID(int=1000 + broker_id),
                (Endpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0),),
                tuple(SUPPORTED.items()),
                (UUID(int=100_000 + broker_id),),
            )
        )
        controller.submit(BrokerHeartbeat(broker_id, epoch, controller.image.offset))


def expansions(controller: Controller, back: int) -> list[tuple[int, PartitionAlteration]]:
    """What leaders ask for when a follower has caught up again."""
    asked = []
    for topic in controller.image.topics.values():
        for number, now in topic.partitions.items():
            if back in now.replicas and back not in now.isr:
                isr = tuple(IsrMember(broker_id) for broker_id in (*now.isr, back))
                proposal = PartitionAlteration(topic.id, number, now.leader_epoch, isr, now.partition_epoch)
                asked.append((now.leader, proposal))
    return asked


def measure(partitions: int, per_topic: int) -> None:
    brokers = max(partitions // LEADERS, REPLICAS)
    print(f"{partitions:,} partitions in topics of {per_topic}, {REPLICAS} replicas, {brokers} brokers")
    controller = Controller()
    with_brokers(controller, brokers)
    gc.collect()
    before = resident_mb()
    with timed("create, all"):
        for first in range(0, partitions // per_topic, PER_REQUEST // per_topic):
            names = range(first, first + PER_REQUEST // per_topic)
            controller.submit(CreateTopics(tuple(NewTopic(f"topic-{name}", per_topic, REPLICAS) for name in names)))
    gc.collect()
    print(f"  {'memory':<28} {resident_mb() - before:10.0f} MB")
    gc.freeze()
    with timed("takes over"):
        controller.soft = controller.fresh_soft_state()
    led = controller.soft.index(controller.image).led_by[0]
    with timed(f"moves {led:,} leaders"):
        controller.submit(FenceBroker(0, controller.image.brokers[0].epoch))
    with timed("comes back"):
        controller.submit(BrokerHeartbeat(0, controller.image.brokers[0].epoch, controller.image.offset))
    asked = expansions(controller, 0)
    with timed(f"alters one, of {len(asked):,}", len(asked)):
        for leader, proposal in asked:
            controller.submit(AlterPartition(leader, controller.image.brokers[leader].epoch, (proposal,)))
    with timed("gives them back"):
        while controller.submit(BalanceLeaders()):
            pass
    assert controller.soft.index(controller.image).led_by[0] == led
    epoch: Any = controller.image.brokers[1].epoch
    with timed("heartbeat", 1000):
        for _ in range(1000):
            controller.submit(BrokerHeartbeat(1, epoch, controller.image.offset))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("partitions", nargs="?", type=int, default=100_000)
    parser.add_argument("--per-topic", type=int, help="partitions of a topic; by default 1, 10 and 100")
    arguments = parser.parse_args()
    if arguments.per_topic is not None:
        measure(arguments.partitions, arguments.per_topic)
        return
    for per_topic in (1, 10, 100):
        command = [sys.executable, "-m", "bench.many_partitions", str(arguments.partitions), "--per-topic"]
        subprocess.run([*command, str(per_topic)], check=True)


if __name__ == "__main__":
    main()
