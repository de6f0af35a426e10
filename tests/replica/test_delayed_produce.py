"""A produce request that waits for its acknowledgement."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.log.given import Machine, batch
from tests.replica.given import ALONE, NODE, leader

from ottla.env.timers import TimerWheel
from ottla.model.errors import ErrorCode
from ottla.replica.delayed_produce import DelayedProduce
from ottla.replica.partition import Appended, Leadership, Partition

NONE = ErrorCode.none


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


class Client:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.timers = TimerWheel(machine.world.loop)
        self.answers: list[list[Appended]] = []

    def produce(
        self, partition: Partition, *batches: bytes, acks: int = -1, timeout_ms: int = 30_000
    ) -> DelayedProduce:
        def send() -> DelayedProduce:
            rows = [(partition, partition.append(data, acks)) for data in batches]
            delayed = DelayedProduce(self.timers, acks, timeout_ms, rows, self.answers.append)
            delayed.start()
            return delayed

        return self.machine.call(send)

    @property
    def codes(self) -> list[list[ErrorCode]]:
        return [[result.code for result in answer] for answer in self.answers]


@pytest.mark.parametrize("acks", [1, -1])
def test_what_needs_no_sync_is_acknowledged_at_once(machine: Machine, acks: int) -> None:
    client = Client(machine)
    client.produce(leader(machine), batch(), acks=acks)
    assert client.codes == [[NONE]]
    assert len(client.timers) == 0


@pytest.mark.parametrize("acks", [1, -1])
def test_with_flush_messages_not_before_the_sync(machine: Machine, acks: int) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    client.produce(partition, batch(), batch(), acks=acks)
    assert client.codes == []
    machine.pass_time()
    assert client.codes == [[NONE, NONE]]
    assert [result.base_offset for result in client.answers[0]] == [0, 1]


def test_errors_do_not_wait_but_the_answer_waits_for_all(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    client.produce(partition, batch(), b"garbage")
    assert client.codes == []
    machine.pass_time()
    assert client.codes == [[NONE, ErrorCode.invalid_record]]


def test_who_waits_too_long_is_told_so(machine: Machine) -> None:
    client = Client(machine)
    # the in-sync set is too small for anything to be committed
    partition = leader(machine, leadership=Leadership(NODE, 5, (NODE,), (NODE, 2)), min_insync_replicas=2)
    rows = [(partition, machine.call(partition.append, batch(), 1))]
    machine.call(DelayedProduce(client.timers, -1, 500, rows, client.answers.append).start)
    machine.pass_time(0.4)
    assert client.codes == []
    machine.pass_time(0.2)
    assert client.codes == [[ErrorCode.request_timed_out]]


def test_the_end_of_the_leadership_ends_the_wait(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    client.produce(partition, batch())
    partition.lead_or_follow(Leadership(2, 6, (2,), (1, 2)))
    assert client.codes == [[ErrorCode.not_leader_or_follower]]
    assert len(client.timers) == 0
    machine.pass_time()
    assert len(client.answers) == 1


def test_so_does_a_disk_that_fails(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    machine.disk.fail("*.log", operations=["sync"], times=1)
    client.produce(partition, batch())
    machine.pass_time(1)
    assert client.codes == [[ErrorCode.kafka_storage_error]]


def test_a_client_that_has_gone_hears_nothing(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    client.produce(partition, batch()).cancel()
    machine.pass_time(100)
    assert client.answers == []
    assert partition.log.end_offset == 1, "its record stays"


def test_records_that_are_looked_through_elsewhere(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, cleanup_policy="compact", flush_messages=1)

    async def story() -> None:
        rows = [(partition, partition.append(batch(size=9000), -1))]
        assert isinstance(rows[0][1], asyncio.Future)
        DelayedProduce(client.timers, -1, 30_000, rows, client.answers.append).start()

    machine.wait_for(story)
    machine.pass_time()
    assert client.codes == [[NONE]]
    assert partition.log.flushed_offset == 1


def test_another_epoch_of_the_same_leader_goes_on(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    client.produce(partition, batch())
    partition.lead_or_follow(ALONE._replace(leader_epoch=6))
    machine.pass_time()
    assert client.codes == [[NONE]]


UNDER_MIN_ISR = Leadership(NODE, 5, (NODE,), (NODE, 2))


def test_one_that_is_not_acknowledged_is_told_where_it_is_all_the_same(machine: Machine) -> None:
    """As in Kafka: it is in the log, and may be read some day."""
    client = Client(machine)
    partition = leader(machine, leadership=UNDER_MIN_ISR, min_insync_replicas=2)
    machine.call(partition.append, batch(3), 1)
    for _ in range(2):
        rows = [(partition, machine.call(partition.append, batch(), 1))]
        machine.call(DelayedProduce(client.timers, -1, 500, rows, client.answers.append).start)
    machine.pass_time(0.1)
    partition.lead_or_follow(Leadership(2, 6, (2,), (1, 2)))
    ((first,), (second,)) = client.answers
    told = ErrorCode.not_leader_or_follower
    assert [(each.code, each.base_offset, each.start_offset) for each in (first, second)] == [
        (told, 3, 0),
        (told, 4, 0),
    ]


def test_so_is_one_that_waits_too_long(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, leadership=UNDER_MIN_ISR, min_insync_replicas=2)
    machine.call(partition.append, batch(3), 1)
    rows = [(partition, machine.call(partition.append, batch(), 1))]
    machine.call(DelayedProduce(client.timers, -1, 500, rows, client.answers.append).start)
    machine.pass_time(0.6)
    ((told,),) = client.answers
    assert (told.code, told.base_offset, told.start_offset) == (ErrorCode.request_timed_out, 3, 0)


def test_one_whose_leadership_has_ended_before_it_waits_is_told_at_once(machine: Machine) -> None:
    client = Client(machine)
    partition = leader(machine, flush_messages=1)
    rows = [(partition, machine.call(partition.append, batch(), -1))]
    partition.resign()
    machine.call(DelayedProduce(client.timers, -1, 30_000, rows, client.answers.append).start)
    assert client.codes == [[ErrorCode.not_leader_or_follower]]
