"""What a partition remembers of its producers, and what it says to their batches."""

from collections.abc import Iterator

import pytest
from tests.log.given import (
    NOW,
    PARTITION,
    TOPIC_ID,
    Machine,
    append,
    batch,
    config,
    marker,
    producer_state,
    replayed,
)

from ottla.log.producers import (
    CorruptSnapshot,
    EndMarker,
    ProducerEntry,
    Producers,
    Refused,
    SeenBatch,
    read_snapshot,
    write_snapshot,
)
from ottla.model.errors import ErrorCode
from ottla.record.batch import BatchHeader, parse_header

LAST = 2**31 - 1
OUT_OF_ORDER = ErrorCode.out_of_order_sequence_number


def header(sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = 9, txn: bool = False) -> BatchHeader:
    return parse_header(
        batch(count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=txn)
    )


class Known:
    """A partition's producers, told of batches one after the other."""

    def __init__(self) -> None:
        self.producers = Producers("orders-0")
        self.end = 0

    def take(self, told: BatchHeader, timestamp: int = NOW) -> int:
        base_offset = self.end
        self.producers.note(told, base_offset, timestamp)
        self.end += told.last_offset_delta + 1
        return base_offset

    def verdict(self, told: BatchHeader) -> ErrorCode | SeenBatch | None:
        found = self.producers.check(told)
        return found.code if isinstance(found, Refused) else found


@pytest.fixture
def known() -> Known:
    return Known()


class TestSequences:
    def test_an_unknown_producer_may_begin_anywhere(self, known: Known) -> None:
        """Its earlier batches may have been deleted, or its entry have expired."""
        assert known.verdict(header(0)) is None
        assert known.verdict(header(42)) is None

    def test_the_next_sequence_is_taken_and_a_gap_refused(self, known: Known) -> None:
        known.take(header(0, 3))
        assert known.verdict(header(3)) is None
        assert known.verdict(header(4)) == OUT_OF_ORDER
        assert known.verdict(header(2)) == OUT_OF_ORDER

    @pytest.mark.parametrize("back", range(1, 8))
    def test_the_last_five_batches_are_known_again_and_no_more(self, known: Known, back: int) -> None:
        offsets = [known.take(header(2 * n, 2)) for n in range(8)]
        again = known.verdict(header(2 * (8 - back), 2))
        if back <= 5:
            assert again == SeenBatch(2 * (8 - back), 2 * (8 - back) + 1, offsets[-back], offsets[-back] + 1, NOW)
        else:
            assert again == OUT_OF_ORDER

    def test_a_batch_of_other_size_at_a_known_sequence_is_none_that_is_known(self, known: Known) -> None:
        known.take(header(0, 3))
        assert known.verdict(header(0, 2)) == OUT_OF_ORDER
        assert known.verdict(header(0, 4)) == OUT_OF_ORDER

    def test_sequences_wrap_after_the_largest_number(self, known: Known) -> None:
        known.take(header(LAST - 1, 2))
        assert known.verdict(header(0)) is None
        known.take(header(0))
        assert known.verdict(header(1)) is None
        assert known.verdict(header(LAST - 1, 2)) == SeenBatch(LAST - 1, LAST, 0, 1, NOW)

    def test_a_batch_may_wrap_in_its_middle(self, known: Known) -> None:
        known.take(header(LAST - 1, 5))  # LAST-1, LAST, 0, 1, 2
        assert known.verdict(header(3)) is None
        assert known.verdict(header(2)) == OUT_OF_ORDER
        assert known.verdict(header(LAST - 1, 5)) == SeenBatch(LAST - 1, 2, 0, 4, NOW)

    def test_producers_do_not_know_of_each_other(self, known: Known) -> None:
        known.take(header(0, 3))
        assert known.verdict(header(7, producer_id=10)) is None


