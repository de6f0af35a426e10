"""Counts what goes in and out by partition: on the partitions themselves, once for each partition of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from ottla.model.errors import ErrorCode
from ottla.replica.partition import Appended, Partition

if TYPE_CHECKING:
    from ottla.broker.apis.fetch_format import Row
    from ottla.broker.apis.produce_format import Request
    from ottla.broker.context import Context

_NONE: Final = ErrorCode.none
# What Kafka does not count as a failure of the broker: the client's doing, or told elsewhere.
_NO_FAILED_APPEND: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower, ErrorCode.message_too_large,
        ErrorCode.record_list_too_large, ErrorCode.corrupt_message, ErrorCode.kafka_storage_error,
    }
)  # fmt: skip
_NO_FAILED_FETCH: Final = frozenset(
    {
        ErrorCode.unknown_topic_or_partition, ErrorCode.not_leader_or_follower, ErrorCode.unknown_leader_epoch,
        ErrorCode.fenced_leader_epoch, ErrorCode.replica_not_available, ErrorCode.kafka_storage_error,
        ErrorCode.inconsistent_topic_id, ErrorCode.offset_out_of_range,
    }
)  # fmt: skip


def count_refused(context: Context, request: Request, results: list[list[Appended]]) -> None:
    """What was appended the partition has counted; here is what was not."""
    errors = []
    for topic, appended in zip(request.topics, results, strict=True):
        for row, result in zip(topic.rows, appended, strict=True):
            if (code := result.code) is not _NONE:
                errors.append(code)
                partition = context.node.replicas.find(topic.name, topic.topic_id, row.number)
                if partition is not None and code not in _NO_FAILED_APPEND:
                    partition.failed_appends += 1
    if errors:
        context.count_errors(errors)


def count_fetched(
    context: Context, targets: Iterable[tuple[object, object, Partition | ErrorCode]], rows: Sequence[Row]
) -> None:
    errors = []
    for (_, _, partition), row in zip(targets, rows, strict=True):
        fetched = row.fetched
        if isinstance(partition, Partition):
            partition.fetches += 1
            if fetched.data is not None:
                partition.bytes_fetched += fetched.data.size
                continue
        if fetched.code is not _NONE:
            errors.append(fetched.code)
            if isinstance(partition, Partition) and fetched.code not in _NO_FAILED_FETCH:
                partition.failed_fetches += 1
    if errors:
        context.count_errors(errors)
