"""A hash of a group's topics, in which every change shows that calls for a new assignment (KIP-1101).

It is in the group's record, so it has to be Kafka's: XXH3 over the topic's id, name, partitions and their racks,
numbers with the lowest byte first, texts in UTF-16 with their length behind them. A group's hash is over those of its
topics, in the order of their names.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from struct import Struct
from typing import Final

from xxhash import xxh3_64_intdigest

from ottla.metadata.image import MetadataImage, TopicImage

_INT: Final = Struct("<i")
_HASH: Final = Struct("<Q")
_MAGIC: Final = b"\x00"


class TopicHashes:
    """Those of topics are remembered until the topic changes; no work is done for a group whose topics did not."""

    def __init__(self, image: Callable[[], MetadataImage]) -> None:
        self._image = image
        self._by_name: dict[str, bytes] = {}
        self.generation = 0
        """How often something was forgotten: a hash from another generation may be wrong."""

    def forget(self, names: Iterable[str]) -> None:
        self.generation += 1
        for name in names:
            self._by_name.pop(name, None)

    def of(self, topics: Collection[str]) -> int:
        image, known = self._image(), self._by_name
        parts = []
        for name in sorted(topics):
            topic = image.topic(name)
            if topic is None:
                continue
            part = known.get(name)
            if part is None:
                part = known[name] = topic_hash(topic, image)
            parts.append(part)
        return _signed(xxh3_64_intdigest(b"".join(parts))) if parts else 0


def topic_hash(topic: TopicImage, image: MetadataImage) -> bytes:
    parts = [
        _MAGIC,
        topic.id.bytes[7::-1],
        topic.id.bytes[:7:-1],
        _text(topic.name),
        _INT.pack(len(topic.partitions)),
    ]
    for number in range(len(topic.partitions)):
        parts.append(_INT.pack(number))
        partition = topic.partitions.get(number)
        brokers = (image.brokers.get(replica) for replica in (partition.replicas if partition is not None else ()))
        for rack in sorted(broker.rack for broker in brokers if broker is not None and broker.rack is not None):
            parts += (_INT.pack(len(rack.encode("utf-16-le")) // 2), _text(rack))
    return _HASH.pack(xxh3_64_intdigest(b"".join(parts)))


def _text(value: str) -> bytes:
    data = value.encode("utf-16-le")
    return data + _INT.pack(len(data) // 2)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
