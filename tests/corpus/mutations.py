"""Bodies that were right until chance changed them; the same ones every time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from tests.corpus.dice import Dice

_LENGTHS: Final = (
    b"\x00", b"\x01", b"\x7f", b"\x80", b"\xff", b"\x00\x00", b"\x7f\xff", b"\xff\xff", b"\xff\xfe",
    b"\x00\x00\x00\x00", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00", b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x07", b"\x80\x80\x80\x80\x08", b"\xff\xff\xff\xff\xff", b"\x00\x00\x00\x02",
)  # fmt: skip


class Seed(NamedTuple):
    """A right body, and where its pieces begin."""

    body: bytes
    cuts: Sequence[int]


def mutations(dice: Dice, seeds: Sequence[Seed]) -> Iterator[bytes]:
    """Without end. Some will be right all the same, or equal: chance does not look."""
    while True:
        seed = dice.choose(seeds)
        body = dice.choose(_KINDS)(dice, seed, seeds)
        if not dice.below(4):  # misfortunes seldom come alone
            body = dice.choose(_KINDS)(dice, Seed(body, seed.cuts), seeds)
        yield body


def _place(dice: Dice, seed: Seed) -> int:
    """Anywhere; every other time where a piece begins."""
    size = len(seed.body)
    if dice.below(2):
        return min(dice.choose(seed.cuts), size)
    return dice.below(size + 1)


def _flip_bit(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    if not seed.body:
        return dice.bytes(1)
    at = min(_place(dice, seed), len(seed.body) - 1)
    return seed.body[:at] + bytes((seed.body[at] ^ 1 << dice.below(8),)) + seed.body[at + 1 :]


def _other_byte(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    at = _place(dice, seed)
    return seed.body[:at] + dice.bytes(1) + seed.body[at + 1 :]


def _one_more_or_less(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    """Of a byte where a piece begins: a length, a count, a number's high end."""
    if not seed.body:
        return b""
    at = min(dice.choose(seed.cuts), len(seed.body) - 1)
    at = min(at + dice.choose((0, 0, 1, 3)), len(seed.body) - 1)
    return seed.body[:at] + bytes(((seed.body[at] + dice.choose((1, -1, 2, -2))) & 0xFF,)) + seed.body[at + 1 :]


def _other_length(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    at, length = _place(dice, seed), dice.choose(_LENGTHS)
    return seed.body[:at] + length + seed.body[at + len(length) :]


def _truncate(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    return seed.body[: _place(dice, seed)]


def _remove(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    at = _place(dice, seed)
    return seed.body[:at] + seed.body[at + 1 + dice.below(8) :]


def _insert(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    at = _place(dice, seed)
    more = dice.choose(_LENGTHS) if dice.below(2) else dice.bytes(1 + dice.below(8))
    return seed.body[:at] + more + seed.body[at:]


def _repeat(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    start, end = sorted((_place(dice, seed), _place(dice, seed)))
    return seed.body[:end] + seed.body[start:end] + seed.body[end:]


def _splice(dice: Dice, seed: Seed, seeds: Sequence[Seed]) -> bytes:
    other = dice.choose(seeds)
    return seed.body[: _place(dice, seed)] + other.body[_place(dice, other) :]


def _noise(dice: Dice, seed: Seed, _: Sequence[Seed]) -> bytes:
    at, count = _place(dice, seed), 1 + dice.below(6)
    return seed.body[:at] + dice.bytes(count) + seed.body[at + count :]


_Kind = Callable[[Dice, Seed, Sequence[Seed]], bytes]
_KINDS: Final[tuple[_Kind, ...]] = (
    _flip_bit, _flip_bit, _other_byte, _one_more_or_less, _other_length, _truncate, _remove, _insert, _repeat, _splice,
    _noise,
)  # fmt: skip
