"""Transactions begin only where their coordinator knows of them (KIP-890); markers end them, each once."""

from __future__ import annotations

import pytest
from tests.log.given import NOW, batch, marker

from ottla.log.producers import EndMarker, Producers, Refused, SeenBatch, Verification
from ottla.model.errors import ErrorCode
from ottla.record.batch import BatchHeader, parse_header

E = ErrorCode


def header(sequence: int = 0, epoch: int = 0) -> BatchHeader:
    return parse_header(batch(producer_id=9, producer_epoch=epoch, sequence=sequence, transactional=True))


class Known:
    def __init__(self) -> None:
        self.producers = Producers("orders-0")
        self.end = 0

    def begin(self, epoch: int = 0, sequence: int = 0, adds: bool = True) -> Verification:
        begun = self.producers.begin_verification(9, epoch, sequence, adds, NOW)
        assert isinstance(begun, Verification)
        return begun

    def verdict(self, told: BatchHeader) -> ErrorCode | SeenBatch | None:
        found = self.producers.check(told)
        return found.code if isinstance(found, Refused) else found

    def take(self, told: BatchHeader) -> None:
        self.producers.note(told, self.end, NOW)
        self.end += 1

    def end_with(self, epoch: int, coordinator: int = 0) -> None:
        ending = parse_header(marker(9, commit=False, producer_epoch=epoch))
        self.producers.note_end(ending, EndMarker(False, coordinator, NOW), self.end)
        self.end += 1


@pytest.fixture
def known() -> Known:
    return Known()


class TestVerification:
    def test_without_it_no_transaction_begins(self, known: Known) -> None:
        assert known.verdict(header()) is E.invalid_txn_state
        known.begin()
        assert known.verdict(header()) is E.invalid_txn_state

    def test_who_asks_with_a_higher_epoch_and_is_refused_keeps_nobody_out(self, known: Known) -> None:
        known.begin(epoch=7)
        known.producers.verified(9, 0, known.begin())
        assert known.verdict(header()) is None

    def test_with_it_one_begins_and_needs_no_other(self, known: Known) -> None:
        known.producers.verified(9, 0, known.begin())
        assert known.verdict(header()) is None
        known.take(header())
        assert known.verdict(header(1)) is None
        assert known.producers.begin_verification(9, 0, 1, True, NOW) is None

    def test_a_repeated_batch_needs_none(self, known: Known) -> None:
        known.producers.verified(9, 0, known.begin())
        known.take(header())
        known.end_with(0)
        assert isinstance(known.verdict(header()), SeenBatch)

    def test_a_marker_in_between_makes_the_answer_worthless(self, known: Known) -> None:
        asked = known.begin(adds=False)
        known.end_with(0)
        known.producers.verified(9, 0, asked)
        assert known.verdict(header()) is E.invalid_txn_state
        known.begin(adds=False)  # of the next transaction: the late answer is not about it
        known.producers.verified(9, 0, asked)
        assert known.verdict(header()) is E.invalid_txn_state

    def test_a_marker_of_the_transaction_before_does_not_touch_the_next_one(self, known: Known) -> None:
        """With transactions' second version a marker has the epoch that the next transaction is in."""
        asked = known.begin(epoch=1)
        known.end_with(1)
        known.producers.verified(9, 1, asked)
        assert known.verdict(header(epoch=1)) is None

    def test_an_answer_counts_for_the_epoch_that_was_asked_about(self, known: Known) -> None:
        asked = known.begin(epoch=0)
        assert known.begin(epoch=1) is asked
        known.producers.verified(9, 0, asked)
        assert known.verdict(header(epoch=0)) is None
        assert known.verdict(header(epoch=1)) is E.invalid_txn_state

    def test_an_answer_for_an_epoch_that_has_ended_does_not_count(self, known: Known) -> None:
        asked = known.begin(epoch=0)
        known.end_with(1)
        known.producers.verified(9, 0, asked)
        assert known.verdict(header(epoch=0)) is E.invalid_producer_epoch
        assert known.verdict(header(epoch=1)) is E.invalid_txn_state

    def test_an_older_epoch_is_told_so_at_once(self, known: Known) -> None:
        known.end_with(3)
        refused = known.producers.begin_verification(9, 2, 0, True, NOW)
        assert isinstance(refused, Refused) and refused.code is E.invalid_producer_epoch
        assert known.verdict(header(epoch=2)) is E.invalid_producer_epoch

    def test_no_batch_overtakes_one_that_is_tried_again(self, known: Known) -> None:
        asked = known.begin(sequence=0, adds=False)
        known.begin(sequence=5, adds=False)
        known.producers.verified(9, 0, asked)
        assert known.verdict(header(5)) is E.out_of_order_sequence_number
        assert known.verdict(header(0)) is None

    def test_in_the_second_version_an_unknown_producer_begins_at_0(self, known: Known) -> None:
        known.producers.verified(9, 0, known.begin(sequence=4))
        assert known.verdict(header(4)) is E.out_of_order_sequence_number

    def test_questions_that_were_never_answered_are_forgotten(self, known: Known) -> None:
        asked = known.begin()
        known.producers.expire(NOW + 1000, 1000)
        known.producers.verified(9, 0, asked)
        assert known.verdict(header()) is E.invalid_txn_state


@pytest.mark.parametrize(
    ("epoch", "coordinator", "version", "is_open", "code"),
    [
        (5, 3, 0, True, None),
        (6, 3, 0, True, None),  # fenced by InitProducerId
        (4, 3, 0, True, E.invalid_producer_epoch),
        (5, 2, 0, True, E.transaction_coordinator_fenced),
        (6, 3, 2, True, None),
        (5, 3, 2, True, E.invalid_producer_epoch),  # of the transaction before: it must not end this one
        (5, 3, 2, False, None),  # written again
        (4, 3, 2, False, E.invalid_producer_epoch),
        (6, 2, 2, False, E.transaction_coordinator_fenced),
    ],
)
def test_markers(epoch: int, coordinator: int, version: int, is_open: bool, code: ErrorCode | None) -> None:
    known = Known()
    known.end_with(5, coordinator=3)
    if is_open:
        known.take(header(epoch=5))
    refused = known.producers.check_marker(9, epoch, coordinator, version)
    assert (refused.code if refused is not None else None) is code


def test_the_last_of_all_epochs_can_still_be_ended() -> None:
    known = Known()
    known.take(header(epoch=2**15 - 1))
    assert known.producers.check_marker(9, 2**15 - 1, 0, 2) is None


def test_an_unknown_producer_can_be_told_of_an_end() -> None:
    assert Known().producers.check_marker(9, 0, 0, 2) is None
