"""Writes the end of a transaction to partitions that this node leads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.coordinator.txn.transaction import Marker
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.names import OFFSETS_TOPIC, TopicPartition
from ottla.replica.end_of_transactions import end_transaction
from ottla.replica.partition import Appended, Partition

if TYPE_CHECKING:
    from ottla.broker.node import Node

_NONE: Final = ErrorCode.none
_NOT_READY: Final = (
    ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress,
    ErrorCode.not_coordinator,
)


def write_marker(node: Node, key: TopicPartition, marker: Marker) -> ErrorCode | asyncio.Future[ErrorCode]:
    """NONE once it is committed; a future only where that takes a while."""
    partition = node.replicas.by_name.get(key)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if key.topic == OFFSETS_TOPIC:
        return _end_for_groups(node, key.partition, marker)
    appended = end_transaction(
        partition,
        *marker.producer,
        marker.is_commit,
        marker.coordinator_epoch,
        marker.version,
        node.env.clock.now_ms(),
    )
    if appended.code is not _NONE or partition.committed.value >= appended.next_offset:
        return appended.code
    return _committed(node, partition, appended)


def _committed(node: Node, partition: Partition, appended: Appended) -> asyncio.Future[ErrorCode]:
    done: asyncio.Future[ErrorCode] = node.env.loop.create_future()

    def reached() -> None:
        if done.done():
            return
        timer.cancel()
        if not partition.is_leader:
            done.set_result(ErrorCode.not_leader_or_follower)
        elif partition.committed.value < appended.next_offset:
            done.set_result(ErrorCode.kafka_storage_error)
        elif partition.is_under_min_isr:
            done.set_result(ErrorCode.not_enough_replicas_after_append)
        else:
            done.set_result(_NONE)

    def expired() -> None:
        waiter.cancel()
        if not done.done():
            done.set_result(ErrorCode.request_timed_out)

    timer = node.timers.after(node.config.request_timeout_ms, expired)
    waiter = partition.committed.when(appended.next_offset, reached)
    return done


def _end_for_groups(node: Node, number: int, marker: Marker) -> ErrorCode | asyncio.Future[ErrorCode]:
    """By the group coordinator: commits of offsets within the transaction count from here on."""
    try:
        ended = node.groups.runtime.shard(number).end_transaction(
            *marker.producer, marker.is_commit, marker.coordinator_epoch, marker.version
        )
    except KafkaError as error:
        return _code(error)
    done: asyncio.Future[ErrorCode] = node.env.loop.create_future()

    def told(future: asyncio.Future[None]) -> None:
        error = future.exception()
        if not done.done():
            done.set_result(_code(error) if error is not None else _NONE)

    if ended.done():
        told(ended)
        return done.result()
    ended.add_done_callback(told)
    return done


def _code(error: BaseException) -> ErrorCode:
    """A group coordinator that is not ready is no answer that a transaction's knows: it is to try again."""
    if not isinstance(error, KafkaError):
        return ErrorCode.unknown_server_error
    return ErrorCode.not_leader_or_follower if error.code in _NOT_READY else error.code
