"""The manifest of a segment: what its objects hold, and checksums of every chunk of them, so that a part can be checked
without the rest. It is written last: a segment without one was never wholly there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

from crc32c import crc32c

from ottla.env.ports import Buffer
from ottla.model.errors import OttlaError
from ottla.tier.layout import Kind, short_id
from ottla.tier.remote_segment import RemoteSegment

CHUNK_BYTES: Final = 1024 * 1024
FORMAT: Final = 1


class DamagedObject(OttlaError):
    """An object in the store is not what was put there."""


class Sums(NamedTuple):
    size: int
    crcs: tuple[int, ...]  # CRC-32C of each chunk


class Manifest(NamedTuple):
    chunk_bytes: int
    objects: dict[Kind, Sums]

    def size(self, kind: Kind) -> int:
        """0 for one that the segment does not have."""
        sums = self.objects.get(kind)
        return 0 if sums is None else sums.size

    def check(self, key: str, kind: Kind, first_chunk: int, data: Buffer) -> None:
        """Whether these are the chunks of an object from a number on; the last of it may be shorter."""
        sums, view = self.objects[kind], memoryview(data)
        expected = min((first_chunk + _chunks(len(data), self.chunk_bytes)) * self.chunk_bytes, sums.size)
        if first_chunk * self.chunk_bytes + len(data) != expected:
            raise DamagedObject(f"{key} ends too early: the store gave {len(data)} bytes from chunk {first_chunk} on")
        for number in range(_chunks(len(data), self.chunk_bytes)):
            chunk = view[number * self.chunk_bytes : (number + 1) * self.chunk_bytes]
            if crc32c(chunk) != sums.crcs[first_chunk + number]:
                raise DamagedObject(f"{key} does not match its checksum in chunk {first_chunk + number}")


class Summing:
    """Hands on the data of one object, and keeps the checksums of what went by."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        """The pieces are chunks: all but the last have their size."""
        self._pieces = pieces
        self._size = 0
        self._crcs: list[int] = []

    def __iter__(self) -> Iterator[bytes]:
        self._size, self._crcs = 0, []
        for piece in self._pieces:
            self._size += len(piece)
            self._crcs.append(crc32c(piece))
            yield piece

    @property
    def sums(self) -> Sums:
        return Sums(self._size, tuple(self._crcs))


def chunks_of(data: bytes) -> list[bytes]:
    return [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]


def write_manifest(segment: RemoteSegment, objects: dict[Kind, Sums]) -> bytes:
    return json.dumps(
        {
            "format": FORMAT,
            "topic": segment.of.topic,
            "topicId": short_id(segment.of.topic_id),
            "partition": segment.of.partition,
            "segmentId": short_id(segment.id),
            "startOffset": segment.start_offset,
            "endOffset": segment.end_offset,
            "maxTimestamp": segment.max_timestamp,
            "brokerId": segment.broker_id,
            "leaderEpochs": [list(epoch) for epoch in segment.epochs],
            "chunkBytes": CHUNK_BYTES,
            "objects": {kind.value: {"size": sums.size, "crc32c": sums.crcs} for kind, sums in objects.items()},
        },
        separators=(",", ":"),
    ).encode()


def read_manifest(key: str, data: bytes, custom: bytes | None = None) -> Manifest:
    """`custom` is what the metadata topic says of the segment: the checksum of its manifest."""
    if custom is not None and custom != manifest_sum(data):
        raise DamagedObject(f"{key} does not match the checksum in the metadata topic")
    try:
        told: dict[str, Any] = json.loads(data)
        if told["format"] != FORMAT:
            raise DamagedObject(f"{key} has format {told['format']}, which this version cannot read")
        objects = {
            Kind(name): Sums(int(entry["size"]), tuple(map(int, entry["crc32c"])))
            for name, entry in told["objects"].items()
        }
        manifest = Manifest(int(told["chunkBytes"]), objects)
        for sums in objects.values():
            if _chunks(sums.size, manifest.chunk_bytes) != len(sums.crcs):
                raise ValueError("the number of checksums is wrong")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedObject(f"{key} is no manifest: {error}") from error


def manifest_sum(data: bytes) -> bytes:
    return crc32c(data).to_bytes(4, "big")


def _chunks(size: int, chunk_bytes: int) -> int:
    return -(-size // chunk_bytes)
