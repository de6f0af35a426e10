"""Nodes of a real cluster are killed, paused, cut off and restarted in random order under load; nothing may be lost.

    python -m tests.torture.torture --minutes 30         # what `make torture` does
    python -m tests.torture.torture --rounds 100 --seed 7

A round begins one to three faults at random moments, heals them in random order, waits until every partition takes
records again, and has the ledger check all that was acknowledged. At the end everything is read anew, and the files of
the replicas are compared. As root nodes have networks of their own, which are cut too, and one has a disk that fills.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from tests.cluster.clients import create_topic, isr_is_full
from tests.kill.load import check_files
from tests.torture.faults import Fault, Scene, choose
from tests.torture.ledger import PARTITIONS, Load, Register
from tests.waiting import attempts, until

from ottla.testing.namespaces import Namespaces, is_possible
from ottla.testing.process_cluster import running_processes

NODES: Final = 3
SMALL_DISK: Final = "1g"
BACK_WITHIN_S: Final = 120.0
# Recovery, truncation and joining begin in the middle of logs, and metadata is taken from snapshots.
EAGER: Final[dict[str, Any]] = {
    "min_insync_replicas": 2, "default_replication_factor": 3, "offsets_topic_num_partitions": 3,
    "log_segment_bytes": 1 << 20, "replica_lag_time_max_ms": 5_000,
    "log_flush_offset_checkpoint_interval_ms": 500, "replica_high_watermark_checkpoint_interval_ms": 500,
    "metadata_log_max_record_bytes_between_snapshots": 20_000, "metadata_log_segment_ms": 20_000,
    "group_initial_rebalance_delay_ms": 0,
}  # fmt: skip


class Torture:
    def __init__(self, scene: Scene, dice: random.Random, rate: int) -> None:
        self.scene, self.cluster, self.dice = scene, scene.cluster, dice
        self.rounds = 0
        self.done: Counter[str] = Counter()
        self.until_progress: list[float] = []
        self.topics = [create_topic(self.cluster, PARTITIONS) for _ in range(2)]
        self.loads = [
            Load(self.cluster, topic, rate, once=once) for topic, once in zip(self.topics, (True, False), strict=True)
        ]
        self.register = Register(self.cluster, self.topics[0])
        self._began = time.monotonic()

    def round(self) -> None:
        self.rounds += 1
        faults = choose(self.scene, self.dice)
        for fault in faults:
            time.sleep(self.dice.choice((0.0, self.dice.uniform(0.0, 1.5))))
            fault.begin()
            self.done[fault.NAME] += 1
        held = self.dice.choice(
            (self.dice.uniform(0.1, 2.0), self.dice.uniform(0.1, 2.0), self.dice.uniform(8.0, 13.0))
        )
        time.sleep(held)
        for fault in self.dice.sample(faults, len(faults)):
            fault.heal()
            time.sleep(self.dice.choice((0.0, self.dice.uniform(0.0, 1.0))))
        took = self._until_progress()
        for load in self.loads:
            load.check()
        self.register.check()
        self._tell(faults, held, took)

    def _until_progress(self) -> float:
        """Until every partition has acknowledged something that was written after all was healed."""
        healed = time.monotonic()
        goals = [[count + 1 for count in load.writer.produced] for load in self.loads]
        for _ in attempts(self._complaint, within_s=BACK_WITHIN_S, pause_s=0.02):
            if all(
                sum(load.writer.confirmed) and min(map(int.__sub__, load.writer.confirmed, goal)) >= 0
                for load, goal in zip(self.loads, goals, strict=True)
            ):
                break
        took = time.monotonic() - healed
        self.until_progress.append(took)
        for node in self.cluster.ids:
            assert self.cluster.is_running(node), f"node {node} ended:\n{self.cluster.log(node)[-4000:]}"
        return took

    def _complaint(self) -> str:
        logs = "\n".join(f"-- node {i}\n{self.cluster.log(i)[-3000:]}" for i in self.cluster.ids)
        return f"not all partitions take records again\n{logs}"

    def _tell(self, faults: list[Fault], held: float, took: float) -> None:
        checked = sum(load.checked for load in self.loads)
        what = ", ".join(str(fault) for fault in faults)
        print(
            f"{time.monotonic() - self._began:6.0f} s  round {self.rounds:3}: {what}; {held:.1f} s later healed, "
            f"writes everywhere after {took:.1f} s; {checked} records checked, 0 lost",
            flush=True,
        )

    def finish(self) -> str:
        for node in self.cluster.ids:
            self.cluster.wait_until_up(node, within=BACK_WITHIN_S)
        for topic in self.topics:
            until(lambda topic=topic: isr_is_full(self.cluster, topic), within_s=BACK_WITHIN_S)  # type: ignore[misc]
        twice = [load.finish() for load in self.loads]
        self.register.finish()
        self._compare_replicas()
        times = sorted(self.until_progress)
        faults = ", ".join(f"{count} {name}" for name, count in sorted(self.done.items()))
        return (
            f"{self.rounds} rounds in {time.monotonic() - self._began:.0f} s ({faults}): "
            f"{sum(load.checked for load in self.loads)} acknowledged records, 0 lost, {twice[0]} doubled of the "
            f"idempotent producer ({twice[1]} of the one that is not), {self.register.committed} commits kept; "
            f"writes to all partitions {statistics.median(times):.1f} s after healing in the median, {times[-1]:.1f} s "
            "at worst"
        )

    def _compare_replicas(self) -> None:
        """After a clean stop all replicas have the same bytes, as far as each begins."""
        self.cluster.stop(*self.cluster.ids)
        for node in self.cluster.ids:
            check_files(self.cluster.data(node))
        for topic in self.topics:
            for number in range(PARTITIONS):
                copies = {node: _content(self.cluster.data(node) / f"{topic}-{number}") for node in self.cluster.ids}
                assert len(set(copies.values())) == 1, {node: len(copy) for node, copy in copies.items()}


def _content(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted(folder.glob("*.log")))


@contextmanager
def scene(folder: Path, *, with_networks: bool = True) -> Iterator[Scene]:
    with ExitStack() as stack:
        possible = with_networks and is_possible()
        network = stack.enter_context(Namespaces(NODES)) if possible else None
        small = NODES if possible and stack.enter_context(_small_disk(folder / f"data-{NODES}")) else None
        cluster = stack.enter_context(running_processes(folder, NODES, network=network, **EAGER))
        yield Scene(cluster, network, small)


@contextmanager
def _small_disk(place: Path) -> Iterator[bool]:
    place.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_DISK}", "ottla-torture", str(place)]
    mounted = subprocess.run(mount, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(place)], check=False)


def torture(where: Scene, seed: int, rate: int, *, rounds: int | None = None, minutes: float | None = None) -> str:
    ends = time.monotonic() + (minutes or 0) * 60
    tortured = Torture(where, random.Random(seed), rate)
    while tortured.rounds < rounds if rounds is not None else time.monotonic() < ends:
        tortured.round()
    return tortured.finish()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--rounds", type=int, help="so many, however long they take")
    parser.add_argument(
        "--seed", type=int, default=int(time.time()), help="which faults, when; not how nodes take them"
    )
    parser.add_argument("--rate", type=int, default=1000, help="records a second of each of two producers")
    parser.add_argument("--folder", type=Path, help="is kept; a temporary one is not")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-torture-")))
        where = stack.enter_context(scene(folder))
        cuts = (
            "networks and a disk too" if where.network is not None else "no networks or disks: that needs root and ip"
        )
        print(f"seed {given.seed}, {NODES} nodes in {folder}; {cuts}", flush=True)
        print(torture(where, given.seed, given.rate, rounds=given.rounds, minutes=given.minutes))


if __name__ == "__main__":
    main()
