"""Metadata transactions (KIP-868): records that take effect together though they are in several batches.

Kafka writes its bootstrap records so. Between Begin and End nothing is visible; Abort drops what was in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.replay_error import ReplayError

_BEGIN: Final = 23
_END: Final = 24
_ABORT: Final = 25


class Transactions:
    def __init__(self) -> None:
        self._held: list[MetadataRecord] | None = None

    @property
    def is_open(self) -> bool:
        return self._held is not None

    def copy(self) -> Transactions:
        other = Transactions()
        other._held = None if self._held is None else list(self._held)
        return other

    def effective(self, records: Iterable[MetadataRecord]) -> Iterator[MetadataRecord]:
        """The records that take effect now, in order."""
        for record in records:
            key = record.__api_key__
            if key == _BEGIN:
                if self._held is not None:
                    raise ReplayError("a metadata transaction begins within another one")
                self._held = []
            elif key in (_END, _ABORT):
                if self._held is None:
                    raise ReplayError("a metadata transaction ends that has not begun")
                held, self._held = self._held, None
                if key == _END:
                    yield from held
            elif self._held is not None:
                self._held.append(record)
            else:
                yield record
