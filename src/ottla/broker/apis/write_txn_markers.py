"""WriteTxnMarkers (key 27): the end of transactions, told by their coordinator to the leaders of their partitions.

Versions: 1 is flexible, 2 says which version of transactions a marker is of (KIP-1228). Administrators send it too, to
end a transaction that hangs.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.marker_writing import write_marker
from ottla.coordinator.txn.transaction import NOBODY, Marker, ProducerEpoch
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

_WITH_VERSION: Final = 2
_Found = ErrorCode | asyncio.Future[ErrorCode]


async def handle(context: Context, request: Any) -> Any:
    may = context.allowed(Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME) or context.allowed(
        Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME
    )
    written: dict[int, dict[TopicPartition, _Found]] = {}
    for row in request.markers:
        rows = written.setdefault(row.producer_id, {})
        version = row.transaction_version if context.version >= _WITH_VERSION else 0
        producer = ProducerEpoch(row.producer_id, row.producer_epoch)
        marker = Marker(producer, row.transaction_result, row.coordinator_epoch, version)
        for topic in row.topics:
            for number in topic.partition_indexes:
                key = TopicPartition(topic.name, number)
                rows[key] = _write(context, key, marker) if may else ErrorCode.cluster_authorization_failed
    markers = [
        {"producer_id": producer_id, "topics": await _topics(rows)} for producer_id, rows in written.items() if rows
    ]
    return context.respond(markers=markers)


def _write(context: Context, key: TopicPartition, marker: Marker) -> _Found:
    if NOBODY.producer_id == marker.producer.producer_id or NOBODY.epoch == marker.producer.epoch:
        return ErrorCode.unknown_server_error  # Kafka cannot make such a record
    return write_marker(context.node, key, marker)


async def _topics(rows: dict[TopicPartition, _Found]) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, number), found in rows.items():
        code = found if isinstance(found, ErrorCode) else await found
        topics.setdefault(topic, []).append({"partition_index": number, "error_code": code})
    return [{"name": name, "partitions": codes} for name, codes in topics.items()]
