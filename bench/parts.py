"""A bench in parts: each is run against both sides in turn, and its figures are held against bars."""

from __future__ import annotations

import argparse
import datetime
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import load, report
from bench.bars import Bar, judge
from bench.nodes import KafkaNode, Node, OttlaNode
from bench.run import in_turn
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import Setting

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3
Figures = dict[str, Any]
Part = Callable[[Node, int], Figures]


@dataclass(frozen=True, slots=True)
class Lone:
    """Run once on each side, on a node of its own that is not running yet; gives figures by load."""

    settings: Mapping[str, Setting]
    run: Callable[[Node, int], dict[str, Figures]]


Sides = Callable[[Path, Mapping[str, Setting]], dict[str, Node]]


def one_node_each(folder: Path, settings: Mapping[str, Setting]) -> dict[str, Node]:
    return {"kafka": KafkaNode(folder / "kafka", **settings), "ottla": OttlaNode(folder / "ottla", **settings)}


@dataclass(frozen=True, slots=True)
class Plan:
    name: str
    about: str
    parts: Mapping[str, Part]
    bars: Sequence[Bar]
    settings: Mapping[str, Setting] = field(default_factory=dict)
    lone: Mapping[str, Lone] = field(default_factory=dict)
    sides: Sides = one_node_each
    side: str = "One node"  # what stands on each side, for the report
    alone: str = ""  # what was measured, where nothing of Apache Kafka's stands beside it


class Bench:
    def __init__(self, plan: Plan, folder: Path, only: Sequence[str], rounds: int) -> None:
        self.rows: list[dict[str, Any]] = []
        self.failed: list[str] = []
        self._plan = plan
        self._folder = folder
        self._only = only
        self._rounds = rounds
        self._nodes: list[Node] = []
        self._began = time.monotonic()

    def wants(self, name: str) -> bool:
        return not self._only or any(part in name for part in self._only)

    def run(self) -> None:
        parts = {name: part for name, part in self._plan.parts.items() if self.wants(name)}
        if parts:
            self._run_parts(parts)
        for name, lone in self._plan.lone.items():
            if self.wants(name):
                try:
                    self._run_lone(name, lone)
                except Exception:  # the figures of all the others are not to be lost
                    traceback.print_exc()
                    self.failed.append(name)

    def _run_lone(self, name: str, lone: Lone) -> None:
        for node in self._sides(name.replace(",", "").replace(" ", "-"), lone.settings).values():
            for load_, figures in lone.run(node, 1).items():
                self._note(load_, node.side, 1, figures)
            shutil.rmtree(node.directory, ignore_errors=True)

    def _run_parts(self, parts: Mapping[str, Part]) -> None:
        sides = self._sides("parts", self._plan.settings)
        for node in sides.values():
            node.format()
            node.start()
        for number in range(self._rounds + 1):
            for name, part in parts.items():
                for side, node in in_turn(sides, number):
                    self._note(name, side, number, part(node, number))
        for node in sides.values():
            node.stop()
            shutil.rmtree(node.directory, ignore_errors=True)

    def _sides(self, name: str, settings: Mapping[str, Setting]) -> dict[str, Node]:
        sides = self._plan.sides(self._folder / name, settings)
        self._nodes += sides.values()
        return sides

    def _note(self, name: str, side: str, number: int, figures: Figures) -> None:
        """Round 0 warms both sides up and is not kept."""
        numbers = {key: value for key, value in figures.items() if isinstance(value, int | float)}
        shown = ", ".join(f"{key} {report.number(value)}" for key, value in numbers.items())
        print(f"{time.monotonic() - self._began:6.0f} s  {name} {number}/{self._rounds}  {side}: {shown}", flush=True)
        if number:
            self.rows.append({"load": name, "side": side, "round": number, **figures})

    def kill(self) -> None:
        for node in self._nodes:
            node.kill()


def run(plan: Plan) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m bench.{plan.name.replace('-', '_')}", description=plan.about)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be given more than once")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"after one to warm up; {ROUNDS} if not given")
    parser.add_argument("--out", type=Path, help="results go to OUT.json, OUT.md and OUT.png")
    options = parser.parse_args()
    try:
        load.build()
        load.build_replay()
        apache_kafka.bring_jars()
    except (load.LoadError, apache_kafka.ApacheKafkaUnavailableError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    began, date = time.monotonic(), datetime.date.today().isoformat()
    folder = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    bench = Bench(plan, folder, options.only, options.rounds)
    try:
        bench.run()
    finally:
        bench.kill()
        shutil.rmtree(folder, ignore_errors=True)
    measured = {row["load"] for row in bench.rows}  # a part may have figures of several names
    bars = [bar for bar in plan.bars if bench.wants(bar.load) or bar.load in measured]
    verdicts = [judge(bench.rows, bar) for bar in bars]
    about = {
        "date": date,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "rounds": options.rounds,
        "sides": plan.side,
        **({"alone": plan.alone} if plan.alone else {}),
        "machine": report.machine(),
        "versions": report.versions(),
    }
    stem = options.out or (None if options.only else RESULTS / f"{date}-{plan.name}")
    concluded = report.conclude(stem, about, bench.rows, verdicts)
    for name in bench.failed:
        print(f"bench: {name} failed, see above; what it measured is not in the results", file=sys.stderr)
    return 2 if bench.failed else concluded
