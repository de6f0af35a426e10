"""Compares what the metadata topic tells with what is in the store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

from ottla.env.object_store import ObjectMissing, ObjectStore, StoredObject
from ottla.tier.layout import Kind, object_key, parse_key
from ottla.tier.manifest import DamagedObject, Manifest, read_manifest
from ottla.tier.remote_segment import RemoteSegment, SegmentState
from ottla.tier.told import Logs

_CHUNKS_A_READ = 8


class Problem(StrEnum):
    MISSING = "missing"
    DAMAGED = "damaged"
    WRONG_SIZE = "wrong size"
    UNKNOWN = "unknown"
    """An object of a segment that the metadata topic does not know, or that is deleted: nobody will ever read it."""


class Finding(NamedTuple):
    problem: Problem
    key: str
    size: int
    message: str


class Verified(NamedTuple):
    segments: int
    objects: int
    bytes: int
    findings: list[Finding]

    def of(self, problem: Problem) -> list[Finding]:
        return [each for each in self.findings if each.problem is problem]


async def verify(
    store: ObjectStore,
    before: Logs,
    listed: Iterable[StoredObject],
    afterwards: Callable[[], Awaitable[Logs]],
    *,
    deep: bool,
    progress: Callable[[int], None] = lambda size: None,
) -> Verified:
    """Brokers go on meanwhile. So `before` must be older than `listed`: what is copied by then is there. And what has
    gone `afterwards` is not missing, nor is unknown what was begun: an object was announced before it was put.

    `deep` reads every byte and checks it against its checksum, else names and sizes are compared.
    """
    there = {each.key: each.size for each in listed}
    readable = [each for each in _segments(before) if each.state is SegmentState.COPY_FINISHED]
    found: list[tuple[RemoteSegment, list[Finding]]] = []
    for segment in readable:
        found.append((segment, await _check(store, segment, there, deep, progress)))
    after = {segment.id: segment for segment in _segments(await afterwards())}
    findings = [
        each
        for segment, problems in found
        if (now := after.get(segment.id)) is not None and now.state is SegmentState.COPY_FINISHED
        for each in problems
    ]
    known = {*after, *(segment.id for segment in _segments(before))}
    for key, size in there.items():
        name = parse_key(key)
        if name is not None and name.segment_id not in known:
            findings.append(Finding(Problem.UNKNOWN, key, size, "belongs to no segment in the metadata topic"))
    ours = [size for key, size in there.items() if parse_key(key) is not None]
    return Verified(len(readable), len(ours), sum(ours), findings)


def _segments(logs: Logs) -> Iterator[RemoteSegment]:
    for log in logs.values():
        yield from log.segments.values()


async def _check(
    store: ObjectStore, segment: RemoteSegment, there: Mapping[str, int], deep: bool, progress: Callable[[int], None]
) -> list[Finding]:
    key = object_key(segment, Kind.MANIFEST)
    try:
        manifest = read_manifest(key, await store.read(key), segment.custom)
    except ObjectMissing:
        return [Finding(Problem.MISSING, key, 0, "the manifest is not in the store")]
    except DamagedObject as error:
        return [Finding(Problem.DAMAGED, key, there.get(key, 0), str(error))]
    findings = []
    for kind, sums in manifest.objects.items():
        key = object_key(segment, kind)
        if key not in there:
            findings.append(Finding(Problem.MISSING, key, sums.size, f"{sums.size} bytes are not in the store"))
        elif there[key] != sums.size:
            message = f"has {there[key]} bytes, {sums.size} were put"
            findings.append(Finding(Problem.WRONG_SIZE, key, there[key], message))
        elif deep:
            findings += await _read(store, key, kind, manifest, progress)
    return findings


async def _read(
    store: ObjectStore, key: str, kind: Kind, manifest: Manifest, progress: Callable[[int], None]
) -> list[Finding]:
    size = manifest.size(kind)
    step = manifest.chunk_bytes * _CHUNKS_A_READ
    for start in range(0, size, step):
        try:
            data = await store.get(key, start, min(start + step, size))
            manifest.check(key, kind, start // manifest.chunk_bytes, data)
        except ObjectMissing as error:
            return [Finding(Problem.MISSING, key, size, str(error))]
        except DamagedObject as error:
            return [Finding(Problem.DAMAGED, key, size, str(error))]
        progress(len(data))
    return []
