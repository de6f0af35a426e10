"""Three controllers as real processes, and somebody who asks them who leads."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData
from kio.schema.types import TopicName
from kio.static.primitive import i32
from tests.waiting import PATIENCE_S, attempts

from ottla.broker.run import real_env
from ottla.cli.format_dirs import format_folders
from ottla.model.config import broker_config
from ottla.model.errors import ErrorCode, OttlaError
from ottla.model.ids import random_uuid, uuid_text
from ottla.model.names import METADATA_TOPIC
from ottla.testing.apache_kafka import free_port
from ottla.wire.client import Connection

_UP = " is up at "
_ANSWERS_WITHIN_S = 5.0
_QUESTION = DescribeQuorumRequest(
    topics=(TopicData(topic_name=TopicName(METADATA_TOPIC), partitions=(PartitionData(partition_index=i32(0)),)),)
)


@dataclass
class Processes:
    folder: Path
    settings: dict[str, str] = field(default_factory=dict)
    ids: tuple[int, ...] = (1, 2, 3)

    def __post_init__(self) -> None:
        self.env = real_env()
        self.cluster_id = uuid_text(random_uuid(self.env.random))
        self.ports = {i: free_port() for i in self.ids}
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        voters = ",".join(f"{i}@127.0.0.1:{port}" for i, port in self.ports.items())
        for i in self.ids:
            values = {
                "process.roles": "controller",
                "node.id": str(i),
                "listeners": f"CONTROLLER://127.0.0.1:{self.ports[i]}",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": voters,
                "log.dirs": str(self.folder / f"data-{i}"),
                **self.settings,
            }
            self._file(i).write_text("".join(f"{name}={value}\n" for name, value in values.items()))
            format_folders(broker_config(values), self.cluster_id)

    def _file(self, i: int) -> Path:
        return self.folder / f"node-{i}.properties"

    def log(self, i: int) -> str:
        path = self.folder / f"node-{i}.log"
        return path.read_text() if path.exists() else ""

    def begin(self, i: int) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "broker", "--config", str(self._file(i))]
        with (self.folder / f"node-{i}.log").open("ab") as log:
            self.processes[i] = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def start(self, *ids: int) -> None:
        before = {i: self.log(i).count(_UP) for i in ids}
        for i in ids:
            self.begin(i)
        for _ in attempts(lambda: "\n".join(self.log(i)[-1000:] for i in ids)):
            if all(self.log(i).count(_UP) > before[i] for i in ids):
                break
            for i in ids:
                assert self.processes[i].poll() is None, self.log(i)[-3000:]

    def kill(self, i: int) -> None:
        process = self.processes.pop(i)
        process.kill()
        process.wait()

    def pause(self, i: int) -> None:
        os.kill(self.processes[i].pid, signal.SIGSTOP)

    def go_on(self, i: int) -> None:
        os.kill(self.processes[i].pid, signal.SIGCONT)

    def close(self) -> None:
        for i in list(self.processes):
            self.processes[i].kill()
            self.processes.pop(i).wait()

    def describe(self, *ids: int) -> Any | None:
        """What the leader says of the quorum; None if none of these leads and has committed something."""

        async def ask(i: int) -> Any | None:
            try:
                connection = await Connection.open(self.env, "127.0.0.1", self.ports[i], within=_ANSWERS_WITHIN_S)
                async with connection:
                    answer = await connection.call(_QUESTION, within=_ANSWERS_WITHIN_S)
            except OttlaError:
                return None
            (row,) = answer.topics[0].partitions
            return row if row.error_code is ErrorCode.none and row.high_watermark >= 0 else None

        async def ask_all() -> Any | None:
            answers = await asyncio.gather(*map(ask, ids))
            leading = [row for row in answers if row is not None]
            return max(leading, key=lambda row: row.leader_epoch) if leading else None

        return asyncio.run(ask_all())

    def led(self, *ids: int, within: float = PATIENCE_S, after_epoch: int = 0) -> Any:
        deadline = time.monotonic() + within
        while time.monotonic() < deadline:
            row = self.describe(*ids)
            if row is not None and row.leader_epoch > after_epoch:
                return row
            time.sleep(0.005)
        raise AssertionError("nobody leads:\n" + "\n".join(self.log(i)[-1500:] for i in self.ids))
