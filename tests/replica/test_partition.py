"""A partition's leader: who may append, what is acknowledged when, what readers see."""

import asyncio
import errno
from collections.abc import Iterator

import pytest
from tests.log.given import NOW, PARTITION, TOPIC_ID, Machine, append, batch, config, everything, marker
from tests.replica.given import ALONE, NODE, leader, produce

from ottla.log.producers import Origin
from ottla.log.retention import delete_oldest
from ottla.model.errors import ErrorCode
from ottla.record.batch import Codec, parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import Record
from ottla.replica.partition import Appended, Isolation, Leadership, Partition

NONE = ErrorCode.none


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def fetch(partition: Partition, offset: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[int]:
    """Offsets of the batches that a consumer gets."""
    found = partition.fetch(offset, 1 << 20, isolation, at_least_one=True)
    assert found.code is NONE
    if found.data is None:
        return []
    data = found.data.file.pread(found.data.size, found.data.position)
    offsets = []
    position = 0
    while position < len(data):
        header = parse_header(data, position)
        offsets.append(header.base_offset)
        position += header.size
    return offsets


class TestLeadership:
    def test_only_the_leader_takes_records(self, machine: Machine) -> None:
        partition = leader(machine)
        partition.lead_or_follow(Leadership(2, 6, (2,), (1, 2)))
        assert produce(machine, partition, batch()).code == ErrorCode.not_leader_or_follower
        assert partition.fetch(0, 100, Isolation.READ_UNCOMMITTED).code == ErrorCode.not_leader_or_follower

    def test_an_epoch_that_is_not_ours_is_older_or_newer(self, machine: Machine) -> None:
        partition = leader(machine)
        for epoch, code in (
            (4, ErrorCode.fenced_leader_epoch),
            (5, NONE),
            (6, ErrorCode.unknown_leader_epoch),
            (-1, NONE),
        ):
            result = machine.call(partition.append, batch(), -1, Origin.CLIENT, epoch)
            assert isinstance(result, Appended)
            assert result.code == code
            assert partition.check_epoch(epoch) == code

    def test_batches_carry_the_leaders_epoch(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch())
        partition.lead_or_follow(ALONE._replace(leader_epoch=8))
        produce(machine, partition, batch())
        assert [parse_header(data).leader_epoch for data in everything(partition.log)] == [5, 8]
        assert partition.log.epochs.starts == [(5, 0), (8, 1)]

    def test_without_enough_in_sync_replicas_acks_all_is_refused_and_others_are_not_committed(
        self, machine: Machine
    ) -> None:
        alone_of_two = Leadership(NODE, 5, (NODE,), (NODE, 2))
        partition = leader(machine, leadership=alone_of_two, min_insync_replicas=2)
        assert produce(machine, partition, batch(), acks=-1).code == ErrorCode.not_enough_replicas
        assert produce(machine, partition, batch(), acks=1).code is NONE
        assert (partition.appended.value, partition.high_watermark) == (1, 0)

    def test_min_isr_counts_no_further_than_there_are_replicas(self, machine: Machine) -> None:
        partition = leader(machine, min_insync_replicas=3)
        assert produce(machine, partition, batch(), acks=-1).code is NONE
        assert partition.high_watermark == 1

    def test_listeners_hear_of_it(self, machine: Machine) -> None:
        partition = leader(machine)
        heard: list[object] = []

        class Listener:
            def high_watermark_moved(self, partition: Partition, offset: int) -> None:
                heard.append(offset)

            def leadership_changed(self, partition: Partition, led_before: bool) -> None:
                heard.append(led_before)

        partition.listeners.append(Listener())
        produce(machine, partition, batch(3))
        partition.lead_or_follow(ALONE._replace(isr=(1, 2)))
        partition.lead_or_follow(Leadership(2, 6, (2,), (1, 2)))
        assert heard == [3, True]


class TestStages:
    def test_without_flush_rules_a_record_is_committed_when_it_is_appended(self, machine: Machine) -> None:
        partition = leader(machine)
        result = produce(machine, partition, batch(3))
        assert (result.code, result.base_offset, result.next_offset) == (NONE, 0, 3)
        assert (partition.appended.value, partition.flushed.value, partition.high_watermark) == (3, 0, 3)

    def test_with_flush_messages_it_is_neither_appended_nor_committed_before_its_sync(self, machine: Machine) -> None:
        partition = leader(machine, flush_messages=1)
        assert produce(machine, partition, batch(3)).code is NONE
        assert (partition.appended.value, partition.flushed.value, partition.high_watermark) == (0, 0, 0)
        assert fetch(partition, 0) == []
        machine.pass_time()
        assert (partition.appended.value, partition.flushed.value, partition.high_watermark) == (3, 3, 3)
        assert fetch(partition, 0) == [0]

    def test_the_high_watermark_begins_where_it_was_checkpointed_within_the_log(self, machine: Machine) -> None:
        log = machine.open()
        append(log, batch(5))
        log.advance_start(2)
        for checkpointed, begins in ((0, 2), (3, 3), (99, 5)):
            partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, checkpointed)
            assert partition.high_watermark == begins

    def test_the_high_watermark_is_not_below_what_only_the_remote_tier_has(self, machine: Machine) -> None:
        log = machine.open(remote_storage_enable=True, segment_bytes=1)
        for _ in range(4):
            append(log, batch())
        log.tiered_to = 1
        assert delete_oldest(log) and delete_oldest(log)
        partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 0)
        assert (log.start_offset, partition.high_watermark) == (0, 2)
        partition.lead_or_follow(Leadership(2, 5, (2, NODE), (2, NODE)))
        partition.followed_to(3)
        assert partition.high_watermark == 3
        partition.followed_to(1)
        assert partition.high_watermark == 2

    def test_just_after_an_election_offsets_are_not_known_yet(self, machine: Machine) -> None:
        log = machine.open(min_insync_replicas=2)
        append(log, batch(5))
        partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 3)
        partition.lead_or_follow(Leadership(NODE, 5, (NODE,), (NODE, 2)))
        assert not partition.offsets_are_known
        partition.lead_or_follow(Leadership(NODE, 5, (NODE, 2), (NODE, 2)))
        assert not partition.offsets_are_known
        partition.follower_fetched(2, 5, 0, -1)
        assert partition.offsets_are_known


