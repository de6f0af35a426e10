"""What follows from each request in each state, against Kafka's rules, as tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.coordinator.txn import decisions
from ottla.coordinator.txn.transaction import MAX_EPOCH, NOBODY, ProducerEpoch, Transaction, TxnState
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_PRODUCER_ID, NO_TIMESTAMP, TopicPartition

E = ErrorCode
S = TxnState
NOW, START = 1_000, 900
A, B = TopicPartition("a", 0), TopicPartition("b", 1)
KNOWN = Transaction(7, 5, 60_000, S.EMPTY, (), NO_TIMESTAMP, START, 2, 7)
LAST = MAX_EPOCH - 1


def known(state: TxnState, **changes: object) -> Transaction:
    open_ = state in (S.ONGOING, S.PREPARE_COMMIT, S.PREPARE_ABORT)
    of_state = KNOWN._replace(state=state, partitions=(A,) if open_ else ())
    if state is not S.EMPTY:
        of_state = of_state._replace(start_ms=START)
    return of_state._replace(**changes)  # type: ignore[arg-type]


def new_id() -> int:
    return 99


def no_id() -> None:
    return None


def initialise(
    before: Transaction | None,
    expected: ProducerEpoch | None = None,
    take: Callable[[], int | None] = new_id,
    server: int = 2,
) -> Transaction | ErrorCode:
    return decisions.initialise(before, 30_000, expected, NOW, take, server)


class TestInitProducerId:
    def test_a_new_id_begins_at_epoch_0(self) -> None:
        begun = initialise(None)
        assert isinstance(begun, Transaction)
        assert (begun.producer, begun.state, begun.timeout_ms, begun.updated_ms) == ((99, 0), S.EMPTY, 30_000, NOW)
        assert begun.previous_producer_id == 99

    def test_without_a_producer_id_at_hand_the_client_comes_again(self) -> None:
        assert initialise(None, take=no_id) is E.coordinator_load_in_progress

    @pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
    def test_at_rest_the_epoch_is_raised_and_what_was_is_forgotten(self, state: TxnState) -> None:
        begun = initialise(known(state, last_epoch=4))
        assert isinstance(begun, Transaction)
        assert (begun.producer, begun.last_epoch, begun.state) == ((7, 6), -1, S.EMPTY)
        assert (begun.partitions, begun.start_ms, begun.client_version) == ((), NO_TIMESTAMP, 2)

    @pytest.mark.parametrize("state", [S.PREPARE_COMMIT, S.PREPARE_ABORT])
    @pytest.mark.parametrize("expected", [None, ProducerEpoch(7, 5), ProducerEpoch(99, 0)])
    def test_while_markers_are_written_the_client_waits(self, state: TxnState, expected: ProducerEpoch | None) -> None:
        assert initialise(known(state), expected) is E.concurrent_transactions

    @pytest.mark.parametrize(("server", "version", "last"), [(2, 2, 5), (1, 0, -1), (0, 0, -1)])
    def test_an_open_transaction_is_aborted_under_a_new_epoch(self, server: int, version: int, last: int) -> None:
        aborted = initialise(known(S.ONGOING), server=server)
        assert isinstance(aborted, Transaction)
        assert (aborted.state, aborted.producer, aborted.partitions) == (S.PREPARE_ABORT, (7, 6), (A,))
        assert (aborted.client_version, aborted.last_epoch, aborted.start_ms) == (version, last, START)

    @pytest.mark.parametrize(
        ("before", "expected", "after"),
        [
            (KNOWN, (7, 5), (7, 6)),
            (KNOWN._replace(last_epoch=4), (7, 4), (7, 5)),  # repeated: the same answer
            (KNOWN, (7, 4), E.producer_fenced),
            (KNOWN, (7, 6), E.producer_fenced),
            (KNOWN, (8, 5), E.producer_fenced),
            (KNOWN._replace(previous_producer_id=8, epoch=0, last_epoch=LAST), (8, LAST), (7, 0)),
            (KNOWN._replace(previous_producer_id=8), (8, 3), E.producer_fenced),
            (None, (7, 5), (99, 0)),
            (KNOWN._replace(epoch=LAST), (7, LAST), (99, 0)),
            (KNOWN._replace(epoch=LAST), None, (99, 0)),
            (KNOWN._replace(epoch=LAST), (7, LAST - 1), E.unknown_server_error),
            (known(S.ONGOING), (7, 4), (7, 6)),  # Kafka looks at the epoch only where it gives a new one
            (known(S.ONGOING), (8, 5), E.producer_fenced),
        ],
    )
    def test_a_producer_says_who_it_was(
        self,
        before: Transaction | None,
        expected: tuple[int, int] | None,
        after: tuple[int, int] | ErrorCode,
    ) -> None:
        found = initialise(before, ProducerEpoch(*expected) if expected is not None else None)
        assert (found.producer if isinstance(found, Transaction) else found) == after

    def test_a_change_of_ids_remembers_the_last_epoch_of_who_asked(self) -> None:
        rotated = initialise(KNOWN._replace(epoch=LAST), ProducerEpoch(7, LAST))
        assert isinstance(rotated, Transaction)
        assert (rotated.previous_producer_id, rotated.last_epoch) == (7, LAST)
        again = initialise(rotated, ProducerEpoch(7, LAST))
        assert isinstance(again, Transaction) and again.producer == (99, 0)


class TestAddPartitions:
    @pytest.mark.parametrize(
        ("before", "producer", "error"),
        [
            (None, (7, 5), E.invalid_producer_id_mapping),
            (KNOWN, (8, 5), E.invalid_producer_id_mapping),
            (KNOWN, (7, 4), E.producer_fenced),
            (KNOWN, (7, 6), E.producer_fenced),
            (known(S.PREPARE_COMMIT), (7, 5), E.concurrent_transactions),
            (known(S.PREPARE_ABORT), (7, 5), E.concurrent_transactions),
            (known(S.PREPARE_ABORT), (7, 4), E.concurrent_transactions),
            (known(S.PREPARE_COMMIT, next_producer_id=99), (99, 0), E.concurrent_transactions),  # it was told of 99
            (known(S.ONGOING), (7, 5), E.none),
        ],
    )
    def test_who_cannot(self, before: Transaction | None, producer: tuple[int, int], error: ErrorCode) -> None:
        assert decisions.add_partitions(before, ProducerEpoch(*producer), [A], NOW, 2) is error

    @pytest.mark.parametrize("state", [S.EMPTY, S.COMPLETE_COMMIT, S.COMPLETE_ABORT])
    def test_the_first_begins_a_transaction(self, state: TxnState) -> None:
        begun = decisions.add_partitions(known(state), ProducerEpoch(7, 5), [A, B], NOW, 0)
        assert isinstance(begun, Transaction)
        assert (begun.state, begun.partitions, begun.start_ms) == (S.ONGOING, (A, B), NOW)
        assert (begun.client_version, begun.updated_ms) == (0, NOW)

    def test_more_of_them_join_it(self) -> None:
        more = decisions.add_partitions(known(S.ONGOING), ProducerEpoch(7, 5), [B, A], NOW, 2)
        assert isinstance(more, Transaction)
        assert (more.partitions, more.start_ms, more.updated_ms) == ((A, B), START, NOW)


@pytest.mark.parametrize(
    ("before", "producer", "found"),
    [
        (None, (7, 5), [E.invalid_producer_id_mapping] * 2),
        (KNOWN, (8, 5), [E.invalid_producer_id_mapping] * 2),
        (KNOWN, (7, 4), [E.producer_fenced] * 2),
        (known(S.PREPARE_COMMIT), (7, 5), [E.concurrent_transactions] * 2),
        (known(S.ONGOING), (7, 5), [E.none, E.transaction_abortable]),
        (KNOWN, (7, 5), [E.transaction_abortable] * 2),
    ],
)
def test_verification(before: Transaction | None, producer: tuple[int, int], found: list[ErrorCode]) -> None:
    assert decisions.verify(before, ProducerEpoch(*producer), [A, B]) == dict(zip((A, B), found, strict=True))


def end(before: Transaction | None, epoch: int, is_commit: bool, version: int) -> Transaction | ErrorCode:
    return decisions.end(before, ProducerEpoch(7, epoch), is_commit, NOW, new_id, version)


class TestEndTxnOfTheFirstVersion:
    @pytest.mark.parametrize(
        ("state", "commit", "abort"),
        [
            (S.EMPTY, E.invalid_txn_state, E.invalid_txn_state),
            (S.PREPARE_COMMIT, E.concurrent_transactions, E.concurrent_transactions),
            (S.PREPARE_ABORT, E.concurrent_transactions, E.concurrent_transactions),
            (S.COMPLETE_COMMIT, E.none, E.invalid_txn_state),
            (S.COMPLETE_ABORT, E.invalid_txn_state, E.none),
        ],
    )
    def test_by_state(self, state: TxnState, commit: ErrorCode, abort: ErrorCode) -> None:
        assert end(known(state), 5, True, 0) is commit
        assert end(known(state), 5, False, 0) is abort

    @pytest.mark.parametrize("state", [S.EMPTY, S.ONGOING, S.PREPARE_COMMIT, S.COMPLETE_COMMIT])
    @pytest.mark.parametrize("epoch", [4, 6])
    def test_another_epoch_is_fenced(self, state: TxnState, epoch: int) -> None:
        assert end(known(state), epoch, True, 0) is E.producer_fenced

    @pytest.mark.parametrize(("is_commit", "state"), [(True, S.PREPARE_COMMIT), (False, S.PREPARE_ABORT)])
    def test_an_open_one_ends_in_its_epoch(self, is_commit: bool, state: TxnState) -> None:
        ended = end(known(S.ONGOING), 5, is_commit, 0)
        assert isinstance(ended, Transaction)
        assert (ended.state, ended.producer, ended.client_version, ended.partitions) == (state, (7, 5), 0, (A,))
        assert decisions.told_producer(ended) == NOBODY

    def test_unknown_ids(self) -> None:
        assert end(None, 5, True, 0) is E.invalid_producer_id_mapping
        assert end(known(S.ONGOING, producer_id=8), 5, True, 0) is E.invalid_producer_id_mapping


FENCED, INVALID, BUSY = E.producer_fenced, E.invalid_txn_state, E.concurrent_transactions


class TestEndTxnOfTheSecondVersion:
    @pytest.mark.parametrize(
        ("state", "expected"),
        [
            (S.EMPTY, [FENCED, S.PREPARE_ABORT, FENCED, INVALID]),
            (S.COMPLETE_ABORT, [E.none, S.PREPARE_ABORT, INVALID, INVALID]),
            (S.COMPLETE_COMMIT, [INVALID, S.PREPARE_ABORT, E.none, INVALID]),
            (S.ONGOING, [FENCED, S.PREPARE_ABORT, FENCED, S.PREPARE_COMMIT]),
            (S.PREPARE_ABORT, [BUSY, BUSY, BUSY, BUSY]),
            (S.PREPARE_COMMIT, [BUSY, BUSY, BUSY, BUSY]),
        ],
    )
    def test_again_or_for_the_first_time(self, state: TxnState, expected: list[object]) -> None:
        asked = [(4, False), (5, False), (4, True), (5, True)]
        found = [end(known(state), epoch, is_commit, 2) for epoch, is_commit in asked]
        assert [each.state if isinstance(each, Transaction) else each for each in found] == expected

    @pytest.mark.parametrize("state", list(S)[:6])
    @pytest.mark.parametrize("epoch", [3, 6])
    def test_any_other_epoch_is_fenced(self, state: TxnState, epoch: int) -> None:
        is_ending = state in (S.PREPARE_COMMIT, S.PREPARE_ABORT)
        assert end(known(state), epoch, True, 2) is (BUSY if is_ending else FENCED)

    def test_while_markers_are_written_who_was_told_its_next_name_waits(self) -> None:
        """It begins the next transaction at once, and may give that up before anything is written."""
        for epoch in (5, LAST):
            ending = end(known(S.ONGOING, epoch=epoch), epoch, True, 2)
            assert isinstance(ending, Transaction)
            told = decisions.told_producer(ending)
            assert decisions.end(ending, told, False, NOW, new_id, 2) is BUSY
            assert decisions.add_partitions(ending, told, [A], NOW, 2) is BUSY
            aborted = decisions.end(decisions.complete(ending, NOW), told, False, NOW, new_id, 2)
            assert isinstance(aborted, Transaction) and aborted.state is S.PREPARE_ABORT

    def test_the_epoch_goes_up_with_each_transaction(self) -> None:
        ended = end(known(S.ONGOING), 5, True, 2)
        assert isinstance(ended, Transaction)
        assert (ended.producer, ended.last_epoch, ended.start_ms) == ((7, 6), 5, START)
        assert decisions.told_producer(ended) == (7, 6)

    def test_aborting_what_never_began_counts_from_now(self) -> None:
        ended = end(KNOWN, 5, False, 2)
        assert isinstance(ended, Transaction)
        assert (ended.producer, ended.start_ms, ended.partitions) == ((7, 6), NOW, ())

    def test_the_last_epoch_leads_to_a_new_id(self) -> None:
        ended = end(known(S.ONGOING, epoch=LAST), LAST, True, 2)
        assert isinstance(ended, Transaction)
        assert (ended.producer, ended.next_producer_id) == ((7, MAX_EPOCH), 99)  # markers have the last of all
        assert decisions.told_producer(ended) == (99, 0)
        complete = decisions.complete(ended, NOW + 1)
        assert (complete.producer, complete.previous_producer_id) == ((99, 0), 7)
        assert complete.next_producer_id == NO_PRODUCER_ID
        assert end(complete, LAST, True, 2) is E.none  # the client repeats it under its old name
        assert end(complete, LAST, False, 2) is INVALID

    def test_without_an_id_at_hand_the_client_comes_again(self) -> None:
        before = known(S.ONGOING, epoch=LAST)
        found = decisions.end(before, ProducerEpoch(7, LAST), True, NOW, no_id, 2)
        assert found is E.coordinator_load_in_progress

    def test_unknown_ids(self) -> None:
        assert end(None, 5, True, 2) is E.invalid_producer_id_mapping
        assert end(known(S.ONGOING, producer_id=8), 5, True, 2) is E.invalid_producer_id_mapping


@pytest.mark.parametrize(
    ("before", "after"), [(S.PREPARE_COMMIT, S.COMPLETE_COMMIT), (S.PREPARE_ABORT, S.COMPLETE_ABORT)]
)
def test_with_all_markers_it_is_complete(before: TxnState, after: TxnState) -> None:
    complete = decisions.complete(known(before), NOW)
    assert (complete.state, complete.partitions, complete.start_ms, complete.updated_ms) == (after, (), START, NOW)


def test_a_broken_epoch_can_still_be_aborted() -> None:
    aborted = decisions.abort_and_fence(known(S.ONGOING, epoch=MAX_EPOCH), NOW, new_id, 2)
    assert isinstance(aborted, Transaction)
    assert (aborted.epoch, aborted.next_producer_id) == (MAX_EPOCH, 99)
