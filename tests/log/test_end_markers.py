"""A marker that was just made is understood as one that is read from a log."""

from __future__ import annotations

import pytest

from ottla.log import end_markers
from ottla.log.end_markers import marker_batch, note_end
from ottla.log.producers import EndMarker
from ottla.log.scan import ScannedBatch, end_marker
from ottla.record.batch import BatchHeader, parse_header
from ottla.record.builder import build_batch
from ottla.record.records import Record


class Noting:
    """Stands for a log."""

    def __init__(self) -> None:
        self.noted: list[EndMarker] = []

    def note_transaction_end(self, header: BatchHeader, marker: EndMarker, offset: int) -> None:
        self.noted.append(marker)


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("coordinator_epoch", [0, 2**31 - 1])
def test_it_says_what_a_reader_finds(is_commit: bool, coordinator_epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = marker_batch(2**40, 7, is_commit, coordinator_epoch, 1_700_000_000_000)
    header = parse_header(batch)
    expected = EndMarker(is_commit, coordinator_epoch, 1_700_000_000_000)
    assert end_marker(ScannedBatch(0, header, memoryview(batch))) == expected
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 7, -1)
    assert header.is_control and header.is_transactional
    log = Noting()
    monkeypatch.setattr(end_markers, "end_marker", None)  # its layout is known: nothing is searched for
    note_end(log, batch, header, 5)  # type: ignore[arg-type]
    assert log.noted == [expected]


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Record(b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x09more", 3), EndMarker(True, 9, 3)),
        (Record(b"\x00\x00\x00\x02", b"\x00\x00\x00\x00\x00\x09", 3), None),
    ],
    ids=["longer than ours", "of another kind"],
)
def test_others_are_read(record: Record, expected: EndMarker | None) -> None:
    batch = build_batch([record], producer_id=1, producer_epoch=0, transactional=True, control=True)
    log = Noting()
    note_end(log, batch, parse_header(batch), 5)  # type: ignore[arg-type]
    assert log.noted == ([] if expected is None else [expected])
