"""A simulated file: what readers see, what a sync has made durable, and what may be left after the power went.

The model is a page cache over a journalling file system. Between two syncs
- each page that was touched may reach the disk or not, on its own, in any of its states; one of them may be torn,
- the size may be any that the file had, or one in between; a page below it that was not written reads as zeros,
- truncations reach the disk in order, and what was written after one that did not is lost with it: the blocks that a
  truncation frees keep their old bytes until it is committed.
Nothing else: every byte afterwards is a zero in a hole, or one that was written at that place.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

PAGE = 4096


class Extent(NamedTuple):
    """Bytes written and not yet synced."""

    position: int
    data: bytes


class Cut(NamedTuple):
    """A truncation not yet synced; `removed_to` is the size before, at least."""

    size: int
    removed_to: int


class _Piece(NamedTuple):
    """Part of a page, as it was after the first `version` of the unsynced changes."""

    start: int
    end: int
    version: int


@dataclass(slots=True)
class Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[Extent | Cut] = field(default_factory=list)
    modified_ms: int = 0

    def write(self, position: int, data: bytes, now_ms: int) -> None:
        self._change(Extent(position, data), now_ms)

    def truncate(self, size: int, now_ms: int) -> None:
        self._change(Cut(size, len(self.content)), now_ms)

    def _change(self, change: Extent | Cut, now_ms: int) -> None:
        _apply(self.content, change)
        self.pending.append(change)
        self.modified_ms = now_ms

    def rot(self, position: int, mask: int) -> None:
        """Bits flip; only in what is durable already."""
        for data in (self.content, self.durable):
            data[position] ^= mask

    def sync(self) -> None:
        for change in self.pending:
            _apply(self.durable, change)
        self.pending.clear()

    def sync_failed(self, random: Random) -> None:
        """Linux marks the pages clean although they never reached the disk: no later sync will write them."""
        self.durable = self.after_power_loss(random)
        self.pending.clear()

    def sure(self) -> bytes:
        """The beginning of the file that every power loss leaves as it is."""
        end = len(self.durable)
        for change in self.pending:
            match change:
                case Extent(position, data):
                    if self.durable[position : position + len(data)] != data[: max(len(self.durable) - position, 0)]:
                        end = min(end, position)
                case Cut(size, _):
                    end = min(end, size)
        return bytes(self.durable[:end])

    def copy(self) -> Inode:
        return Inode(bytearray(self.content), bytearray(self.durable), list(self.pending), self.modified_ms)

    def after_power_loss(self, random: Random) -> bytearray:
        """One of the states the disk may be in; the file itself stays as it is."""
        if not self.pending:
            return bytearray(self.durable)
        match random.choice(("nothing", "everything", "beginning", "pages", "pages")):
            case "nothing":
                return bytearray(self.durable)
            case "everything":
                return _replayed(self.durable, self.pending)
            case "beginning":
                return self._beginning(random)
            case _:
                return self._pages(random)

    def _beginning(self, random: Random) -> bytearray:
        """The first changes, the next one torn at any byte: an append that was under way."""
        whole = random.randint(0, len(self.pending))
        left = _replayed(self.durable, self.pending[:whole])
        if whole < len(self.pending) and isinstance(torn := self.pending[whole], Extent):
            _apply(left, Extent(torn.position, torn.data[: random.randint(0, len(torn.data))]))
        return left

    def _pages(self, random: Random) -> bytearray:
        cuts = [index for index, change in enumerate(self.pending) if isinstance(change, Cut)]
        committed = random.randint(0, len(cuts))
        changes = self.pending[: cuts[committed]] if committed < len(cuts) else self.pending
        oldest = cuts[committed - 1] + 1 if committed else 0  # a size from before a committed cut cannot come back
        pieces = _choose_pieces(changes, random)

        states = _states(self.durable, changes, pieces)
        result = bytearray(self.durable)
        sizes: list[int] = []
        for state in states:
            sizes.append(state.size)
            for start, data in state.parts:
                _apply(result, Extent(start, data))
        _resize(result, _choose_size(sizes[oldest:], random))
        return result


class _State(NamedTuple):
    size: int
    parts: list[tuple[int, bytes]]


def _states(durable: bytearray, changes: list[Extent | Cut], pieces: list[_Piece]) -> Iterator[_State]:
    """Replays the changes and gives, after each number of them, the file's size and the pieces wanted of that state."""
    wanted: dict[int, list[_Piece]] = {}
    for piece in pieces:
        wanted.setdefault(piece.version, []).append(piece)
    # A cut that comes after a state is committed all the same, so it has emptied the rest of its page as well.
    lowest_cut_after = [sys.maxsize] * (len(changes) + 1)
    for index in reversed(range(len(changes))):
        change = changes[index]
        lowest = lowest_cut_after[index + 1]
        lowest_cut_after[index] = min(lowest, change.size) if isinstance(change, Cut) else lowest
    image = bytearray(durable)
    for version in range(len(changes) + 1):
        if version:
            _apply(image, changes[version - 1])
        parts = []
        for start, end, _ in wanted.get(version, ()):
            data = bytes(image[start : min(end, max(start, lowest_cut_after[version]))])
            parts.append((start, data.ljust(end - start, b"\0")))
        yield _State(len(image), parts)


def _choose_pieces(changes: list[Extent | Cut], random: Random) -> list[_Piece]:
    last = len(changes)
    first_possible: dict[int, int] = {}
    for index, change in enumerate(changes):
        match change:
            case Extent(position, data):
                for page in range(position // PAGE, -(-(position + len(data)) // PAGE)):
                    first_possible.setdefault(page, 0)
            case Cut(size, removed_to):
                for page in range(-(-size // PAGE), -(-removed_to // PAGE)):
                    first_possible[page] = index + 1
    survival = random.random()
    torn = random.choice([*first_possible, -1]) if first_possible else -1
    pieces: list[_Piece] = []
    for page, first in first_possible.items():
        start, end = page * PAGE, (page + 1) * PAGE
        version = last if random.random() < survival else random.randint(first, last)
        if page == torn:
            tear = random.randint(start, end)
            pieces += (_Piece(start, tear, version), _Piece(tear, end, random.randint(first, version)))
        else:
            pieces.append(_Piece(start, end, version))
    return pieces


def _choose_size(sizes: list[int], random: Random) -> int:
    if random.random() < 0.3:
        return random.randint(min(sizes), max(sizes))
    return random.choice(sizes)


def _replayed(durable: bytearray, changes: list[Extent | Cut]) -> bytearray:
    image = bytearray(durable)
    for change in changes:
        _apply(image, change)
    return image


def _apply(image: bytearray, change: Extent | Cut) -> None:
    match change:
        case Extent(position, data):
            if data and len(image) < position:
                image.extend(bytes(position - len(image)))
            image[position : position + len(data)] = data
        case Cut(size, _):
            _resize(image, size)


def _resize(image: bytearray, size: int) -> None:
    if size < len(image):
        del image[size:]
    else:
        image.extend(bytes(size - len(image)))
