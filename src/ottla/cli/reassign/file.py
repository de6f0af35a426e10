"""Files that say where partitions shall be, as kafka-reassign-partitions.sh writes and reads them.

{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": ["any", "any"]}]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import click

from ottla.model.errors import OttlaError
from ottla.model.names import TopicPartition

VERSION: Final = 1
_ANY: Final = "any"

Assignment = Mapping[TopicPartition, Sequence[int]]


class Plan(NamedTuple):
    replicas: dict[TopicPartition, tuple[int, ...]]
    folders: dict[int, dict[str, list[TopicPartition]]]
    """By broker and folder the replicas that shall lie there; the others wherever the broker puts them."""


def text(assignment: Assignment) -> str:
    rows = [
        {"topic": topic, "partition": number, "replicas": list(replicas), "log_dirs": [_ANY] * len(replicas)}
        for (topic, number), replicas in sorted(assignment.items())
    ]
    lines = ",\n".join(f"  {json.dumps(row, ensure_ascii=False)}" for row in rows)
    return f'{{"version": {VERSION}, "partitions": [\n{lines}\n]}}\n'


def write(path: str, assignment: Assignment) -> None:
    """- is standard output."""
    try:
        with click.open_file(path, "w") as out:
            out.write(text(assignment))
    except OSError as error:
        raise OttlaError(f"cannot write {path}: {error.strerror}") from None


def read(path: str) -> Plan:
    """OttlaError, with the entry, if it does not follow the format."""
    try:
        with click.open_file(path) as content:  # - is stdin
            found: Any = json.loads(content.read())
    except OSError as error:
        raise OttlaError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise OttlaError(f"{path} is no JSON ({error}); `ottla reassign plan` makes such files") from None
    if not isinstance(found, dict) or not isinstance(found.get("partitions"), list):
        raise OttlaError(f"{path} has no list `partitions`; `ottla reassign plan` makes such files")
    if found.get("version", VERSION) != VERSION:
        raise OttlaError(f"{path} is of version {found['version']}, and only {VERSION} is known")
    plan = Plan({}, {})
    for number, row in enumerate(found["partitions"], start=1):
        place, replicas, folders = _entry(path, number, row)
        if place in plan.replicas:
            raise OttlaError(f"{path}, entry {number}: {place} is there twice")
        plan.replicas[place] = replicas
        for broker, folder in zip(replicas, folders, strict=True):
            if folder != _ANY:
                plan.folders.setdefault(broker, {}).setdefault(folder, []).append(place)
    return plan


def _entry(path: str, number: int, row: Any) -> tuple[TopicPartition, tuple[int, ...], list[str]]:
    where = f"{path}, entry {number}"
    try:
        place = TopicPartition(str(row["topic"]), int(row["partition"]))
        replicas = tuple(int(broker) for broker in row["replicas"])
    except (KeyError, TypeError, ValueError):
        raise OttlaError(f"{where}: topic, partition and replicas are needed: {json.dumps(row)}") from None
    if not replicas or len(set(replicas)) != len(replicas):
        raise OttlaError(f"{where}: {place} must have replicas, each on a broker of its own: {list(replicas)}")
    folders = [str(folder) for folder in row.get("log_dirs") or [_ANY] * len(replicas)]
    if len(folders) != len(replicas):
        raise OttlaError(f"{where}: {place} has {len(replicas)} replicas and {len(folders)} log_dirs")
    return place, replicas, folders
