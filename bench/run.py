"""`python -m bench.run`: Ottla beside Apache Kafka, one loaded at a time, in interleaved rounds.

--quick         about 3 minutes, one round: for a look, not for a claim
--only NAME     loads whose name holds NAME; `start`, `recovery` and `memory` are names too
--subject kafka Apache Kafka against itself: how far from 1.00 the ratios are is the noise of the machine
"""

from __future__ import annotations

import argparse
import datetime
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException

from bench import load, report, restarts
from bench.bars import BARS, judge, worst_loop_lag
from bench.loads import LOADS, Load, fill, measure
from bench.nodes import KafkaNode, Node, OttlaNode
from ottla.testing import apache_kafka

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class Plan:
    rounds: int
    warm_ups: int
    warm_share: float
    share: float
    starts: int
    recoveries: int
    recovery_partitions: tuple[int, ...]
    default_session: bool


FULL = Plan(5, 2, 0.6, 1.0, 9, 3, (1, 4), default_session=True)
QUICK = Plan(1, 1, 0.3, 0.35, 3, 1, (1,), default_session=False)


@dataclass(slots=True)
class Bench:
    plan: Plan
    folder: Path
    only: Sequence[str]
    subject: Callable[..., Node]
    rows: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def wants(self, name: str) -> bool:
        return not self.only or any(part in name for part in self.only)

    def say(self, text: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {text}", flush=True)

    def note(self, name: str, side: str, number: int, figures: dict[str, Any]) -> None:
        self.rows.append({"load": name, "side": side, "round": number, **figures})

    def sides(self, name: str, **settings: apache_kafka.Setting) -> dict[str, Node]:
        """A fresh node of each side, not started."""
        sides: dict[str, Node] = {
            "kafka": KafkaNode(self.folder / f"{name}-kafka", **settings),
            "ottla": self.subject(self.folder / f"{name}-ottla", **settings),
        }
        self.nodes += sides.values()
        return sides

    def run(self) -> None:
        if self.wants("start"):
            self.run_starts()
        if self.wants("recovery"):
            for partitions in self.plan.recovery_partitions:
                plural = "s" if partitions > 1 else ""
                name = f"recovery, {partitions} partition{plural}"
                self.run_recoveries(name, partitions, self.plan.recoveries, restarts.SHORT_SESSION)
            if self.plan.default_session:
                self.run_recoveries("recovery, default session", 1, 1, {})
        loads = [load_ for load_ in LOADS if self.wants(load_.name)]
        if loads or self.wants("memory"):
            self.run_loads(loads)

    def run_starts(self) -> None:
        sides = self.sides("start")
        for node in sides.values():
            restarts.prepare_starts(node)
        for number in range(self.plan.starts + 1):
            for side, node in in_turn(sides, number):
                figures = restarts.start_once(node)
                self.say(f"start {number}/{self.plan.starts}  {side}: {figures['seconds']:.3f} s")
                if number:  # the first one of each side warms the page cache
                    self.note("start", side, number, figures)
        self.remove(sides)

    def run_recoveries(self, name: str, partitions: int, times: int, settings: dict[str, int]) -> None:
        for number in range(1, times + 1):
            sides = self.sides(f"recovery-{number}", **settings)
            for side, node in in_turn(sides, number):
                figures = restarts.recover_once(node, partitions)
                self.say(f"{name} {number}/{times}  {side}: {figures['seconds']:.2f} s")
                self.note(name, side, number, figures)
                self.remove({side: node})

    def run_loads(self, loads: Sequence[Load]) -> None:
        sides = self.sides("loads")
        for side, node in sides.items():
            node.format()
            node.start()
            time.sleep(5)
            self.note("memory idle", side, 1, node.memory_mb())
            self.say(f"memory idle  {side}: {node.memory_mb()}")
        for load_ in loads:
            if load_.filled:
                for node in sides.values():
                    fill(node, load_.scaled(self.plan.share), topic_of(load_, 0))
        for number in range(1, self.plan.warm_ups + 1):
            self.run_round(sides, loads, -number, self.plan.warm_share)
        for number in range(1, self.plan.rounds + 1):
            self.run_round(sides, loads, number, self.plan.share)
        for side, node in sides.items():
            self.note("memory after the load", side, 1, node.memory_mb())
            self.say(f"memory after the load  {side}: {node.memory_mb()}")
        for node in sides.values():
            node.stop()
        self.remove(sides)

    def run_round(self, sides: dict[str, Node], loads: Sequence[Load], number: int, share: float) -> None:
        """Rounds below zero warm both sides up and are not kept."""
        label = f"round {number}/{self.plan.rounds}" if number > 0 else f"warm-up {-number}/{self.plan.warm_ups}"
        for index, load_ in enumerate(loads):
            scaled = load_.scaled(min(share, self.plan.share) if load_.filled else share)
            for side, node in in_turn(sides, number + index):
                topic = topic_of(load_, 0 if load_.filled else number)
                try:
                    figures = measure(node, scaled, topic)
                except (load.LoadError, KafkaException) as error:
                    self.say(f"{label}  {side}  {load_.name}: FAILED, {error}")
                    figures = {"error": str(error)}
                else:
                    self.say(f"{label}  {side}  {load_.name}: {in_short(figures)}")
                if number > 0:
                    self.note(load_.name, side, number, figures)

    def remove(self, sides: dict[str, Node]) -> None:
        for node in sides.values():
            node.forget_clients()
            shutil.rmtree(node.directory, ignore_errors=True)
        os.sync()


def in_turn(sides: dict[str, Node], number: int) -> list[tuple[str, Node]]:
    """Neither side is always first: what the first leaves behind (dirty pages, heat) would be the second's burden."""
    items = list(sides.items())
    return items if number % 2 == 0 else items[::-1]


def topic_of(load_: Load, number: int) -> str:
    words = "".join(letter if letter.isalnum() else "-" for letter in load_.name.lower())
    return f"{words}-r{number}" if number >= 0 else f"{words}-w{-number}"


def in_short(figures: dict[str, Any]) -> str:
    text = f"{report.number(figures['rate'])}/s, {report.number(figures['mb_per_second'])} MB/s"
    if "latency_us" in figures:
        latency = figures["latency_us"]
        text += f", p50 {report.number(latency['p50'])} us, p99 {report.number(latency['p99'])} us"
    text += f", CPU node {figures['node_cpu_seconds']:.2f} s, client {figures['client_cpu_seconds']:.2f} s"
    if "loop_lag_ms" in figures:
        text += f", loop lag p99.9 {report.number(figures['loop_lag_ms']['p99.9'])} ms"
    return text


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.run", description=__doc__, formatter_class=_AsWritten)
    parser.add_argument("--quick", action="store_true", help="one short round")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be given more than once")
    parser.add_argument("--subject", choices=("ottla", "kafka"), default="ottla", help="what is measured beside Kafka")
    parser.add_argument(
        "--data", type=Path, help="where the nodes' data goes, on the disk to measure (a temporary folder)"
    )
    parser.add_argument("--out", type=Path, help="results go to OUT.json, OUT.md and OUT.png")
    return parser.parse_args()


class _AsWritten(argparse.RawDescriptionHelpFormatter):
    pass


def results_stem(options: argparse.Namespace, date: str) -> Path | None:
    """Only a whole run against Ottla is kept unless a place is given."""
    if options.out is not None:
        return Path(options.out)
    if options.only or options.subject != "ottla":
        return None
    return RESULTS / f"{date}-first-node{'-quick' if options.quick else ''}"


def main() -> int:
    options = arguments()
    try:
        load.build()
        apache_kafka.bring_jars()
    except (load.LoadError, apache_kafka.ApacheKafkaUnavailableError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    plan = QUICK if options.quick else FULL
    date = datetime.date.today().isoformat()
    folder = Path(tempfile.mkdtemp(prefix="ottla-bench-", dir=options.data))
    bench = Bench(plan, folder, options.only, KafkaNode if options.subject == "kafka" else OttlaNode)
    try:
        bench.run()
    finally:
        for node in bench.nodes:
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)
    bench.rows += worst_loop_lag(bench.rows)
    verdicts = [verdict for verdict in (judge(bench.rows, bar) for bar in BARS) if bench.wants(verdict.bar.load)]
    about = {
        "date": date,
        "minutes": round((time.monotonic() - bench.began) / 60, 1),
        "rounds": plan.rounds,
        "subject": options.subject,
        "machine": report.machine(),
        "versions": report.versions(),
    }
    return report.conclude(results_stem(options, date), about, bench.rows, verdicts)


if __name__ == "__main__":
    sys.exit(main())
