"""Kafka's small text files: offsets by partition, leader epochs, the topic id of a folder, the clean-shutdown mark."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from itertools import pairwise
from uuid import UUID

from ottla.env.files import read_file
from ottla.env.ports import Disk
from ottla.log.epochs import EpochStart
from ottla.log.paths import CLEAN_SHUTDOWN_MARK
from ottla.model.names import TopicPartition


class CorruptCheckpoint(Exception):
    pass


def _write_rows(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]).encode()


def _read_rows(data: bytes, path: str, width: int) -> list[list[str]]:
    lines = data.decode("utf-8", "replace").split("\n")
    try:
        version, count = int(lines[0]), int(lines[1])
        rows = [line.rsplit(" ", width - 1) for line in lines[2:-1]]
    except (ValueError, IndexError):
        version, count, rows = -1, -1, []
    # Without the last end of line a number may have been cut short.
    whole = version == 0 and lines[-1] == "" and len(rows) == count and all(len(row) == width for row in rows)
    if not whole or not all(number.isascii() and number.isdigit() for row in rows for number in row[-2:]):
        raise CorruptCheckpoint(f"{path}: not a checkpoint of version 0 with as many lines as it says")
    return rows


def write_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _write_rows(f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())


def read_offsets(disk: Disk, path: str) -> dict[TopicPartition, int]:
    """Offsets by partition; none if there is no file, or an empty one, which Kafka leaves when it is killed early."""
    data = read_file(disk, path) if disk.exists(path) else b""
    if not data:
        return {}
    rows = _read_rows(data, path, 3)
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def write_epochs(starts: Iterable[EpochStart]) -> bytes:
    return _write_rows(f"{epoch} {offset}" for epoch, offset in starts)


def read_epochs(disk: Disk, path: str) -> list[EpochStart]:
    try:
        content = read_file(disk, path)
    except FileNotFoundError:
        return []
    return epochs_in(content, path)


def epochs_in(content: bytes, path: str) -> list[EpochStart]:
    starts = [EpochStart(int(epoch), int(offset)) for epoch, offset in _read_rows(content, path, 2)]
    if any(a.epoch >= b.epoch or a.start_offset >= b.start_offset for a, b in pairwise(starts)):
        raise CorruptCheckpoint(f"{path}: epochs and their start offsets do not rise from line to line")
    return starts


def write_topic_id(topic_id: UUID) -> bytes:
    return f"version: 0\ntopic_id: {base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip('=')}".encode()


def read_topic_id(disk: Disk, path: str) -> UUID | None:
    try:
        topic_id = topic_id_in(read_file(disk, path))
    except FileNotFoundError:
        return None
    if topic_id is None:
        raise CorruptCheckpoint(f"{path}: has no readable topic_id")
    return topic_id


def topic_id_in(content: bytes) -> UUID | None:
    """What a `partition.metadata` says; None if it is not whole."""
    try:
        fields = dict(line.split(": ", 1) for line in content.decode().splitlines() if ": " in line)
        return UUID(bytes=base64.urlsafe_b64decode(fields["topic_id"] + "=="))
    except (KeyError, ValueError):
        return None


def write_clean_shutdown(broker_epoch: int) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def read_clean_shutdown(disk: Disk, folder: str) -> int | None:
    """The broker epoch of a clean stop (-1 if the mark does not say); None after a crash."""
    path = f"{folder}/{CLEAN_SHUTDOWN_MARK}"
    if not disk.exists(path):
        return None
    try:
        return int(json.loads(read_file(disk, path))["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
