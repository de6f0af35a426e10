"""What a partition was told and what it said, as far as it got; and what must be true of the log found later."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.log.given import (
    ProducerState,
    check_finding,
    check_indexes,
    everything,
    producer_state,
)

from ottla.log.partition_log import PartitionLog
from ottla.log.producers import Producers
from ottla.log.scan import ScannedBatch, end_marker
from ottla.record.batch import parse_header


@dataclass(slots=True)
class History:
    """What a partition was told and what it said, as far as it got."""

    batches: list[bytes] = field(default_factory=list)
    """All that was appended, as it lies in the log; the last may not have come to its end."""
    acknowledged: int = 0
    flushed: int = 0
    start: int = 0
    forgetful: bool = False
    """Whether what is known of producers before the start may have been lost."""

    @property
    def end(self) -> int:
        return parse_header(self.batches[-1]).next_offset if self.batches else 0

    def before(self, end: int) -> list[bytes]:
        return [data for data in self.batches if parse_header(data).next_offset <= end]

    def producers(self, end: int) -> Producers:
        producers = Producers("history")
        for data in self.before(end):
            header = parse_header(data)
            if header.producer_id >= 0 and not header.is_control:
                producers.note(header, header.base_offset, header.max_timestamp)
            elif header.producer_id >= 0:
                ended = end_marker(ScannedBatch(0, header, memoryview(data)))
                assert ended is not None
                producers.note_end(header, ended, header.base_offset)
        return producers

    def epoch_of(self, offset: int) -> int:
        return next(parse_header(d).leader_epoch for d in self.batches if parse_header(d).last_offset >= offset)


def judge(log: PartitionLog, history: History, *, power_lost: bool) -> None:
    promised = history.flushed if power_lost else history.acknowledged
    assert promised <= log.end_offset <= max(history.end, history.start), (
        f"{log.partition}: {promised} was promised, it ends at {log.end_offset}"
    )
    if log.start_offset > history.start:
        # The name of the first segment was lost and that of another was not: before the first flush nothing is sure.
        assert power_lost
        assert history.flushed == 0
    expected = [d for d in history.before(log.end_offset) if parse_header(d).last_offset >= log.start_offset]
    assert everything(log) == expected
    check_indexes(log)
    check_finding(log)
    _judge_producers(log, history)
    for offset in range(max(log.start_offset, history.start), log.end_offset):
        assert log.epochs.epoch_at(offset) == history.epoch_of(offset)
    aborted = [
        (txn.producer_id, txn.first_offset, txn.last_offset) for s in log.segments for txn in s.txn_index.aborted
    ]
    expected_txns = [txn for txn in _aborted(history, log.end_offset) if txn[2] >= log.segments[0].base_offset]
    if history.forgetful:
        assert {last for _, _, last in aborted} <= {last for _, _, last in expected_txns}
    else:
        assert aborted == expected_txns


def _judge_producers(log: PartitionLog, history: History) -> None:
    """As if all batches had been replayed; one whose batches are all gone may be forgotten."""
    expected: ProducerState = producer_state(history.producers(log.end_offset))
    found = producer_state(log.producers)
    kept = {parse_header(data).producer_id for data in everything(log)} - {-1}
    assert kept <= found.keys() <= expected.keys()
    if log.start_offset <= history.start and not history.forgetful:
        assert found == {producer_id: expected[producer_id] for producer_id in found}
    for producer_id in kept:
        has_data = found[producer_id][2] >= log.start_offset
        assert not has_data or found[producer_id][:3] == expected[producer_id][:3]


def _aborted(history: History, end: int) -> list[tuple[int, int, int]]:
    producers = Producers("history")
    found = []
    for data in history.before(end):
        header = parse_header(data)
        if header.producer_id < 0:
            continue
        if not header.is_control:
            producers.note(header, header.base_offset, header.max_timestamp)
        else:
            ended = end_marker(ScannedBatch(0, header, memoryview(data)))
            assert ended is not None
            if (txn := producers.note_end(header, ended, header.base_offset)) is not None:
                found.append((txn.producer_id, txn.first_offset, txn.last_offset))
    return found
