"""What classic clients say of themselves when they join: in version 2 of consumers' own format."""

from __future__ import annotations

from struct import pack, unpack
from typing import NamedTuple

from tests.coordinator.group.at_random.world import Place

from ottla.coordinator.group.classic.embedded_protocol import read_subscription


class Claim(NamedTuple):
    topics: frozenset[str]
    owned: frozenset[Place]
    generation: int


def write_claim(claim: Claim) -> bytes:
    owned: dict[str, list[int]] = {}
    for topic, number in sorted(claim.owned):
        owned.setdefault(topic, []).append(number)
    parts = [pack(">hi", 2, len(claim.topics)), *map(_text, sorted(claim.topics)), pack(">ii", -1, len(owned))]
    for topic, numbers in owned.items():
        parts += (_text(topic), pack(f">i{len(numbers)}i", len(numbers), *numbers))
    return b"".join((*parts, pack(">i", claim.generation)))


def read_claim(data: bytes) -> Claim:
    said = read_subscription(data)
    owned = frozenset((topic, number) for topic, numbers in said.owned.items() for number in numbers)
    (generation,) = unpack(">i", data[-4:])
    return Claim(frozenset(said.topics), owned, generation)


def _text(text: str) -> bytes:
    return pack(">h", len(text)) + text.encode()
