"""`.txnindex`: the aborted transactions of a segment, so that a read_committed reader can be told what to skip."""

from __future__ import annotations

from contextlib import suppress
from struct import Struct
from typing import Final, NamedTuple

from ottla.env.files import read_file, sync_file
from ottla.env.ports import Disk

_ENTRY: Final = Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTxn(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


def packed(txn: AbortedTxn) -> bytes:
    """As it lies in the file."""
    return _ENTRY.pack(_VERSION, *txn)


def unpacked(data: bytes) -> list[AbortedTxn]:
    whole = len(data) - len(data) % _ENTRY.size
    return [AbortedTxn(*fields) for _, *fields in _ENTRY.iter_unpack(data[:whole])]


class TxnIndex:
    """Few and small, so they are kept in memory. The file exists only where there is something to say."""

    def __init__(self, disk: Disk, path: str) -> None:
        self.path = path
        self._disk = disk
        self._aborted: list[AbortedTxn] | None = None

    @property
    def aborted(self) -> list[AbortedTxn]:
        if self._aborted is None:
            self._aborted = self._read()
        return self._aborted

    def _read(self) -> list[AbortedTxn]:
        if not self._disk.exists(self.path):
            return []
        return unpacked(read_file(self._disk, self.path))

    def append(self, txn: AbortedTxn) -> None:
        aborted = self.aborted
        file = self._disk.open(self.path, create=True)
        try:
            file.write((packed(txn),), len(aborted) * _ENTRY.size)
        finally:
            file.close()
        aborted.append(txn)

    def problem(self, base_offset: int) -> str | None:
        """What is visibly wrong with the file."""
        if not self._disk.exists(self.path):
            return None
        if self._disk.file_size(self.path) % _ENTRY.size:
            return f"{self.path} does not hold whole entries"
        data = read_file(self._disk, self.path)
        sound = _sound(data, base_offset)
        return None if sound * _ENTRY.size == len(data) else f"{self.path}: entry {sound} cannot be"

    def reset(self) -> None:
        self._disk.remove(self.path)
        self._aborted = []

    def keep_sound(self, base_offset: int, below: int) -> None:
        """Keeps entries from the first on that can be, of transactions that ended below an offset.

        In place: they are durable, and a file that took theirs would not be.
        """
        if not self._disk.exists(self.path):
            return
        data = read_file(self._disk, self.path)
        size = _sound(data, base_offset, below) * _ENTRY.size
        if size < len(data):
            file = self._disk.open(self.path)
            try:
                file.truncate(size)
            finally:
                file.close()
        self._aborted = None

    def sync(self) -> None:
        with suppress(FileNotFoundError):  # there is none, or its segment was deleted meanwhile
            sync_file(self._disk, self.path)


def _sound(data: bytes, base_offset: int, below: int | None = None) -> int:
    """How many entries from the first on can be: after a loss of power zeros or parts of entries may follow them."""
    count, before = 0, base_offset - 1
    for version, _, first, last, stable in _ENTRY.iter_unpack(data[: len(data) - len(data) % _ENTRY.size]):
        possible = version == _VERSION and 0 <= first < last and last > before and 0 <= stable <= last + 1
        if not possible or (below is not None and last >= below):
            break
        count, before = count + 1, last
    return count
