"""Batches of idempotent producers that were turned away, and what those that come after them are told.

A producer has several batches under way. One is turned away, as too few replicas are in sync or this node does not
lead yet; a moment later that has changed, and the next one would leave a gap: OUT_OF_ORDER_SEQUENCE_NUMBER, says
Apache Kafka. librdkafka takes a new epoch then and numbers anew all it has under way, also a batch that was appended
while its acknowledgement was lost: nobody recognises it any more, and it is appended twice. So whoever comes after
one that was turned away is turned away for the same reason. Every client sends both again, in order.
"""

from __future__ import annotations

from collections import deque
from struct import error as StructError
from typing import Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.record.batch import BatchHeader, parse_header

_UNDER_WAY: Final = 5  # batches of a producer at a time, for one that wants its order kept
_MOST: Final = 1000


class _Reason(NamedTuple):
    epoch: int
    code: ErrorCode
    sequences: deque[int]


class TurnedAway:
    def __init__(self) -> None:
        self.producers: dict[int, _Reason] = {}
        """By id: of each the first sequences of what was turned away last."""

    def note(self, records: Buffer, code: ErrorCode) -> None:
        try:
            header = parse_header(records)
        except StructError:
            return  # no batch: it would have been refused anyway
        if header.producer_id < 0:
            return
        known = self.producers.pop(header.producer_id, None)
        if known is None or (known.epoch, known.code) != (header.producer_epoch, code):
            known = _Reason(header.producer_epoch, code, deque(maxlen=_UNDER_WAY))
        if header.base_sequence not in known.sequences:
            known.sequences.append(header.base_sequence)
        self.producers[header.producer_id] = known
        if len(self.producers) > _MOST:
            del self.producers[next(iter(self.producers))]

    def came_before(self, header: BatchHeader, next_sequence: int | None) -> ErrorCode | None:
        """Why the batch was turned away without which this one leaves a gap; None if there was none.

        The next sequence is what the log waits for, None if it does not know the producer in this epoch.
        """
        known = self.producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            return None
        if next_sequence is None:
            is_missing = any(sequence < header.base_sequence for sequence in known.sequences)
        else:
            is_missing = next_sequence != header.base_sequence and next_sequence in known.sequences
        return known.code if is_missing else None

    def forget(self, producer_id: int) -> None:
        """Something of it was appended: all that came before is there."""
        self.producers.pop(producer_id, None)