class TestProducers:
    def test_a_batch_that_is_there_already_is_answered_with_its_offsets(self, machine: Machine) -> None:
        partition = leader(machine)
        first = produce(machine, partition, batch(3, producer_id=9))
        produce(machine, partition, batch(2, producer_id=9, sequence=3))
        again = produce(machine, partition, batch(3, producer_id=9))
        assert (again.code, again.base_offset, again.next_offset) == (NONE, first.base_offset, first.next_offset)
        assert partition.log.end_offset == 5

    def test_a_gap_is_refused(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch(3, producer_id=9))
        refused = produce(machine, partition, batch(1, producer_id=9, sequence=4))
        assert refused.code == ErrorCode.out_of_order_sequence_number
        assert refused.base_offset == -1
        assert partition.log.end_offset == 3

    def test_after_one_that_was_turned_away_the_next_is_turned_away_too(self, machine: Machine) -> None:
        """A gap would be no news to the producer: it sends both again."""
        alone, both = Leadership(NODE, 5, (NODE,), (NODE, 2)), Leadership(NODE, 5, (NODE, 2), (NODE, 2), 1)
        partition = leader(machine, leadership=both._replace(partition_epoch=0), min_insync_replicas=2)
        assert produce(machine, partition, batch(3, producer_id=9)).code is NONE
        partition.lead_or_follow(alone._replace(partition_epoch=1))
        for sequence in (0, 3):
            refused = produce(machine, partition, batch(3, producer_id=9, sequence=sequence))
            assert refused.code is ErrorCode.not_enough_replicas
        partition.lead_or_follow(both._replace(partition_epoch=2))

        after = produce(machine, partition, batch(2, producer_id=9, sequence=6))
        assert after.code is ErrorCode.not_enough_replicas
        assert [
            produce(machine, partition, batch(3, producer_id=9, sequence=sequence)).next_offset
            for sequence in (0, 3, 6)
        ] == [3, 6, 9]  # fmt: skip
        gap = produce(machine, partition, batch(1, producer_id=9, sequence=10))
        assert gap.code is ErrorCode.out_of_order_sequence_number

    def test_nor_does_the_second_batch_of_an_unknown_producer_overtake_the_first(self, machine: Machine) -> None:
        partition = leader(machine)
        partition.lead_or_follow(Leadership(2, 6, (2,), (NODE, 2), 1))
        assert produce(machine, partition, batch(3, producer_id=9)).code is ErrorCode.not_leader_or_follower
        partition.lead_or_follow(Leadership(NODE, 7, (NODE,), (NODE, 2), 2))

        after = produce(machine, partition, batch(2, producer_id=9, sequence=3))
        assert after.code is ErrorCode.not_leader_or_follower
        assert produce(machine, partition, batch(3, producer_id=9)).code is NONE
        assert produce(machine, partition, batch(2, producer_id=9, sequence=3)).code is NONE

    def test_another_epoch_or_producer_has_nothing_to_do_with_it(self, machine: Machine) -> None:
        partition = leader(machine)
        partition.lead_or_follow(Leadership(2, 6, (2,), (NODE, 2), 1))
        produce(machine, partition, batch(3, producer_id=9, producer_epoch=1))
        partition.lead_or_follow(Leadership(NODE, 7, (NODE,), (NODE, 2), 2))

        assert produce(machine, partition, batch(2, producer_id=9, producer_epoch=0, sequence=3)).code is NONE
        assert produce(machine, partition, batch(2, producer_id=8, producer_epoch=1, sequence=3)).code is NONE

    def test_a_retry_while_the_first_is_being_synced_waits_for_the_same_sync(self, machine: Machine) -> None:
        partition = leader(machine, flush_messages=1)
        produce(machine, partition, batch(3, producer_id=9))
        again = produce(machine, partition, batch(3, producer_id=9))
        assert (again.code, again.next_offset) == (NONE, 3)
        assert partition.appended.value == 0
        machine.pass_time()
        assert partition.appended.value == 3

    def test_what_another_origin_appends_is_not_checked(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch(3, producer_id=9))
        result = machine.call(partition.append, batch(1, producer_id=9, sequence=77), -1, Origin.COORDINATOR)
        assert isinstance(result, Appended)
        assert result.code is NONE


