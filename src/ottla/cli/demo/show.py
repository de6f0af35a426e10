"""`python -m ottla.cli.demo.show ADDRESS FOLDER COMMAND`: runs the small pipeline, writes orders for it, tells what
comes out. First COMMAND, which brings PySpark, if it is not empty. All ends when standard input does.
"""

from __future__ import annotations

import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ottla.cli.demo.beside import is_installed
from ottla.cli.output import note

ORDERS, SALES = "demo-orders", "demo-sales"
SPEC: Final = Path(__file__).with_name("pipeline.yaml")
ITEMS: Final = {"apples": 1.5, "pears": 2.2, "plums": 3.1, "quinces": 4.0}
_ORDER_EVERY_S: Final = 0.25
_FIRST_LINES: Final = 12
_LATER_EVERY_S: Final = 60.0
_KEEP_MS: Final = 3_600_000
_GIVE_UP_S: Final = 3.0
_FIRST_CLIENTS_S: Final = 10.0
"""Whoever starts a broker tries it at once, perhaps with a pip of his own; what is installed here can wait for that."""


def tell(line: str) -> None:
    note(f"pipeline: {line}")


class Life:
    """Until whoever started this is gone, or wants it to end."""

    def __init__(self) -> None:
        self.over = threading.Event()
        threading.Thread(target=self._wait, daemon=True).start()

    def _wait(self) -> None:
        while os.read(sys.stdin.fileno(), 4096):
            pass
        self.over.set()


@contextmanager
def child(command: Sequence[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """In a group of its own, all of which is gone afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True,
            env={**os.environ, **environment},
        )  # fmt: skip
    try:
        yield process
    finally:
        assert process.stdin is not None
        process.stdin.close()
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Ctrl-C first, upon which pip tidies up; then for good."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        deadline = time.monotonic() + _GIVE_UP_S
        while time.monotonic() < deadline and _group_lives(process):
            time.sleep(0.02)
    process.wait()


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    process.poll()
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def installed(command: str, folder: Path, life: Life) -> bool:
    """Whether PySpark is there now. What pip needs on the way is in the folder, and gone afterwards."""
    if not is_installed():
        tell(
            "PySpark is being installed in the background (500 MB, only the first time), then a small pipeline starts."
        )
        tell("The broker does not wait for it; --no-spark (make up ARGS=--no-spark) leaves it out.")
        if life.over.wait(_FIRST_CLIENTS_S):
            return False
    log, space = folder / "install.log", folder / "tmp"
    space.mkdir(exist_ok=True)
    try:
        with child(shlex.split(command), log, TMPDIR=str(space)) as process:
            while process.poll() is None:
                if life.over.wait(0.1):
                    return False
    finally:
        shutil.rmtree(space, ignore_errors=True)
    if process.returncode:
        tell(f"PySpark could not be installed, so there is none; what was said is in {log}")
    return process.returncode == 0


class Shop:
    """Writes orders, and tells what the pipeline makes of them."""

    def __init__(self, address: str) -> None:
        from confluent_kafka import Consumer, Producer, TopicPartition

        quiet = {"bootstrap.servers": address, "log_level": 0, "error_cb": lambda error: None}
        self._producer = Producer(quiet)
        self._consumer = Consumer({**quiet, "group.id": "demo", "enable.auto.commit": False})
        # those of before are not news
        end = self._consumer.get_watermark_offsets(TopicPartition(SALES, 0), 30, False)[1]
        self._consumer.assign([TopicPartition(SALES, 0, end)])
        self._chance = random.Random()
        self._told = 0
        self._told_at = 0.0
        self._ordered_at = 0.0

    def tend(self, *, is_open: bool) -> None:
        """For a moment. Orders come when they are dealt with, so that there is no heap of old ones at first."""
        if is_open and time.monotonic() - self._ordered_at >= _ORDER_EVERY_S:
            self._ordered_at = time.monotonic()
            item = self._chance.choice(list(ITEMS))
            price = round(ITEMS[item] * self._chance.uniform(0.8, 1.2), 2)
            self._producer.produce(ORDERS, json.dumps({"item": item, "price": price}), item)
        self._producer.poll(0)
        came = self._consumer.consume(100, 0.1)
        self._came([json.loads(value) for one in came if one.error() is None and (value := one.value()) is not None])

    def _came(self, rows: list[dict[str, Any]]) -> None:
        for since in sorted({row["since"] for row in rows}):
            now = time.monotonic()
            if self._told >= _FIRST_LINES and now - self._told_at < _LATER_EVERY_S:
                continue
            self._told, self._told_at = self._told + 1, now
            tell(line_of(since, [row for row in rows if row["since"] == since]))
            if self._told == _FIRST_LINES:
                tell(f"and so on, from now on once a minute; `ottla consume {SALES}` shows all of it")


def line_of(since: str, rows: list[dict[str, Any]]) -> str:
    began = datetime.fromisoformat(since).astimezone()
    sold = ", ".join(f"{row['item']} {row['orders']}" for row in sorted(rows, key=lambda row: str(row["item"])))
    worth = sum(float(row["worth"]) for row in rows)
    return f"{began:%H:%M:%S}  sold in 5 s: {sold}; worth {worth:.2f}"


def run(address: str, folder: Path, life: Life) -> None:
    from ottla.cli.supervise.child import last_error
    from ottla.pipeline import cluster_questions
    from ottla.pipeline.checkpoint import Checkpoint

    for topic in (ORDERS, SALES):
        cluster_questions.create_topic(address, topic, 1, retention_ms=str(_KEEP_MS))
    log, checkpoint = folder / "pipeline.log", Checkpoint(folder / "state")
    command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(SPEC), "-b", address]
    command += ["--checkpoint", str(checkpoint.folder), "--while-stdin-is-open"]
    with child(command, log) as process:
        tell(f"a small one starts, on Spark: orders of topic {ORDERS} become sales in topic {SALES} ({SPEC})")
        shop = Shop(address)
        while not life.over.is_set():
            shop.tend(is_open=(checkpoint.status() or {}).get("state") == "running")
            if process.poll() is not None:
                tell(f"it has ended: {last_error(log, 0, or_last=True)} (all that it said is in {log})")
                return


def main(address: str, folder: Path, first: str) -> None:
    os.nice(5)  # it is there to be looked at; the node is there to work
    life = Life()
    folder.mkdir(exist_ok=True)
    try:
        if not first or installed(first, folder, life):
            run(address, folder, life)
    except Exception as error:
        if not life.over.is_set():  # else the node is gone already, and so is what this was for
            tell(f"it has ended: {error}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