class TestEpochs:
    def test_a_new_epoch_begins_at_sequence_0(self, known: Known) -> None:
        known.take(header(0, 3))
        assert known.verdict(header(3, epoch=1)) == OUT_OF_ORDER
        assert known.verdict(header(0, epoch=1)) is None

    def test_an_older_epoch_is_fenced(self, known: Known) -> None:
        known.take(header(0, epoch=3))
        assert known.verdict(header(1, epoch=2)) == ErrorCode.invalid_producer_epoch
        assert known.verdict(header(0, epoch=2)) == ErrorCode.invalid_producer_epoch, "not even one that it had sent"

    def test_batches_of_an_older_epoch_are_forgotten(self, known: Known) -> None:
        known.take(header(0, 3))
        known.take(header(0, 3, epoch=1))
        entry = known.producers.entries[9]
        assert (entry.epoch, len(entry.batches)) == (1, 1)

    def test_after_a_marker_has_raised_the_epoch_its_first_batch_is_number_0(self, known: Known) -> None:
        known.take(header(0, 3, txn=True))
        ending = parse_header(marker(9, commit=True, producer_epoch=1))
        known.producers.note_end(ending, EndMarker(True, 4, NOW), 3)
        assert known.verdict(header(3, epoch=1)) == OUT_OF_ORDER
        assert known.verdict(header(0, epoch=1)) is None
        assert known.verdict(header(3, epoch=0)) == ErrorCode.invalid_producer_epoch

    def test_after_a_marker_of_the_same_epoch_sequences_go_on(self, known: Known) -> None:
        known.take(header(0, 3, txn=True))
        ending = parse_header(marker(9, commit=True))
        known.producers.note_end(ending, EndMarker(True, 4, NOW), 3)
        assert known.verdict(header(3)) is None

    def test_messages_say_who_where_and_what(self, known: Known) -> None:
        known.take(header(0, 3))
        refused = known.producers.check(header(7))
        assert isinstance(refused, Refused)
        for part in ("producer 9", "orders-0", "7 (incoming", "2 (current end"):
            assert part in refused.message


class TestTransactions:
    def test_a_plain_batch_in_an_open_transaction_is_refused(self, known: Known) -> None:
        known.take(header(0, txn=True))
        assert known.verdict(header(1)) == ErrorCode.invalid_txn_state
        assert known.verdict(header(1, txn=True)) is None

    def test_the_first_unstable_offset_is_that_of_the_oldest_open_transaction(self, known: Known) -> None:
        known.take(header(0, 3))
        known.take(header(0, 2, producer_id=20, txn=True))
        known.take(header(0, 2, producer_id=10, txn=True))
        known.take(header(2, 2, producer_id=20, txn=True))
        assert known.producers.first_unstable_offset() == 3

    def test_an_ended_transaction_is_stable_once_its_marker_is_below_the_high_watermark(self, known: Known) -> None:
        known.take(header(0, 2, txn=True))
        known.producers.note_end(parse_header(marker(9, commit=True)), EndMarker(True, 0, NOW), 2)
        known.producers.on_high_watermark(2)
        assert known.producers.first_unstable_offset() == 0
        known.producers.on_high_watermark(3)
        assert known.producers.first_unstable_offset() is None

    def test_an_aborted_one_says_how_far_readers_could_go(self, known: Known) -> None:
        known.take(header(0, 2, producer_id=20, txn=True))
        known.take(header(0, 3, producer_id=10, txn=True))
        first = known.producers.note_end(parse_header(marker(10, commit=False)), EndMarker(False, 0, NOW), 5)
        assert first == (10, 2, 5, 0), "the other is still open from 0 on"
        second = known.producers.note_end(parse_header(marker(20, commit=False)), EndMarker(False, 0, NOW), 6)
        assert second == (20, 0, 6, 7)

    def test_a_marker_for_nothing_leaves_no_trace(self, known: Known) -> None:
        assert known.producers.note_end(parse_header(marker(9, commit=False)), EndMarker(False, 3, NOW), 0) is None
        assert known.producers.first_unstable_offset() is None
        assert known.producers.entries[9].coordinator_epoch == 3


class TestExpiry:
    def test_a_producer_is_forgotten_after_its_time(self, known: Known) -> None:
        known.take(header(5), timestamp=NOW)
        known.producers.expire(NOW + 999, 1000)
        assert known.verdict(header(7)) == OUT_OF_ORDER
        known.producers.expire(NOW + 1000, 1000)
        assert known.verdict(header(7)) is None

    def test_not_while_its_transaction_is_open(self, known: Known) -> None:
        known.take(header(0, txn=True))
        known.producers.expire(NOW + 10**9, 1000)
        assert 9 in known.producers.entries

    def test_the_manager_looks_now_and_then(self) -> None:
        with Machine() as machine:
            manager = machine.manager({}, producer_expiration_check_ms=10_000, producer_expiration_ms=60_000)
            machine.call(manager.start)
            log = machine.call(manager.get_or_create, PARTITION, TOPIC_ID, config())
            machine.call(append, log, batch(producer_id=9))
            machine.pass_time(55)
            assert 9 in log.producers.entries
            machine.pass_time(20)
            assert 9 not in log.producers.entries