class TestLogAppendTime:
    def test_records_get_the_brokers_time_and_a_right_checksum(self, machine: Machine) -> None:
        partition = leader(machine, message_timestamp_type="LogAppendTime")
        machine.pass_time(5)
        now = machine.env.clock.now_ms()
        for codec in Codec:
            result = produce(machine, partition, batch(3, timestamp=12345, step=7, codec=codec))
            assert result.log_append_time == now
        for data in everything(partition.log):
            assert {record.timestamp for record in read_records(data)} == {now}
            assert parse_header(data).max_timestamp == now
        assert partition.log.active.max_timestamp == now
        log = machine.after_crash(partition.log)
        assert log.end_offset == 15

    def test_with_create_time_they_keep_their_own(self, machine: Machine) -> None:
        partition = leader(machine)
        assert produce(machine, partition, batch(2, timestamp=NOW - 5)).log_append_time == -1
        assert {record.timestamp for record in read_records(everything(partition.log)[0])} == {NOW - 5}

    def test_segments_roll_by_it(self, machine: Machine) -> None:
        partition = leader(machine, message_timestamp_type="LogAppendTime", segment_ms=1000)
        produce(machine, partition, batch(timestamp=1))
        machine.pass_time(1.5)
        produce(machine, partition, batch(timestamp=1))
        assert len(partition.log.segments) == 2


