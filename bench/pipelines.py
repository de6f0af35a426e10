"""`python -m bench.pipelines`: how long `ottla pipeline check` and `test` take for each example, as a user waits.

--rounds N      how often each is run (3)
--only NAME     examples whose name holds NAME

Needs `pip install -e .[pipelines,bench]`, and PostgreSQL for the example `capture`. A node and a database run beside;
each command is a process of its own. A line of JSON for each example: seconds of the median and of the best round, and
seconds of CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import psutil

from bench.nodes import OttlaNode
from ottla.testing.postgres import postgres_programs, running_postgres

EXAMPLES = Path(__file__).parents[1] / "examples" / "pipelines"
TOPICS = ("lines", "orders", "customers", "clicks", "transfers")
COMPACTED = ("customers",)
BARS = {"check": 2.0, "test": 20.0}


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    """Seconds, and seconds of CPU of all its processes, but for those that live for less than a tenth of a second."""
    began = time.perf_counter()
    used: dict[int, float] = {}
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
        while process.poll() is None:
            used |= _cpu_of(process.pid)
            time.sleep(0.1)
        took = time.perf_counter() - began
        output.seek(0)
        assert process.returncode == 0, output.read()
    return took, sum(used.values())


def _cpu_of(pid: int) -> dict[int, float]:
    found = {}
    try:
        root = psutil.Process(pid)
        for one in (root, *root.children(recursive=True)):
            times = one.cpu_times()
            found[one.pid] = times.user + times.system
    except psutil.Error:  # just gone
        pass
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    names = [
        one.name for one in sorted(EXAMPLES.iterdir()) if (one / "pipeline.yaml").exists() and given.only in one.name
    ]
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-bench-")))
        node = OttlaNode(folder / "node")
        node.format()
        node.start()
        stack.callback(node.stop)
        for topic in TOPICS:
            node.create_topic(topic, 1, {"cleanup.policy": "compact"} if topic in COMPACTED else {})
        environment = os.environ | {"LAKE": str(folder / "lake"), "OTTLA_BOOTSTRAP": node.bootstrap}
        environment["SHOP"] = "postgresql://nobody@127.0.0.1:9/nothing"
        if postgres_programs() is not None:
            postgres = stack.enter_context(running_postgres())
            import psycopg

            with psycopg.connect(postgres.dsn, autocommit=True) as connection:
                connection.execute("CREATE TABLE customers (id int PRIMARY KEY, name text, country text)")
            environment["SHOP"] = postgres.dsn
        for name in names:
            found: dict[str, object] = {"example": name}
            for verb, bar in BARS.items():
                file = str(EXAMPLES / name / "pipeline.yaml")
                command = [sys.executable, "-m", "ottla.cli.main", "pipeline", verb, file]
                rounds = [timed(command, environment) for _ in range(given.rounds)]
                found[verb] = {
                    "median_s": round(statistics.median(took for took, _ in rounds), 2),
                    "best_s": round(min(took for took, _ in rounds), 2),
                    "cpu_s": round(min(cpu for _, cpu in rounds), 2),
                    "bar_s": bar,
                }
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