def entries() -> list[ProducerEntry]:
    one, two, three = ProducerEntry(1, 0), ProducerEntry(2**62, 32767), ProducerEntry(3, 5)
    one.batches.extend([SeenBatch(0, 1, 0, 1, NOW), SeenBatch(LAST - 1, 2, 7, 11, NOW + 5)])
    one.last_timestamp = NOW + 5
    two.txn_first_offset, two.coordinator_epoch, two.last_timestamp = 10**12, 77, NOW
    three.batches.append(SeenBatch(4, 4, 2**40, 2**40, -1))
    return [one, two, three]


class TestSnapshots:
    def test_what_matters_comes_back(self) -> None:
        given, found = Producers("x"), Producers("x")
        given.load(entries(), 12)
        found.load(read_snapshot(write_snapshot(given.entries.values())), 12)
        assert producer_state(found) == producer_state(given)
        assert list(found.entries[1].batches) == [SeenBatch(LAST - 1, 2, 7, 11, NOW + 5)], "the last batch alone"
        assert found.first_unstable_offset() == 10**12

    def test_of_nobody(self) -> None:
        assert write_snapshot([]).hex() == "0001" + "48674bc7" + "00000000"
        assert read_snapshot(write_snapshot([])) == []

    def test_any_flipped_bit_is_found(self) -> None:
        good = write_snapshot(entries())
        for position in range(len(good)):
            for bit in range(8):
                bad = bytearray(good)
                bad[position] ^= 1 << bit
                with pytest.raises(CorruptSnapshot):
                    read_snapshot(bytes(bad))

    def test_any_missing_end_is_found(self) -> None:
        good = write_snapshot(entries())
        for size in range(len(good)):
            with pytest.raises(CorruptSnapshot):
                read_snapshot(good[:size])
        with pytest.raises(CorruptSnapshot):
            read_snapshot(good + b"\0")


