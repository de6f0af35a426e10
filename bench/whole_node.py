"""`python -m bench.whole_node`: what a node does with crowds of clients and with tools, beside Apache Kafka.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import argparse
import datetime
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench import crowds, load, partitions, report
from bench.bars import Bar, Direction, judge
from bench.nodes import KafkaNode, Node, OttlaNode, ottla_command
from bench.run import in_turn
from ottla.testing import apache_kafka

RESULTS = Path(__file__).parent / "results"
ROUNDS = 3


def list_topics(node: Node, number: int) -> dict[str, Any]:
    """Each side's own tool against its own node."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        if isinstance(node, KafkaNode):
            apache_kafka.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, "--list")
        else:
            command = [*ottla_command(), "topic", "list", "--bootstrap-server", node.bootstrap]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    return {"seconds": sorted(took)[1]}


PARTS: dict[str, Callable[[Node, int], dict[str, Any]]] = {
    "topic list": list_topics,
    "1,000 partitions: made": partitions.create_thousand,
    "2,000 connections": crowds.many_connections,
    "slow readers": crowds.slow_readers,
}


def _bars() -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    many = "10,000 partitions: "
    return (
        Bar("a topic of 1,000 partitions, all led", "1,000 partitions: made", "seconds", "s", most, 1.0),
        Bar(f"{many}made", f"{many}made", "seconds", "s", most),
        Bar(f"{many}clean restart", f"{many}clean restart", "seconds", "s", most, 1.0),
        Bar(f"{many}restart after kill -9", f"{many}restart after kill -9", "seconds", "s", most, 1.0),
        Bar(f"{many}stop", f"{many}stop", "seconds", "s", most),
        Bar(f"{many}memory for each 1,000", f"{many}memory", "mb_per_thousand", "MB", most),
        Bar(f"{many}idle CPU", f"{many}idle", "percent_of_a_core", "% of a core", most, 2.0, absolute=True),
        Bar("2,000 connections: share of the rate on 10", "2,000 connections", "share", "", least, 0.9, absolute=True),
        Bar("2,000 connections: memory", "2,000 connections", "rss", "MB", most, 120.0, absolute=True),
        Bar("200 slow readers: share of 200 MB/s", "slow readers", "share", "", least, 0.9, absolute=True),
        Bar("200 slow readers: memory", "slow readers", "rss", "MB", most, 120.0, absolute=True),
        Bar("topic list, the tool", "topic list", "seconds", "s", most, 0.35),
    )


class Bench:
    def __init__(self, folder: Path, only: Sequence[str]) -> None:
        self.rows: list[dict[str, Any]] = []
        self._folder = folder
        self._only = only
        self._nodes: list[Node] = []
        self._began = time.monotonic()

    def wants(self, name: str) -> bool:
        return not self._only or any(part in name for part in self._only)

    def run(self) -> None:
        parts = {name: part for name, part in PARTS.items() if self.wants(name)}
        if parts:
            self._run_parts(parts)
        if self.wants("10,000 partitions"):
            for node in self._sides("many", partitions.SETTLED).values():
                for name, figures in partitions.ten_thousand(node, 1).items():
                    self._note(name, node.side, 1, figures)
                shutil.rmtree(node.directory, ignore_errors=True)

    def _run_parts(self, parts: dict[str, Callable[[Node, int], dict[str, Any]]]) -> None:
        sides = self._sides("parts", {})
        for node in sides.values():
            node.format()
            node.start()
        for number in range(ROUNDS + 1):
            for name, part in parts.items():
                for side, node in in_turn(sides, number):
                    figures = part(node, number)
                    self._note(name, side, number, figures)
        for node in sides.values():
            node.stop()
            shutil.rmtree(node.directory, ignore_errors=True)

    def _sides(self, name: str, settings: dict[str, int]) -> dict[str, Node]:
        sides: dict[str, Node] = {
            "kafka": KafkaNode(self._folder / f"{name}-kafka", **settings),
            "ottla": OttlaNode(self._folder / f"{name}-ottla", **settings),
        }
        self._nodes += sides.values()
        return sides

    def _note(self, name: str, side: str, number: int, figures: dict[str, Any]) -> None:
        """Round 0 warms both sides up and is not kept."""
        shown = ", ".join(f"{key} {report.number(value)}" for key, value in figures.items())
        print(f"{time.monotonic() - self._began:6.0f} s  {name} {number}/{ROUNDS}  {side}: {shown}", flush=True)
        if number:
            self.rows.append({"load": name, "side": side, "round": number, **figures})

    def kill(self) -> None:
        for node in self._nodes:
            node.kill()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.whole_node", description=__doc__)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="may be given more than once")
    parser.add_argument("--out", type=Path, help="results go to OUT.json, OUT.md and OUT.png")
    options = parser.parse_args()
    try:
        load.build()
        apache_kafka.bring_jars()
    except (load.LoadError, apache_kafka.ApacheKafkaUnavailableError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2
    began, date = time.monotonic(), datetime.date.today().isoformat()
    folder = Path(tempfile.mkdtemp(prefix="ottla-bench-"))
    bench = Bench(folder, options.only)
    try:
        bench.run()
    finally:
        bench.kill()
        shutil.rmtree(folder, ignore_errors=True)
    verdicts = [verdict for verdict in (judge(bench.rows, bar) for bar in _bars()) if bench.wants(verdict.bar.load)]
    about = {
        "date": date,
        "minutes": round((time.monotonic() - began) / 60, 1),
        "rounds": ROUNDS,
        "machine": report.machine(),
        "versions": report.versions(),
    }
    stem = options.out or (None if options.only else RESULTS / f"{date}-whole-node")
    return report.conclude(stem, about, bench.rows, verdicts)


if __name__ == "__main__":
    sys.exit(main())
