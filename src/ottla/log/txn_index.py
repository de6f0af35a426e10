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
        data = read_file(self._disk, self.path)
        whole = len(data) - len(data) % _ENTRY.size
        return [AbortedTxn(*fields) for _, *fields in _ENTRY.iter_unpack(data[:whole])]

    def append(self, txn: AbortedTxn) -> None:
        aborted = self.aborted
        file = self._disk.open(self.path, create=True)
        try:
            file.write((_ENTRY.pack(_VERSION, *txn),), len(aborted) * _ENTRY.size)
        finally:
            file.close()
        aborted.append(txn)

    def problem(self, base_offset: int) -> str | None:
        """What is visibly wrong with the file."""
        if not self._disk.exists(self.path):
            return None
        if self._disk.file_size(self.path) % _ENTRY.size:
            return f"{self.path} does not hold whole entries"
        before = base_offset - 1
        data = read_file(self._disk, self.path)
        for version, _, first, last, stable in _ENTRY.iter_unpack(data):
            if version != _VERSION or not 0 <= first < last or last <= before or not 0 <= stable <= last + 1:
                return f"{self.path} has an entry that cannot be: {first} to {last}, stable {stable}"
            before = last
        return None

    def reset(self) -> None:
        self._disk.remove(self.path)
        self._aborted = []

    def truncate_to(self, offset: int) -> None:
        kept = [txn for txn in self.aborted if txn.last_offset < offset]
        if len(kept) < len(self.aborted):
            self.reset()
            for txn in kept:
                self.append(txn)

    def sync(self) -> None:
        with suppress(FileNotFoundError):  # there is none, or its segment was deleted meanwhile
            sync_file(self._disk, self.path)
