from __future__ import annotations

from collections.abc import Callable

from tests.broker.apis.asking import OFFSET_FOR_LEADER_EPOCH, ask

from ottla.log.epochs import EpochStart
from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode


def end_of(address: str, topic: str, epoch: int, partition: int = 0, current: int = -1) -> tuple[ErrorCode, int, int]:
    row = {"partition": partition, "current_leader_epoch": current, "leader_epoch": epoch}
    topics = [{"topic": topic, "partitions": [row]}]
    (answered,) = ask(address, OFFSET_FOR_LEADER_EPOCH, 4, replica_id=-1, topics=topics).topics
    (end,) = answered.partitions
    return end.error_code, end.leader_epoch, end.end_offset


def test_the_current_epoch_ends_where_the_log_does(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert end_of(address, topic, 0) == (ErrorCode.none, 0, 0)
    assert end_of(address, topic, 0, current=0) == (ErrorCode.none, 0, 0)


def test_an_earlier_epoch_ends_where_the_next_one_begins(node: RunningNode, new_topic: Callable[..., str]) -> None:
    topic = new_topic()
    epochs = node.node.replicas.by_name[topic, 0].log.epochs
    node.on_loop(
        lambda: epochs.starts.__setitem__(slice(None), [EpochStart(0, 0), EpochStart(3, 10), EpochStart(5, 20)])
    )

    assert end_of(node.address, topic, 0) == (ErrorCode.none, 0, 10)
    assert end_of(node.address, topic, 2) == (ErrorCode.none, 0, 10)  # the largest epoch not above
    assert end_of(node.address, topic, 3) == (ErrorCode.none, 3, 20)


def test_an_epoch_that_has_not_been_has_no_end(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert end_of(address, topic, 7) == (ErrorCode.none, -1, -1)
    assert end_of(address, topic, -1) == (ErrorCode.none, -1, -1)


def test_errors_of_a_partition(address: str, new_topic: Callable[..., str]) -> None:
    topic = new_topic()

    assert end_of(address, "absent", 0)[0] is ErrorCode.unknown_topic_or_partition
    assert end_of(address, topic, 0, partition=9)[0] is ErrorCode.unknown_topic_or_partition
    assert end_of(address, topic, 0, current=3) == (ErrorCode.unknown_leader_epoch, -1, -1)