class TestOverRestarts:
    @pytest.fixture
    def machine(self) -> Iterator[Machine]:
        with Machine() as machine:
            yield machine

    def fill(self, machine: Machine) -> object:
        log = machine.open(segment_bytes=700)
        for n in range(20):
            append(log, batch(2, producer_id=n % 3, sequence=2 * (n // 3), timestamp=NOW + n))
            append(log, batch(producer_id=50, sequence=n, transactional=True))
            if n % 6 == 5:
                append(log, marker(50, commit=False, coordinator=n))
        return log

    @pytest.mark.parametrize("how", ["stop", "crash"])
    def test_the_state_is_that_of_a_replay_of_everything(self, machine: Machine, how: str) -> None:
        log = self.fill(machine)
        log = machine.reopen(log) if how == "stop" else machine.after_crash(log)  # type: ignore[arg-type]
        assert len(log.segments) > 3
        assert producer_state(log.producers) == producer_state(replayed(log))
        assert log.producers._ongoing == replayed(log)._ongoing

    def test_a_retry_over_a_restart_lands_once(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch(3, producer_id=9, sequence=0))
        append(log, batch(2, producer_id=9, sequence=3))
        for reopened in (machine.reopen(log), machine.after_crash(log)):
            again = reopened.producers.check(header(3, 2))
            assert isinstance(again, SeenBatch)
            assert (again.base_offset, again.last_offset) == (3, 4)

    def test_a_damaged_snapshot_is_replaced_by_an_older_one_and_a_longer_replay(self, machine: Machine) -> None:
        log = self.fill(machine)
        log.stop()  # type: ignore[attr-defined]
        expected = producer_state(replayed(machine.open(settings=log.config)))  # type: ignore[attr-defined]
        paths = [f"/logs/orders-0/{name}" for name in machine.names() if name.endswith(".snapshot")]
        good = {path: machine.read(path) for path in paths}
        for count in range(1, len(paths) + 1):
            damaged = paths[-count:]
            for path in damaged:
                machine.overwrite(path, good[path][:-1] + b"x")
            log = machine.open(settings=log.config)  # type: ignore[attr-defined]
            assert producer_state(log.producers) == expected
            for path in damaged:
                if machine.disk.exists(path):
                    read_snapshot(machine.read(path))  # made again, for it stands at the start of a segment

    @pytest.mark.parametrize("clean", [True, False])
    def test_a_lost_snapshot_is_made_again_while_the_log_can_still_tell(self, machine: Machine, clean: bool) -> None:
        """Later the older segments are deleted, and then a mere kill would cost the state of their producers."""
        log = machine.open()
        append(log, batch(3, producer_id=9, transactional=True))
        log.roll(NOW)
        append(log, batch())
        log.stop()
        for offset in (3, 4):
            machine.overwrite(f"/logs/orders-0/{offset:020d}.snapshot", b"")  # as a loss of power leaves it
        log = machine.open(clean=clean, recovery_point=4, settings=log.config)
        log.advance_start(3)
        log = machine.after_crash(log)
        assert [segment.base_offset for segment in log.segments] == [3]
        assert log.producers.entries[9].txn_first_offset == 0

    @pytest.mark.parametrize("seed", range(12))
    def test_a_roll_does_not_put_the_snapshot_of_a_stop_at_risk(self, seed: int) -> None:
        with Machine(seed) as machine:
            log = machine.open()
            append(log, batch(3, producer_id=9))
            log = machine.reopen(log)
            machine.call(log.roll, NOW)
            machine.host.power_loss()
            assert read_snapshot(machine.read("/logs/orders-0/00000000000000000003.snapshot"))[0].producer_id == 9

    def test_snapshots_of_stops_do_not_pile_up(self, machine: Machine) -> None:
        log = machine.open()
        for n in range(6):
            append(log, batch(producer_id=9, sequence=n))
            log = machine.reopen(log)
        assert [name for name in machine.names() if name.endswith(".snapshot")] == ["00000000000000000006.snapshot"]

    def test_one_beyond_the_end_is_of_a_lost_history(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch(producer_id=9, sequence=0))
        log.stop()
        machine.overwrite("/logs/orders-0/00000000000000000005.snapshot", write_snapshot([ProducerEntry(77, 1)]))
        log = machine.open()
        assert set(log.producers.entries) == {9}
        assert not machine.disk.exists("/logs/orders-0/00000000000000000005.snapshot")

    @pytest.mark.parametrize("how", ["after a stop", "at a roll, after a kill", "at a roll in between, after a stop"])
    def test_what_was_not_committed_may_be_tried_again_after_a_restart(self, machine: Machine, how: str) -> None:
        """A snapshot tells of the last batch alone. Batches 0 and 1 were acknowledged, those from 2 on were not."""
        log = machine.open()
        for sequence in range(7):
            if how.startswith("at a roll in between") and sequence == 4:
                log.roll(NOW)
            append(log, batch(producer_id=9, sequence=sequence))
            append(log, batch(producer_id=8, sequence=sequence))
        if how.endswith("kill"):
            log.roll(NOW)
            machine.host.crash()
        else:
            machine.pass_time()
            log.stop()
        log = machine.open(clean=not how.endswith("kill"), settings=log.config, high_watermark=4)
        for sequence in (2, 3, 4, 5, 6):
            for producer_id in (8, 9):
                again = log.producers.check(header(sequence, producer_id=producer_id))
                assert isinstance(again, SeenBatch), (sequence, again)
                assert again.base_offset == 2 * sequence + 9 - producer_id
        refused = log.producers.check(header(8))
        assert isinstance(refused, Refused) and refused.code is OUT_OF_ORDER
        assert log.producers.check(header(7)) is None

    def test_where_all_was_committed_the_log_is_not_read_for_what_a_snapshot_left_out(self, machine: Machine) -> None:
        log = machine.open()
        for sequence in range(3):
            append(log, batch(producer_id=9, sequence=sequence))
        machine.pass_time()
        log.stop()
        log = machine.open(settings=log.config, high_watermark=3)
        assert len(log.producers.entries[9].batches) == 1
