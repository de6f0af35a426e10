"""A log against a list of batches: whatever is done to it, in whatever order, it holds what the list says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.log.given import NOW, Machine, append, batch, everything, marker, read_at, read_bytes, whole_batches
from tests.log.history import History, judge

from ottla.log.fetched_batches import fetched_batches
from ottla.log.partition_log import PartitionLog
from ottla.log.reading import OffsetOutOfRange
from ottla.log.retention import delete_given_up, give_up_old_segments
from ottla.log.truncation import truncate_fully_and_start_at, truncate_to
from ottla.record.batch import parse_header

PLAIN, IDEMPOTENT, TRANSACTIONAL = -1, 7, 8


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.machine: Machine | None = None

    @initialize(
        seed=st.integers(0, 1 << 30),
        cold_reads=st.sampled_from((0.0, 0.3)),
        segment_bytes=st.sampled_from((200, 600, 3000, 100_000)),
        interval=st.sampled_from((0, 100, 400, 4096)),
        index_bytes=st.sampled_from((48, 1200)),
        flush_messages=st.sampled_from((1, 7, 2**63 - 1)),
        preallocate=st.booleans(),
        retention_bytes=st.sampled_from((0, 500, 2000)),
    )
    def start(
        self, seed: int, cold_reads: float, segment_bytes: int, interval: int, index_bytes: int, flush_messages: int,
        preallocate: bool, retention_bytes: int,
    ) -> None:  # fmt: skip
        self.machine = Machine(seed, cold_reads=cold_reads)
        self.history = History()
        self.sequences: dict[tuple[int, int], int] = {}
        self.producer_epochs: dict[int, int] = {}
        self.open_transaction = False
        self.epoch = 0
        self.log = self.machine.open(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            flush_messages=flush_messages,
            preallocate=str(preallocate).lower(),
            retention_bytes=retention_bytes,
        )

    @property
    def sim(self) -> Machine:
        assert self.machine is not None
        return self.machine

    def teardown(self) -> None:
        if self.machine is not None:
            self.machine.world.close()

    # -- what may be done to a log

    @rule(
        count=st.integers(1, 6),
        size=st.sampled_from((0, 10, 100, 700)),
        time=st.integers(-1, 200),
        producer=st.sampled_from((PLAIN, PLAIN, IDEMPOTENT, TRANSACTIONAL)),
        again=st.integers(1, 4),
    )
    def append(self, count: int, size: int, time: int, producer: int, again: int) -> None:
        for _ in range(again):
            epoch = self.producer_epochs.get(producer, 0)
            sequence = self.sequences.get((producer, epoch), 0)
            data = batch(
                count,
                timestamp=NOW + time if time >= 0 else -1,
                size=size,
                producer_id=producer,
                producer_epoch=epoch,
                sequence=sequence,
                transactional=producer == TRANSACTIONAL,
            )
            self.sequences[producer, epoch] = (sequence + count) & 0x7FFFFFFF
            self._put(data)
            self.open_transaction |= producer == TRANSACTIONAL

    @precondition(lambda self: self.open_transaction)
    @rule(commit=st.booleans(), bump=st.booleans())
    def end_transaction(self, commit: bool, bump: bool) -> None:
        epoch = self.producer_epochs.get(TRANSACTIONAL, 0) + bump
        self.producer_epochs[TRANSACTIONAL] = epoch
        self._put(marker(TRANSACTIONAL, commit=commit, producer_epoch=epoch, coordinator=self.epoch))
        self.open_transaction = False

    def _put(self, data: bytes) -> None:
        head = self.log.end_offset.to_bytes(8, "big") + data[8:12] + self.epoch.to_bytes(4, "big")
        self.history.batches.append(head + data[16:])
        base_offset = self.sim.call(append, self.log, data, epoch=self.epoch)
        assert base_offset == parse_header(self.history.batches[-1]).base_offset

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.sim.call(self.log.roll, NOW)

    @rule()
    def flush(self) -> None:
        self.sim.call(self.log.flush)

    @rule(seconds=st.sampled_from((0.001, 0.005, 1.0)))
    def wait(self, seconds: float) -> None:
        self.sim.pass_time(seconds)

    @rule(count=st.integers(1, 4), batches=st.integers(1, 5), size=st.sampled_from((0, 100)), cut=st.integers(0, 60))
    def fetch_from_a_leader(self, count: int, batches: int, size: int, cut: int) -> None:
        """Several batches at once, the last of them perhaps cut short."""
        fetched: list[bytes] = []
        offset, sequence = self.log.end_offset, self.sequences.get((IDEMPOTENT, 0), 0)
        for number in range(batches):
            is_idempotent = number % 2 == 0 and self.producer_epochs.get(IDEMPOTENT, 0) == 0
            data = batch(
                count, timestamp=NOW + number, size=size, producer_id=IDEMPOTENT if is_idempotent else -1,
                sequence=sequence,
            )  # fmt: skip
            sequence = (sequence + count) & 0x7FFFFFFF if is_idempotent else sequence
            fetched.append(offset.to_bytes(8, "big") + data[8:12] + self.epoch.to_bytes(4, "big") + data[16:])
            offset += count
        records = b"".join([*fetched, fetched[0][:cut]])
        headers = fetched_batches(records, self.log.end_offset, self.epoch)
        assert len(headers) == batches
        self.sim.call(self.log.append_as_is, records, headers, NOW)
        self.sequences[IDEMPOTENT, 0] = sequence
        self.history.batches += fetched

    @precondition(lambda self: self.log.end_offset > self.log.start_offset)
    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """At the end of a batch, as followers do."""
        ends = [parse_header(b).base_offset for b in self.history.batches]
        ends = [end for end in ends if end >= self.log.start_offset]
        if ends:
            self._cut(data.draw(st.sampled_from(ends)), fully=False)

    @rule(data=st.data())
    def start_anew(self, data: st.DataObject) -> None:
        self._cut(data.draw(st.integers(0, self.log.end_offset + 50)), fully=True)

    def _cut(self, offset: int, *, fully: bool) -> None:
        cut = truncate_fully_and_start_at if fully else truncate_to
        for path in self.sim.call(cut, self.sim.env, self.log, offset):
            self.sim.disk.remove(path)
        history = self.history
        history.batches = [] if fully else history.before(offset)
        history.flushed, history.acknowledged = min(history.flushed, offset), min(history.acknowledged, offset)
        if fully:
            history.start, history.forgetful = offset, False
        assert self.sim.wait_for(lambda: self.log.until_durable(self.log.flushed_offset))
        self.epoch += 1
        judge(self.log, history, power_lost=False)
        self._learn_again(self.log)
        event("started anew" if fully else "truncated")

    @precondition(lambda self: self.log.end_offset > self.log.start_offset)
    @rule(data=st.data())
    def advance_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.start_offset, self.log.end_offset))
        self.sim.call(self.log.advance_start, offset)
        self.history.start = self.log.start_offset

    @rule()
    def delete_old_segments(self) -> None:
        if self.sim.call(give_up_old_segments, self.log, self.log.end_offset, NOW):
            self.sim.wait_for(lambda: self.log.until_durable(self.log.start_offset))
            for path in self.sim.call(delete_given_up, self.log):
                self.sim.disk.remove(path)
            event("retention")
        self.history.start = self.log.start_offset

    # -- reading

    @rule(data=st.data(), max_bytes=st.sampled_from((0, 1, 61, 500, 1 << 20)), at_least_one=st.booleans())
    def read(self, data: st.DataObject, max_bytes: int, at_least_one: bool) -> None:
        log = self.log
        offset = data.draw(st.integers(max(log.start_offset - 1, 0), log.end_offset + 1))
        upper = data.draw(st.integers(log.start_offset, log.end_offset))
        if not log.start_offset <= offset <= log.end_offset:
            with pytest.raises(OffsetOutOfRange):
                read_at(log, offset, max_bytes, upper)
            return
        found = read_at(log, offset, max_bytes, upper, at_least_one=at_least_one)
        wanted = [b for b in self.history.before(upper) if parse_header(b).last_offset >= offset]
        if found is None:
            assert not wanted or (len(wanted[0]) > max_bytes and not at_least_one)
            return
        content = read_bytes(found)
        expected = b"".join(wanted)
        assert content == expected[: len(content)]
        limit = max(max_bytes, len(wanted[0])) if at_least_one else max_bytes
        assert len(content) <= limit
        whole = whole_batches(content)
        assert whole
        # no shorter than it must be: to the limit, or to the end of what there is or of a segment
        if len(content) < min(limit, len(expected)):
            last = parse_header(whole[-1]).next_offset
            assert any(segment.base_offset == last for segment in log.segments)

    # -- ends and new beginnings

    @rule()
    def restart(self) -> None:
        self.history.acknowledged = self.log.end_offset
        self.log = self.sim.reopen(self.log)
        assert self.log.flushed_offset == self.log.end_offset
        self._found(power_lost=False)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.history.acknowledged = self.log.end_offset
        self.sim.host.crash()
        self._recover(data)
        self._found(power_lost=False)

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.sim.host.power_loss()
        self._recover(data)
        # What lies before the start is dropped, and the snapshot of its producers may have been lost.
        self.history.forgetful |= self.log.start_offset > 0
        self._found(power_lost=True)

    def _recover(self, data: st.DataObject) -> None:
        """The checkpoint may be older than the last flush."""
        old = self.log
        self.history.flushed = old.flushed_offset
        point = data.draw(st.sampled_from((old.flushed_offset, old.flushed_offset, old.flushed_offset // 2, 0)))
        self.log = self.sim.open(clean=False, recovery_point=point, start_offset=old.start_offset, settings=old.config)
        assert self.log.flushed_offset == min(point, self.log.end_offset)

    def _found(self, *, power_lost: bool) -> None:
        log, history = self.log, self.history
        judge(log, history, power_lost=power_lost)
        del history.batches[len(history.before(log.end_offset)) :]
        history.start, history.flushed = log.start_offset, min(history.flushed, log.flushed_offset)
        self._learn_again(log)
        event(f"{'power loss' if power_lost else 'restart or crash'}, {min(len(log.segments), 4)} segments")

    def _learn_again(self, log: PartitionLog) -> None:
        """Producers ask where they are."""
        self.sequences.clear()
        self.open_transaction = False
        for entry in log.producers.entries.values():
            self.producer_epochs[entry.producer_id] = entry.epoch
            if entry.batches:
                last = entry.batches[-1].last_sequence
                self.sequences[entry.producer_id, entry.epoch] = (last + 1) & 0x7FFFFFFF
            self.open_transaction |= entry.txn_first_offset >= 0

    @invariant()
    def ends_where_the_list_ends(self) -> None:
        if self.machine is not None:
            assert self.log.end_offset == max(self.history.end, self.log.start_offset)
            assert self.log.flushed_offset <= self.log.end_offset
            assert self.log.committable_offset <= self.log.end_offset

    @precondition(lambda self: self.machine is not None)
    @rule()
    def read_everything(self) -> None:
        start = self.log.start_offset
        assert everything(self.log) == [b for b in self.history.batches if parse_header(b).last_offset >= start]


def _machine(examples: int, steps: int) -> Any:
    class Configured(LogMachine):
        pass

    case = Configured.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=examples < 1000,  # the same in every short run; a long one looks elsewhere each time
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    return case


TestLogAgainstAList = _machine(120, 30)


@pytest.mark.slow
@pytest.mark.timeout(3600)
class TestLogAgainstAListForLong(_machine(1000, 60)):  # type: ignore[misc]
    pass
