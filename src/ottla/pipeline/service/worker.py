"""`ottla pipelines serve`: runs the deployed pipelines of the partitions that the group gives to it.

Workers are a consumer group over the topic of specs. A worker that is new, or gone, makes Kafka assign partitions anew,
and whoever gets one runs its pipelines from their checkpoints on. Each is a process of its own, which ends with the
worker: its standard input is a pipe that the worker holds.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.service import records
from ottla.pipeline.service.records import DEPLOYED, GROUP, LOGS, STATUS, Deployed, Told
from ottla.pipeline.service.supervised import Supervised

_TELL_EVERY_S: Final = 5.0
_STOP_WITHIN_S: Final = 90.0
_LAST_LINES: Final = 50
_SAID: Final = "ottla: "

Say = Callable[[str], None]


class Pipeline:
    """One that this worker has been given."""

    def __init__(self, one: Deployed, partition: int, worker: Worker) -> None:
        self.one = one
        self.partition = partition
        self.supervised = Supervised(time.monotonic())
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._error: str | None = None
        self._told_at = 0.0
        self._reading: threading.Thread | None = None

    @property
    def checkpoint(self) -> Checkpoint:
        return Checkpoint(self._worker.folder / "checkpoints" / self.one.name)

    def tend(self) -> None:
        now = time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            self._ended(now)
        if self.supervised.should_start(now):
            self._start(now)
        if now - self._told_at > _TELL_EVERY_S:
            self.tell("running" if self._process is not None else "waiting")

    def _start(self, now: float) -> None:
        folder = self._worker.folder / "specs" / self.one.name
        try:
            file = records.unpack(self.one, folder)
        except (OSError, OttlaError) as error:
            told = error.strerror if isinstance(error, OSError) else error
            self._error = f"{folder} cannot be written: {told}"
            self.supervised.has_started(now)
            self.supervised.has_ended(now)
            return
        command = [sys.executable, "-m", "ottla.cli.main", "pipeline", "run", str(file)]
        command += ["-b", self._worker.bootstrap, "--checkpoint", str(self.checkpoint.folder), "--while-stdin-is-open"]
        self._last.clear()
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._reading = threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reading.start()
        self.supervised.has_started(now)
        self.tell("starting")

    def _read(self, output: Any) -> None:
        for line in output:
            text = line.decode("utf-8", "backslashreplace").rstrip()
            self._last.append(text)
            self._worker.log(self.one.name, text)

    def _ended(self, now: float) -> None:
        assert self._process is not None
        code = self._process.returncode
        if self._reading is not None:
            self._reading.join(5.0)
        self._process = None
        wait = self.supervised.has_ended(now)
        self._error = self._reason() or f"it has ended with code {code}"
        self._worker.log(self.one.name, f"has ended with code {code}; it is started again in {wait:g} s")
        self.tell("waiting")

    def _reason(self) -> str | None:
        """What the run itself says of its end, which may take several lines; else the last that it has said."""
        said = list(self._last)
        begin = max((n for n, line in enumerate(said) if line.startswith(_SAID)), default=len(said) - 1)
        return " ".join(line.removeprefix(_SAID).strip() for line in said[begin:]) if said else None

    def renew(self, one: Deployed) -> None:
        """Another spec: the old one is stopped, and the new one runs."""
        if (one.spec, one.modules) != (self.one.spec, self.one.modules):
            self.stop()
            self.one, self._error = one, None
            self.supervised.is_new_now(time.monotonic())

    def stop(self) -> None:
        """After its micro-batch, if that ends soon."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._process = None
        self.supervised.began = None

    def tell(self, state: str) -> None:
        self._told_at = time.monotonic()
        status = self.checkpoint.status() or {}
        if state == "running" and status.get("state") == "running":
            self._error = None
        queries = status.get("queries", {})
        name, restarts = self.one.name, self.supervised.restarts
        self._worker.tell(Told(name, state, self._worker.name, time.time(), restarts, self._error, queries))


