"""The end of a transaction on a partition: marker, last stable offset, what read_committed readers are told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.log.given import NOW, Machine, batch
from tests.replica.given import ALONE, NODE, leader, produce

from ottla.log.producers import Verification
from ottla.log.txn_index import AbortedTxn
from ottla.model.errors import ErrorCode
from ottla.replica.end_of_transactions import end_transaction
from ottla.replica.partition import Appended, Isolation, Partition


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def begin(partition: Partition, producer_id: int, epoch: int = 0) -> None:
    begun = partition.log.producers.begin_verification(producer_id, epoch, 0, True, NOW)
    assert isinstance(begun, Verification)
    partition.log.producers.verified(producer_id, epoch, begun)


def write(machine: Machine, partition: Partition, producer_id: int, epoch: int = 0, sequence: int = 0) -> Appended:
    data = batch(2, producer_id=producer_id, producer_epoch=epoch, sequence=sequence, transactional=True)
    return produce(machine, partition, data)


def end(machine: Machine, partition: Partition, producer_id: int, epoch: int, commit: bool, **more: int) -> Appended:
    given = {"coordinator_epoch": 0, "version": 2} | more
    return machine.call(
        end_transaction, partition, producer_id, epoch, commit, given["coordinator_epoch"], given["version"], NOW
    )


def test_readers_of_committed_data_wait_for_the_end(machine: Machine) -> None:
    partition = leader(machine)
    begin(partition, 7)
    assert write(machine, partition, 7).base_offset == 0
    assert (partition.high_watermark, partition.last_stable_offset) == (2, 0)

    ended = end(machine, partition, 7, 1, True)

    assert (ended.code, ended.base_offset) == (ErrorCode.none, 2)
    assert (partition.high_watermark, partition.last_stable_offset) == (3, 3)
    fetched = partition.fetch(0, 10_000, Isolation.READ_COMMITTED)
    assert fetched.data is not None and fetched.aborted == []


def test_what_was_aborted_is_named(machine: Machine) -> None:
    partition = leader(machine)
    for producer_id in (7, 8):
        begin(partition, producer_id)
        write(machine, partition, producer_id)
    end(machine, partition, 8, 1, False)
    assert partition.last_stable_offset == 0, "the other one is still open"
    end(machine, partition, 7, 1, True)
    assert partition.last_stable_offset == 6
    assert partition.fetch(0, 10_000, Isolation.READ_COMMITTED).aborted == [AbortedTxn(8, 2, 4, 0)]
    assert partition.fetch(0, 10_000, Isolation.READ_UNCOMMITTED).aborted is None


def test_a_marker_of_the_transaction_before_does_not_end_this_one(machine: Machine) -> None:
    partition = leader(machine)
    begin(partition, 7)
    write(machine, partition, 7)
    end(machine, partition, 7, 1, True)
    begin(partition, 7, epoch=1)
    write(machine, partition, 7, epoch=1)

    assert end(machine, partition, 7, 1, True).code is ErrorCode.invalid_producer_epoch
    assert partition.last_stable_offset == 3


def test_an_old_coordinator_is_refused(machine: Machine) -> None:
    partition = leader(machine)
    end(machine, partition, 7, 0, True, coordinator_epoch=5)
    refused = end(machine, partition, 7, 1, True, coordinator_epoch=4)
    assert refused.code is ErrorCode.transaction_coordinator_fenced
    assert partition.log.end_offset == 1


def test_only_the_leader_takes_markers(machine: Machine) -> None:
    partition = leader(machine)
    partition.lead_or_follow(ALONE._replace(leader=NODE + 1, leader_epoch=6))
    assert end(machine, partition, 7, 0, True).code is ErrorCode.not_leader_or_follower


def test_a_transaction_that_nobody_knows_is_refused(machine: Machine) -> None:
    partition = leader(machine)
    assert write(machine, partition, 7).code is ErrorCode.invalid_txn_state
    assert partition.log.end_offset == 0


def test_after_a_restart_all_is_as_it_was(machine: Machine) -> None:
    partition = leader(machine)
    for producer_id in (7, 8):
        begin(partition, producer_id)
        write(machine, partition, producer_id)
    end(machine, partition, 8, 1, False)
    partition.log.stop()

    again = leader(machine, high_watermark=5)
    assert again.last_stable_offset == 0
    end(machine, again, 7, 1, True)
    assert again.last_stable_offset == 6
    assert again.fetch(0, 10_000, Isolation.READ_COMMITTED).aborted == [AbortedTxn(8, 2, 4, 0)]


def test_the_last_stable_offset_is_not_below_the_start_of_the_log(machine: Machine) -> None:
    """A reader that begins there would be out of range at once, and begin there again."""
    partition = leader(machine)
    begin(partition, 7)
    write(machine, partition, 7)
    write(machine, partition, 7, sequence=2)
    assert partition.delete_records(3) == 3
    assert (partition.last_stable_offset, partition.high_watermark) == (3, 4)
    assert partition.delete_records(4) == 4
    assert partition.last_stable_offset == 4
    end(machine, partition, 7, 1, False)
    assert partition.last_stable_offset == 5


def test_of_many_that_were_aborted_those_are_named_that_touch_what_was_read(machine: Machine) -> None:
    partition = leader(machine, index_interval_bytes=0)
    for epoch in range(100):
        begin(partition, 7, epoch)
        write(machine, partition, 7, epoch)
        end(machine, partition, 7, epoch + 1, False)

    def read(offset: int, max_bytes: int) -> tuple[int, list[int]]:
        fetched = machine.call(partition.fetch, offset, max_bytes, Isolation.READ_COMMITTED)
        assert fetched.data is not None and fetched.aborted is not None
        return fetched.data.size, [txn.first_offset for txn in fetched.aborted]

    whole, all_of_them = read(0, 1 << 20)
    assert all_of_them == list(range(0, 300, 3))
    of_one = whole // 100
    assert read(0, 2 * of_one)[1] in ([0, 3], [0, 3, 6])
    assert read(150, 2 * of_one)[1] in ([150, 153], [150, 153, 156])
    assert read(152, of_one)[1] in ([150, 153], [150, 153, 156])
    assert read(297, 1 << 20)[1] == [297]