class TestReading:
    def test_consumers_see_what_is_committed_and_followers_everything(self, machine: Machine) -> None:
        partition = leader(machine, leadership=Leadership(NODE, 5, (NODE,), (NODE, 2)), min_insync_replicas=2)
        produce(machine, partition, batch(), acks=1)
        assert fetch(partition, 0) == []
        found = partition.fetch(0, 1000, Isolation.READ_UNCOMMITTED, replica=2)
        assert found.data is not None

    def test_readers_of_committed_data_stop_before_an_open_transaction(self, machine: Machine) -> None:
        partition = leader(machine)
        log = partition.log
        produce(machine, partition, batch())
        append(log, batch(producer_id=9, transactional=True), epoch=5)
        produce(machine, partition, batch())
        assert partition.last_stable_offset == 1
        assert fetch(partition, 0, Isolation.READ_COMMITTED) == [0]
        append(log, marker(9, commit=False), epoch=5)
        produce(machine, partition, batch())
        assert partition.last_stable_offset == 5
        found = partition.fetch(0, 1000, Isolation.READ_COMMITTED)
        assert found.aborted is not None
        assert [(txn.producer_id, txn.first_offset) for txn in found.aborted] == [(9, 1)]

    def test_after_a_crash_ended_transactions_hold_nobody_up(self, machine: Machine) -> None:
        """Their markers lie below the high watermark that was checkpointed, and nothing may come for long."""
        partition = leader(machine)
        append(partition.log, batch(producer_id=9, transactional=True), epoch=5)
        append(partition.log, marker(9, commit=True), epoch=5)
        log = machine.after_crash(partition.log)
        partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 2)
        partition.lead_or_follow(ALONE)
        assert (partition.high_watermark, partition.last_stable_offset) == (2, 2)

    def test_before_the_start_and_beyond_the_end_there_is_nothing(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch(4))
        partition.log.advance_start(2)
        for offset, code in (
            (1, ErrorCode.offset_out_of_range),
            (2, NONE),
            (4, NONE),
            (5, ErrorCode.offset_out_of_range),
        ):
            assert partition.fetch(offset, 100, Isolation.READ_UNCOMMITTED).code == code

    def test_a_reader_whose_history_parted_from_ours_is_told_where(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch(4))
        partition.lead_or_follow(ALONE._replace(leader_epoch=7))
        produce(machine, partition, batch(2))
        found = partition.fetch(5, 100, Isolation.READ_UNCOMMITTED, last_fetched_epoch=5)
        assert (found.code, found.diverging) == (NONE, (5, 4))
        found = partition.fetch(4, 100, Isolation.READ_UNCOMMITTED, last_fetched_epoch=5)
        assert found.diverging is None
        assert found.data is not None
        found = partition.fetch(4, 100, Isolation.READ_UNCOMMITTED, last_fetched_epoch=6)
        assert found.diverging == (5, 4)

    def test_a_damaged_log_is_an_error_of_this_partition(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch())
        produce(machine, partition, batch())
        file = machine.disk.open(partition.log.active.path)
        file.write((bytes(40),), len(batch()))
        assert fetch_code(partition, 1) == ErrorCode.corrupt_message


def fetch_code(partition: Partition, offset: int) -> ErrorCode:
    return partition.fetch(offset, 1000, Isolation.READ_UNCOMMITTED, at_least_one=True).code