class Worker:
    def __init__(
        self, bootstrap: str, folder: Path, name: str | None, say: Say, session_timeout_s: float = 10.0
    ) -> None:
        self.bootstrap = bootstrap
        self.folder = folder
        self.name = name or f"{socket.gethostname()}-{os.getpid()}"
        self.pipelines: dict[str, Pipeline] = {}
        self._say = say
        self._session_timeout_s = session_timeout_s
        self._producer: Any = None
        self._catching_up: dict[int, dict[bytes, Any]] = {}
        """Of partitions that were not yet read to their ends: the newest record of each pipeline. Only then is it known
        what is still deployed, and how."""

    def serve(self, should_stop: Callable[[], bool]) -> None:
        from confluent_kafka import Consumer, Producer

        records.make_topics(self.bootstrap)
        quiet = {"bootstrap.servers": self.bootstrap, "error_cb": lambda error: None, "log_level": 0}
        self._producer = Producer({**quiet, "linger.ms": 20})
        consumer = Consumer(
            {
                **quiet,
                "group.id": GROUP,
                "enable.auto.commit": "false",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "enable.partition.eof": "true",
                "session.timeout.ms": int(self._session_timeout_s * 1000),
                "heartbeat.interval.ms": int(self._session_timeout_s * 300),
                "max.poll.interval.ms": 600_000,  # stopping pipelines may take long
            }
        )
        consumer.subscribe([DEPLOYED], on_assign=self._given, on_revoke=self._taken, on_lost=self._taken)
        self._say(f"worker {self.name} serves pipelines of {self.bootstrap}; their files are in {self.folder}")
        try:
            while not should_stop():
                message = consumer.poll(0.3)
                if message is not None:
                    self.hear(message)
                for pipeline in list(self.pipelines.values()):
                    pipeline.tend()
                self._producer.poll(0)
        finally:
            self._leave({pipeline.partition for pipeline in self.pipelines.values()})
            consumer.close()
            self._producer.flush(10)

    def _given(self, consumer: Any, partitions: list[Any]) -> None:
        from confluent_kafka import OFFSET_BEGINNING

        for one in partitions:
            one.offset = OFFSET_BEGINNING  # the table of what is deployed
            self.catch_up(one.partition)
        consumer.assign(partitions)

    def catch_up(self, partition: int) -> None:
        self._catching_up[partition] = {}

    def _taken(self, consumer: Any, partitions: list[Any]) -> None:
        for one in partitions:
            self._catching_up.pop(one.partition, None)
        self._leave({one.partition for one in partitions})

    def _leave(self, partitions: set[int]) -> None:
        for name, pipeline in list(self.pipelines.items()):
            if pipeline.partition in partitions:
                self._say(f"{name}: another worker takes over, or this one ends")
                pipeline.stop()
                pipeline.tell("stopped")
                del self.pipelines[name]

    def hear(self, message: Any) -> None:
        """A record of the topic of specs, or that a partition has no more now."""
        from confluent_kafka import KafkaError

        behind = self._catching_up.get(message.partition())
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF and behind is not None:
                del self._catching_up[message.partition()]
                for newest in behind.values():
                    self._act_on(newest)
        elif behind is not None:
            behind[message.key()] = message
        else:
            self._act_on(message)

    def _act_on(self, message: Any) -> None:
        name = (message.key() or b"").decode()
        pipeline = self.pipelines.get(name)
        if message.value() is None:
            if pipeline is not None:
                self._say(f"{name}: undeployed")
                pipeline.stop()
                del self.pipelines[name]
                self._produce(STATUS, None, name)
            return
        try:
            one = records.deployed(message.value())
        except (ValueError, TypeError) as error:
            self._say(f"{DEPLOYED}-{message.partition()}@{message.offset()} is no pipeline: {error}")
            return
        if pipeline is None:
            self._say(f"{name}: is run here")
            self.pipelines[name] = Pipeline(one, message.partition(), self)
        else:
            pipeline.renew(one)

    def log(self, name: str, line: str) -> None:
        self._say(f"{name}: {line}")
        self._produce(LOGS, line.encode(), name, headers=[("worker", self.name.encode())])

    def tell(self, told: Told) -> None:
        self._produce(STATUS, told.to_json(), told.name)

    def _produce(self, topic: str, value: bytes | None, name: str, **more: Any) -> None:
        try:
            self._producer.produce(topic, value, name, **more)
        except BufferError:  # the cluster has been away for long; what pipelines say must not stop them
            pass
