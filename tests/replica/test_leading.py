"""A leader with followers: what is committed when, who is in sync, and what the controller is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from tests.log.given import PARTITION, TOPIC_ID, Machine, batch
from tests.replica.given import NODE, produce

from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import Before
from ottla.metadata.controller.requests import AlteredPartition, IsrMember
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import BrokerImage
from ottla.model.errors import ErrorCode
from ottla.replica.isr import IsrChange
from ottla.replica.partition import Leadership, Partition

NONE = ErrorCode.none
EPOCH = 5
THREE = Leadership(NODE, EPOCH, (1, 2, 3), (1, 2, 3), partition_epoch=10)


class Around:
    """The rest of the node: brokers 2 and 3 live, with the epochs 20 and 30."""

    broker_epoch = 10
    lag_time_max_s = 30.0

    def __init__(self) -> None:
        self.brokers = {number: a_broker(number, number * 10) for number in (1, 2, 3)}
        self.asked: list[IsrChange] = []

    def broker(self, broker_id: int) -> BrokerImage | None:
        return self.brokers.get(broker_id)

    def alter_isr(self, partition: Partition, change: IsrChange) -> None:
        self.asked.append(change)

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        raise AssertionError

    def make_cut_durable_now(self, log: PartitionLog) -> None:
        raise AssertionError

    def log_start_moved(self, partition: Partition) -> None:
        pass


def a_broker(number: int, epoch: int, *, fenced: bool = False, leaving: bool = False) -> BrokerImage:
    return BrokerImage(number, epoch, UUID(int=number), (), {}, None, fenced, leaving, ())


class Stage:
    def __init__(self, machine: Machine, leadership: Leadership = THREE, **overrides: object) -> None:
        self.machine = machine
        self.around = Around()
        log = machine.open(**overrides)  # type: ignore[arg-type]
        self.partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 0, self.around)
        self.partition.lead_or_follow(leadership)

    def append(self, count: int = 1, acks: int = -1) -> ErrorCode:
        return produce(self.machine, self.partition, batch(count), acks).code

    def fetch(self, follower: int, offset: int, *, start: int = 0, broker_epoch: int | None = None) -> ErrorCode:
        epoch = follower * 10 if broker_epoch is None else broker_epoch
        return self.partition.follower_fetched(follower, offset, start, epoch)

    def answer(
        self, change: IsrChange | None = None, code: ErrorCode = NONE, epoch: int = EPOCH, partition_epoch: int = 11
    ) -> bool:
        change = change or self.around.asked[-1]
        isr = tuple(member.broker_id for member in change.isr)
        altered = AlteredPartition(TOPIC_ID, 0, ApiError(code), NODE, epoch, isr, 0, partition_epoch)
        return self.partition.isr_answered(change, altered)

    def shrink(self) -> None:
        self.partition.shrink_isr()

    @property
    def high_watermark(self) -> int:
        return self.partition.high_watermark

    @property
    def isr(self) -> tuple[int, ...]:
        return self.partition.leadership.isr


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


class TestHighWatermark:
    def test_it_waits_for_all_that_are_in_sync(self, machine: Machine) -> None:
        stage = Stage(machine)
        assert stage.append(5) is NONE
        assert stage.high_watermark == 0
        stage.fetch(2, 5)
        assert stage.high_watermark == 0
        stage.fetch(3, 3)
        assert stage.high_watermark == 3
        stage.fetch(3, 5)
        assert stage.high_watermark == 5

    def test_it_never_goes_back(self, machine: Machine) -> None:
        stage = Stage(machine)
        stage.append(5)
        stage.fetch(2, 5)
        stage.fetch(3, 5)
        stage.fetch(3, 1)  # it lost its tail
        assert stage.high_watermark == 5

    def test_it_does_not_move_below_min_isr(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1,)), min_insync_replicas=2)
        assert stage.append(5) is ErrorCode.not_enough_replicas
        assert stage.append(5, acks=1) is NONE
        stage.fetch(2, 5)
        assert (stage.high_watermark, stage.partition.is_under_min_isr) == (0, True)
        stage.answer()
        assert (stage.high_watermark, stage.isr) == (5, (1, 2))

    def test_one_that_is_about_to_join_counts_already(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.fetch(2, 0)
        stage.fetch(3, 0)
        assert stage.around.asked[-1].joining == 3
        stage.append(2)
        stage.fetch(2, 2)
        assert stage.high_watermark == 0
        stage.fetch(3, 2)
        assert stage.high_watermark == 2

    def test_one_that_catches_up_is_waited_for(self, machine: Machine) -> None:
        """Else a follower of a busy leader that is alone in sync could never join."""
        stage = Stage(machine, THREE._replace(isr=(1,)))
        stage.append(3)
        assert stage.high_watermark == 3
        stage.fetch(2, 1)
        stage.append(1)
        assert stage.high_watermark == 4, "it was never caught up"
        stage.fetch(2, 3)  # it has what there was when it asked before
        stage.append(1)
        assert stage.high_watermark == 4, "now it counts, although it is not in sync"
        stage.around.brokers[2] = a_broker(2, 20, fenced=True)
        stage.append(1)
        assert stage.high_watermark == 6, "it may not join any more"

    def test_a_replica_that_was_removed_is_not_waited_for(self, machine: Machine) -> None:
        stage = Stage(machine)
        stage.append(2)
        stage.fetch(2, 2)
        stage.partition.lead_or_follow(THREE._replace(isr=(1, 2), replicas=(1, 2), partition_epoch=11))
        assert stage.high_watermark == 2
        assert stage.fetch(3, 2) is ErrorCode.not_leader_or_follower


class TestJoining:
    def test_one_that_has_caught_up_with_the_high_watermark_and_the_epoch_is_proposed(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.append(5)
        stage.fetch(2, 3)
        stage.fetch(3, 2)
        assert stage.around.asked == []
        stage.fetch(3, 3)
        members = (IsrMember(1, 10), IsrMember(2, 20), IsrMember(3, 30))
        assert stage.around.asked == [IsrChange(members, EPOCH, 10, 3)]
        assert stage.isr == (1, 2), "not before the controller has said so"
        assert stage.answer()
        assert stage.partition.leadership == THREE._replace(partition_epoch=11)

    def test_not_before_it_has_what_the_epoch_began_with(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1,)), min_insync_replicas=2)
        stage.append(5, acks=1)
        stage.partition.lead_or_follow(THREE._replace(isr=(1,), leader_epoch=6, partition_epoch=11))
        stage.fetch(2, 4)
        assert (stage.high_watermark, stage.around.asked) == (0, [])
        stage.fetch(2, 5)
        assert len(stage.around.asked) == 1

    @pytest.mark.parametrize(
        ("broker", "fetched_epoch", "joins"),
        [
            (a_broker(3, 30), 30, True),
            (a_broker(3, 30), -1, True),
            (a_broker(3, 30, fenced=True), 30, False),
            (a_broker(3, 30, leaving=True), 30, False),
            (a_broker(3, 29), 30, False),
            (None, 30, False),
        ],
        ids=["as registered", "an old version tells none", "fenced", "shutting down", "not known yet", "unknown"],
    )
    def test_only_brokers_that_live_join(
        self, machine: Machine, broker: BrokerImage | None, fetched_epoch: int, joins: bool
    ) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        if broker is None:
            del stage.around.brokers[3]
        else:
            stage.around.brokers[3] = broker
        assert stage.fetch(3, 0, broker_epoch=fetched_epoch) is NONE
        assert bool(stage.around.asked) == joins

    def test_a_fetch_of_a_former_self_does_not_count(self, machine: Machine) -> None:
        stage = Stage(machine)
        stage.append(1)
        stage.fetch(2, 1)
        assert stage.fetch(3, 1, broker_epoch=29) is ErrorCode.not_leader_or_follower
        assert stage.high_watermark == 0

    def test_one_change_at_a_time(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1,)))
        stage.fetch(2, 0)
        stage.fetch(3, 0)
        assert [change.joining for change in stage.around.asked] == [2]
        stage.answer()
        stage.fetch(3, 0)
        assert [change.joining for change in stage.around.asked] == [2, 3]


class TestLeaving:
    def test_who_has_not_caught_up_for_too_long_is_left_out(self, machine: Machine) -> None:
        stage = Stage(machine)
        stage.append(5)
        stage.fetch(2, 5)
        machine.pass_time(29)
        stage.fetch(2, 5)
        stage.shrink()
        assert stage.around.asked == []
        machine.pass_time(2)
        stage.shrink()
        assert stage.around.asked == [IsrChange((IsrMember(1, 10), IsrMember(2, 20)), EPOCH, 10)]
        assert stage.high_watermark == 0, "it may be in sync still, for all we know"
        stage.answer()
        assert (stage.isr, stage.high_watermark) == ((1, 2), 5)

    def test_one_that_fetches_but_stays_behind_is_left_out_too(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2), replicas=(1, 2)))
        for second in range(40):
            stage.append(5)
            stage.fetch(2, second)
            machine.pass_time(1)
        stage.shrink()
        assert len(stage.around.asked) == 1

    def test_one_that_is_always_a_little_behind_stays(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2), replicas=(1, 2)))
        for second in range(40):
            stage.append()
            stage.fetch(2, second)
            machine.pass_time(1)
        stage.shrink()
        assert stage.around.asked == []

    def test_who_has_everything_stays_however_long_nothing_happens(self, machine: Machine) -> None:
        stage = Stage(machine)
        for follower in (2, 3):
            stage.fetch(follower, 0)
        machine.pass_time(1000)
        stage.shrink()
        assert stage.around.asked == []


class TestAnswers:
    @pytest.mark.parametrize(
        ("code", "asks_again", "is_open"),
        [
            (ErrorCode.operation_not_attempted, False, False),
            (ErrorCode.ineligible_replica, False, False),
            (ErrorCode.unknown_topic_or_partition, False, True),
            (ErrorCode.unknown_topic_id, False, True),
            (ErrorCode.fenced_leader_epoch, False, True),
            (ErrorCode.invalid_update_version, False, True),
            (ErrorCode.invalid_request, False, True),
            (ErrorCode.new_leader_elected, False, True),
            (ErrorCode.not_controller, True, True),
            (ErrorCode.unknown_server_error, True, True),
        ],
    )
    def test_a_refusal(self, machine: Machine, code: ErrorCode, asks_again: bool, is_open: bool) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.fetch(3, 0)
        (change,) = stage.around.asked
        assert not stage.answer(change, code)
        assert stage.around.asked == [change] * (1 + asks_again)
        assert stage.partition.leading is not None
        assert (stage.partition.leading.isr.change is not None) == is_open
        assert stage.isr == (1, 2)

    def test_one_that_the_metadata_has_overtaken_is_ignored(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.fetch(3, 0)
        stage.partition.lead_or_follow(THREE._replace(isr=(1,), partition_epoch=11))
        assert not stage.answer()
        assert stage.isr == (1,)

    @pytest.mark.parametrize(("epoch", "partition_epoch"), [(6, 11), (5, 9)])
    def test_one_of_another_epoch_is_ignored(self, machine: Machine, epoch: int, partition_epoch: int) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.fetch(3, 0)
        assert not stage.answer(epoch=epoch, partition_epoch=partition_epoch)
        assert stage.isr == (1, 2)

    def test_metadata_that_are_older_than_an_answer_change_nothing(self, machine: Machine) -> None:
        stage = Stage(machine, THREE._replace(isr=(1, 2)))
        stage.fetch(3, 0)
        stage.answer()
        stage.partition.lead_or_follow(THREE._replace(isr=(1, 2)))
        assert stage.isr == (1, 2, 3)

    def test_metadata_that_repeat_an_answer_do_not_undo_what_was_proposed_since(self, machine: Machine) -> None:
        """Who is about to join may be in sync for the controller by now, and must have what is acknowledged."""
        stage = Stage(machine, THREE._replace(isr=(1,)), min_insync_replicas=2)
        assert stage.append(9, acks=1) is NONE
        stage.fetch(3, 3)
        stage.answer()
        assert (stage.high_watermark, stage.isr) == (3, (1, 3))
        stage.fetch(2, 3)  # it may join, though it never was where the log ends
        assert stage.around.asked[-1].joining == 2
        stage.partition.lead_or_follow(THREE._replace(isr=(1, 3), partition_epoch=11))
        stage.fetch(3, 9)
        assert stage.high_watermark == 3, "broker 2 does not have more"
        assert stage.answer(partition_epoch=12)
        stage.fetch(2, 9)
        assert (stage.high_watermark, stage.isr) == (9, (1, 3, 2))


def test_after_an_election_nothing_is_known_of_followers(machine: Machine) -> None:
    stage = Stage(machine)
    stage.append(2)
    stage.fetch(2, 2)
    stage.fetch(3, 2)
    stage.partition.lead_or_follow(Leadership(2, 6, (1, 2, 3), (1, 2, 3), 11))
    assert stage.fetch(3, 2) is ErrorCode.not_leader_or_follower
    stage.partition.lead_or_follow(THREE._replace(leader_epoch=7, partition_epoch=12))
    stage.append(1)
    stage.fetch(2, 3)
    assert stage.high_watermark == 2
    machine.pass_time(29)
    stage.shrink()
    assert stage.around.asked == [], "they have the time that all have"
    machine.pass_time(2)
    stage.shrink()
    assert [member.broker_id for member in stage.around.asked[0].isr] == [1, 2]


def test_records_are_deleted_when_all_replicas_that_live_have_done_so(machine: Machine) -> None:
    stage = Stage(machine)
    stage.append(5)
    for follower in (2, 3):
        stage.fetch(follower, 5)
    done: list[str] = []
    assert stage.partition.delete_records(3) == 3
    stage.partition.when_deleted(3, lambda: done.append("done"))
    stage.fetch(2, 5, start=3)
    assert (done, stage.partition.low_watermark) == ([], 0)
    stage.fetch(3, 5, start=3)
    assert (done, stage.partition.low_watermark) == (["done"], 3)
    stage.around.brokers[3] = a_broker(3, 30, fenced=True)
    stage.partition.delete_records(4)
    stage.partition.when_deleted(4, lambda: done.append("without 3"))
    stage.fetch(2, 5, start=4)
    assert done == ["done", "without 3"]


def test_one_that_comes_back_with_old_records_is_waited_for(machine: Machine) -> None:
    stage = Stage(machine)
    stage.append(5)
    for follower in (2, 3):
        stage.fetch(follower, 5, start=0)
    stage.partition.delete_records(3)
    for follower in (2, 3):
        stage.fetch(follower, 5, start=3)
    done: list[int] = []
    stage.partition.when_deleted(3, lambda: done.append(3))
    assert done == [3]
    stage.fetch(3, 5, start=0)  # as after a crash
    stage.partition.delete_records(2)
    stage.partition.when_deleted(2, lambda: done.append(2))
    assert (done, stage.partition.low_watermark) == ([3], 0)
    stage.fetch(3, 5, start=3)
    assert done == [3, 2]


@pytest.mark.parametrize(
    ("policy", "told"), [("delete", 0), ("compact,delete", 0), ("", 0), ("compact", ErrorCode.policy_violation)]
)
def test_records_are_deleted_unless_a_topic_is_only_compacted(
    machine: Machine, policy: str, told: int | ErrorCode
) -> None:
    stage = Stage(machine, THREE._replace(isr=(1,)), cleanup_policy=policy)
    assert stage.partition.delete_records(0) == told


def test_one_who_is_refused_for_want_of_replicas_is_told_where_the_log_begins(machine: Machine) -> None:
    stage = Stage(machine, THREE._replace(isr=(1,)))
    stage.append(3)
    stage.partition.delete_records(2)
    stage.partition.configure(replace(stage.partition.log.config, min_insync_replicas=2))
    refused = produce(machine, stage.partition, batch(), -1)
    assert (refused.code, refused.start_offset) == (ErrorCode.not_enough_replicas, 2)


class Watcher:
    def __init__(self) -> None:
        self.changes = 0

    def appended(self, partition: Partition) -> None:
        pass

    def changed(self, partition: Partition) -> None:
        self.changes += 1


def test_followers_hear_of_what_retention_has_deleted(machine: Machine) -> None:
    stage = Stage(machine, THREE._replace(isr=(1,)))
    stage.append(3)
    watcher = Watcher()
    stage.partition.watchers[watcher] = None
    stage.partition.log.advance_start(2)
    assert watcher.changes == 1