class TestFailure:
    def test_a_full_disk_is_a_storage_error(self, machine: Machine) -> None:
        partition = leader(machine)
        produce(machine, partition, batch())
        machine.disk.fail("*.log", errno.ENOSPC, operations=["write"], times=1)
        assert produce(machine, partition, batch()).code == ErrorCode.kafka_storage_error
        assert produce(machine, partition, batch()).code == ErrorCode.kafka_storage_error
        assert partition.fetch(0, 100, Isolation.READ_UNCOMMITTED).code == ErrorCode.kafka_storage_error
        assert partition.high_watermark == 1

    def test_a_retry_of_what_could_not_be_synced_is_not_acknowledged(self, machine: Machine) -> None:
        partition = leader(machine, flush_messages=1)
        machine.disk.fail("*.log", operations=["sync"], times=1)
        produce(machine, partition, batch(producer_id=9))
        machine.pass_time()
        assert produce(machine, partition, batch(producer_id=9)).code == ErrorCode.kafka_storage_error


class TestRecordsThatAreWalkedThrough:
    """A compacted topic takes no record without a key; large batches are looked through in another process."""

    def keyless(self, size: int = 10) -> bytes:
        return build_batch([Record(b"k", b"v" * size, NOW), Record(None, b"v", NOW)])

    def test_small_ones_at_once(self, machine: Machine) -> None:
        partition = leader(machine, cleanup_policy="compact")
        assert produce(machine, partition, batch()).code is NONE
        refused = produce(machine, partition, self.keyless())
        assert refused.code == ErrorCode.invalid_record
        assert [index for index, _ in refused.record_errors] == [1]

    def results(self, machine: Machine, partition: Partition, *batches: bytes) -> list[Appended]:
        async def story() -> list[Appended]:
            waiting = [partition.append(data, -1) for data in batches]
            return [await one if isinstance(one, asyncio.Future) else one for one in waiting]

        found: list[Appended] = machine.wait_for(story)
        return found

    def test_large_ones_elsewhere_in_their_order(self, machine: Machine) -> None:
        partition = leader(machine, cleanup_policy="compact")
        large, small = batch(2, size=5000), batch(1)
        results = self.results(machine, partition, large, small, self.keyless(6000), small, large)
        assert [result.code for result in results] == [NONE, NONE, ErrorCode.invalid_record, NONE, NONE]
        assert [result.base_offset for result in results] == [0, 2, -1, 3, 4]
        assert [len(data) for data in everything(partition.log)] == [len(large), len(small), len(small), len(large)]

    def test_a_retry_behind_its_first_self_is_known(self, machine: Machine) -> None:
        partition = leader(machine, cleanup_policy="compact")
        large = batch(2, size=5000, producer_id=9)
        first, again = self.results(machine, partition, large, large)
        assert first.base_offset == again.base_offset == 0
        assert partition.log.end_offset == 2

    def test_those_under_way_when_the_leadership_ends_are_refused(self, machine: Machine) -> None:
        partition = leader(machine, cleanup_policy="compact")

        async def story() -> Appended:
            waiting = partition.append(batch(2, size=5000), -1)
            partition.lead_or_follow(Leadership(2, 6, (2,), (1, 2)))
            assert isinstance(waiting, asyncio.Future)
            return await waiting

        assert machine.wait_for(story).code == ErrorCode.not_leader_or_follower
        assert partition.log.end_offset == 0

    def test_those_under_way_when_the_node_stops_are_not_appended_any_more(self, machine: Machine) -> None:
        partition = leader(machine, cleanup_policy="compact")

        async def story() -> Appended:
            waiting = partition.append(batch(2, size=5000), -1)
            assert isinstance(waiting, asyncio.Future)
            (check,) = (each.check for each in partition._checks.waiting)
            partition.stop()
            assert check is not None
            await check  # it ends after all
            return await waiting

        assert machine.wait_for(story).code == ErrorCode.not_leader_or_follower
        assert partition.log.end_offset == 0

    def test_a_changed_config_counts_from_then_on(self, machine: Machine) -> None:
        partition = leader(machine)
        assert produce(machine, partition, self.keyless()).code is NONE
        partition.configure(config(cleanup_policy="compact"))
        assert produce(machine, partition, self.keyless()).code == ErrorCode.invalid_record
