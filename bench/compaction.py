"""`python -m bench.compaction`: the same log cleaned by Apache Kafka and by Ottla: how long it takes, what it needs.

--only NAME     parts whose name holds NAME

2 GB of records of 100 bytes, a tenth of them with keys of their own, in 256 MB segments, written into the folder of a
topic while its node is stopped: the same files on both sides. Cleaning begins when min.cleanable.dirty.ratio is
lowered, and has ended when cleaner-offset-checkpoint says so; waiting for the cleaner's next look is a tenth of a
second at most. Uncompressed, a producer with one small record in flight goes on meanwhile.

OTTLA_BENCH_COMPACTION_LOGS names a folder where the logs are kept for the next run; making them takes a minute.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import numpy as np
from confluent_kafka import Producer
from crc32c import crc32c

from bench.bars import Bar, Direction
from bench.memory import Memory
from bench.nodes import Node
from bench.parts import Lone, Plan, run
from ottla.log.paths import CLEAN_SHUTDOWN_MARK, CLEANER_CHECKPOINT, LOG_SUFFIX, PARTITION_METADATA, offset_name
from ottla.record.batch import HEADER, HEADER_SIZE, Codec
from ottla.record.builder import build_batch
from ottla.record.compression import compress
from ottla.record.records import Record

SIZE = int(os.environ.get("OTTLA_BENCH_COMPACTION_BYTES", 2_000_000_000))
LOGS = os.environ.get("OTTLA_BENCH_COMPACTION_LOGS")
SEGMENT = 256 << 20
A_BATCH, RECORD = 150, 100
KEY = 12
SETTINGS = {"log.cleaner.backoff.ms": 100, "log.message.timestamp.before.max.ms": 9223372036854775807}
TOPIC = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(SEGMENT)}
DEDUPE_MB = 128


def batches(codec: Codec) -> Iterator[bytes]:
    """Keys at random from a tenth as many as there are records; values that compress about as JSON does."""
    random = np.random.default_rng(1)
    count = SIZE // (A_BATCH * (RECORD + 10))
    keys = A_BATCH * count // 10
    now = int(time.time() * 1000)
    words = random.integers(97, 123, size=(64, RECORD - KEY), dtype=np.uint8)
    words[:, ::3] = ord("e")
    key, value = b"#" * KEY, b"*" * (RECORD - KEY)
    pattern = build_batch([Record(key, value, now)] * A_BATCH)
    template = np.frombuffer(pattern, dtype=np.uint8)
    key_at, value_at = _places(pattern, key), _places(pattern, value)
    digits = 10 ** np.arange(KEY - 1, -1, -1, dtype=np.int64)
    for number in range(count):
        made = template.copy()
        chosen = random.integers(0, keys, size=A_BATCH)
        made[key_at] = chosen[:, None] // digits % 10 + 48
        made[value_at] = words[random.integers(0, 64, size=A_BATCH)]
        body = made[HEADER_SIZE:].tobytes()
        yield _sealed(made, compress(codec, body) if codec else body, codec, number * A_BATCH)


def _places(batch: bytes, part: bytes) -> Any:
    """The positions of each byte of a part that comes once in every record."""
    starts, at = [], -1
    while (at := batch.find(part, at + 1)) >= 0:
        starts.append(at)
        at += len(part) - 1
    assert len(starts) == A_BATCH
    return np.array(starts)[:, None] + np.arange(len(part))


def _sealed(made: Any, body: bytes, codec: Codec, base_offset: int) -> bytes:
    fields = list(HEADER.unpack_from(made))
    fields[0], fields[1], fields[2], fields[5] = base_offset, HEADER_SIZE - 12 + len(body), 0, int(codec)
    batch = bytearray(HEADER.pack(*fields)) + body
    batch[17:21] = crc32c(memoryview(batch)[21:]).to_bytes(4, "big")
    return bytes(batch)


def fill(folder: Path, codec: Codec) -> tuple[int, int]:
    """Gives the base offset of the last segment, which is not cleaned, and the size of all before it."""
    base = size = total = 0
    file = (folder / (offset_name(0) + LOG_SUFFIX)).open("wb")
    limit = min(SEGMENT, SIZE // 8)
    for number, batch in enumerate(batches(codec)):
        if size + len(batch) > limit:
            file.close()
            base, total, size = number * A_BATCH, total + size, 0
            file = (folder / (offset_name(base) + LOG_SUFFIX)).open("wb")
        file.write(batch)
        size += len(batch)
    file.close()
    return base, total


def place(filled: Path, folder: Path, codec: Codec) -> tuple[int, int]:
    """The same, in the folder of a partition; who is the second to need them finds the files made."""
    if not filled.exists():
        begun = filled.with_suffix(".begun")
        shutil.rmtree(begun, ignore_errors=True)
        begun.mkdir(parents=True)
        fill(begun, codec)
        begun.rename(filled)
    for path in folder.iterdir():
        if path.name != PARTITION_METADATA:
            path.unlink()
    for path in filled.iterdir():
        shutil.copyfile(path, folder / path.name)
    base = max(int(path.stem) for path in filled.iterdir())
    return base, sum(path.stat().st_size for path in filled.iterdir() if int(path.stem) < base)


def p99_of_small_produces(node: Node, topic: str, until: threading.Event, at_least: int) -> float:
    """One record in flight, with acks=all, until somebody says so."""
    producer = Producer({"bootstrap.servers": node.bootstrap, "linger.ms": 0, "acks": "all", "log_level": 0})
    took: list[float] = []
    while not until.is_set() or len(took) < at_least:
        began = time.perf_counter()
        producer.produce(topic, b"x" * 100)
        producer.flush(30)
        took.append(time.perf_counter() - began)
        time.sleep(0.002)
    took.sort()
    return took[len(took) * 99 // 100] * 1000


def cleaning(codec: Codec, *, with_load: bool) -> Any:
    def measured(node: Node, number: int) -> dict[str, dict[str, Any]]:
        name = f"clean {codec.name.lower() if codec else 'uncompressed'}"
        node.format()
        node.start()
        node.create_topic("table", 1, TOPIC)
        node.create_topic("small", 1)
        node.stop()
        node.forget_clients()
        logs = Path(LOGS) if LOGS else node.directory.parent
        base, size = place(logs / f"{codec.name.lower()}-{SIZE}", node.data / "table-0", codec)
        (node.data / CLEAN_SHUTDOWN_MARK).unlink(missing_ok=True)
        os.sync()  # segments that rolled in the course of things have been synced long ago
        node.start()
        figures = _clean(node, base, size, with_load=with_load)
        node.stop()
        return {name: figures}

    return measured


def _clean(node: Node, base: int, size: int, *, with_load: bool) -> dict[str, Any]:
    calm = threading.Event()
    calm.set()
    before = p99_of_small_produces(node, "small", calm, 1000) if with_load else None
    node.loop_lag()
    memory, ended = Memory(node.pid), threading.Event()
    memory.start()
    during: list[float] = []
    load = threading.Thread(target=lambda: during.append(p99_of_small_produces(node, "small", ended, 200)))
    if with_load:
        load.start()
    cpu, began = node.cpu_seconds(), time.perf_counter()
    _lower_the_ratio(node)
    checkpoint = node.data / CLEANER_CHECKPOINT
    while f"table 0 {base}" not in (checkpoint.read_text() if checkpoint.exists() else ""):
        time.sleep(0.02)
        if time.perf_counter() - began > 900:
            raise TimeoutError(f"{node.side} has not cleaned {size} bytes within 15 minutes")
    seconds = time.perf_counter() - began
    ended.set()
    if with_load:
        load.join()
    memory.end()
    lag = node.loop_lag()
    left = sum(path.stat().st_size for path in (node.data / "table-0").glob("*.log") if int(path.stem) < base)
    return {
        "seconds": round(seconds, 2),
        "megabytes_per_second": round(size / 1e6 / seconds, 1),
        "node_cpu_seconds": round(node.cpu_seconds() - cpu, 2),
        "kept_percent": round(100 * left / size, 1),
        "memory_mb": {"node": round(memory.node), "cleaner": round(memory.child)},
        "produce_p99_ms": {"without": before, "during": during[0] if during else None},
        "produce_p99_ratio": round(during[0] / before, 2) if during and before else None,
        "loop_lag_ms": lag,
    }


def _lower_the_ratio(node: Node) -> None:
    admin: Any = confluent_kafka.admin
    lower = admin.ConfigEntry("min.cleanable.dirty.ratio", "0.001", incremental_operation=admin.AlterConfigOpType.SET)
    resource = admin.ConfigResource(admin.ResourceType.TOPIC, "table", incremental_configs=[lower])
    for future in node.admin.incremental_alter_configs([resource]).values():
        future.result(30)


def compile_loops() -> None:
    """Done with the first cleaning after an installation, and kept: not a part of each."""
    subprocess.run([sys.executable, "-c", "from ottla.log.cleaning.warming import warm_up; warm_up()"], check=True)


PLAN = Plan(
    "compaction",
    "A log of 100 B records, a tenth of them with keys of their own, cleaned once.",
    {},
    (
        Bar("clean uncompressed", "clean uncompressed", "megabytes_per_second", "MB/s", Direction.AT_LEAST, 3.0),
        Bar("clean lz4", "clean lz4", "megabytes_per_second", "MB/s", Direction.AT_LEAST, 1.0),
        Bar("clean zstd", "clean zstd", "megabytes_per_second", "MB/s", Direction.AT_LEAST, 1.0),
        Bar("memory of the cleaner", "clean uncompressed", "memory_mb.cleaner", "MB", Direction.AT_MOST,
            DEDUPE_MB * 1.048576 + 200, absolute=True),
        Bar("produce p99 while cleaning, to that without", "clean uncompressed", "produce_p99_ratio", "",
            Direction.AT_MOST, 1.5, absolute=True),
        Bar("loop lag p99.9 while cleaning", "clean uncompressed", "loop_lag_ms.p99.9", "ms", Direction.AT_MOST, 20,
            absolute=True),
    ),
    lone={
        "clean uncompressed": Lone(SETTINGS, cleaning(Codec.NONE, with_load=True)),
        "clean lz4": Lone(SETTINGS, cleaning(Codec.LZ4, with_load=False)),
        "clean zstd": Lone(SETTINGS, cleaning(Codec.ZSTD, with_load=False)),
    },
)  # fmt: skip

if __name__ == "__main__":
    compile_loops()
    sys.exit(run(PLAN))
