"""Batches whose every record has a value of its own, so that whatever is read can be traced to who sent it."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from ottla.record.batch import Codec
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.journal import NO_IDENTITY, Identity
from ottla.sim.log_files import PartitionId

_SIZES = ((0, 40), (0, 40), (0, 400), (300, 1500))
_FIRST_WITH_ZSTD = 7  # version of Produce
_KEY = b"key"
_LARGE = (5_000, 90_000)  # larger than what is checked inline, and than a connection's first buffer


@dataclass(slots=True)
class Batch:
    """What one producer wants in one partition. The same bytes are sent until they are acknowledged."""

    topic: str
    partition: PartitionId
    values: tuple[bytes, ...]
    codec: Codec
    timestamp: int
    identity: Identity = NO_IDENTITY
    attempts: int = 0

    @property
    def keys(self) -> tuple[bytes, ...]:
        return (_KEY,) * len(self.values)

    def encode(self) -> bytes:
        producer_id, epoch, sequence = self.identity
        return build_batch(
            [Record(_KEY, value, self.timestamp) for value in self.values],
            codec=self.codec,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
        )


class Values:
    """The values of one client: its name, the place, a number, and padding."""

    def __init__(self, who: str, random: Random, version: int) -> None:
        self._who = who
        self._random = random
        self._codecs = [codec for codec in Codec if codec is not Codec.ZSTD or version >= _FIRST_WITH_ZSTD]
        self._made = 0

    def batch(self, topic: str, partition: PartitionId, now_ms: int) -> Batch:
        random = self._random
        values = tuple(self._value(topic, partition) for _ in range(random.choice((1, 1, 2, 3, 8))))
        codec = random.choice(self._codecs) if random.random() < 0.3 else Codec.NONE
        return Batch(topic, partition, values, codec, now_ms)

    def _value(self, topic: str, partition: PartitionId) -> bytes:
        self._made += 1
        sizes = _LARGE if self._random.random() < 0.004 else self._random.choice(_SIZES)
        name = f"{topic}-{partition.partition}/{self._who}/{self._made} "
        return name.encode() + b"." * self._random.randint(*sizes)
