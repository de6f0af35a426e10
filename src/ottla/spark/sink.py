"""`format("ottla")` for writing: what Spark calls.

Exactly once: tasks make record batches of their rows and give them to the driver as what Spark calls commit messages,
of which it takes one for each task, however often one was started. The driver writes them in one transaction that also
carries the number of the micro-batch. When Spark repeats a micro-batch, that number tells that it is there already.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from ottla.model.errors import OttlaError
from ottla.spark import loop_thread
from ottla.spark.reading import cluster_of
from ottla.spark.sink_options import Delivery, SinkOptions, transactional_id

if TYPE_CHECKING:
    import pyarrow as pa

_log = logging.getLogger("ottla.spark")
_QUERY_ID: Final = "sql.streaming.queryId"


class Written(WriterCommitMessage):
    """What a task has sent, or has left for the driver to send."""

    def __init__(self, query_id: str | None, batches: list[Any]) -> None:
        self.query_id = query_id
        self.batches = batches


def _write(options: SinkOptions, rows: Iterator[pa.RecordBatch]) -> Written:
    from pyspark import TaskContext

    from ottla.spark.writing import encoded, send_all

    if options.delivery is Delivery.AT_LEAST_ONCE:
        send_all(options, rows)
        return Written(None, [])
    context = TaskContext.get()
    query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
    return Written(query_id, [batch for batches in encoded(options, rows) for batch in batches])


def _commit(options: SinkOptions, messages: list[Written | None], batch_id: int | None) -> None:
    if options.delivery is Delivery.AT_LEAST_ONCE:
        return
    from ottla.spark.producing import Marker
    from ottla.spark.writing import commit_batch

    written = [message for message in messages if message is not None]
    batches = [batch for message in written for batch in message.batches]
    if not batches:
        return
    marker, own_id = None, options.client.transactional_id
    if batch_id is not None:
        query_id = next((message.query_id for message in written if message.query_id), None)
        if query_id is None:
            raise OttlaError("Spark does not say which query this is, without which it cannot be written exactly once")
        marker = Marker(query_id, batch_id)
        own_id = transactional_id(options, query_id)
    work = commit_batch(cluster_of(options.client), own_id or f"ottla-spark-{uuid4()}", marker, batches)
    if not loop_thread.wait_for(work):
        _log.warning("batch %s of query %s is there already and was not written again", batch_id, own_id)


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self.options, iterator)

    def commit(self, messages: list[Any]) -> None:
        _commit(self.options, messages, None)

    def abort(self, messages: list[Any]) -> None:
        """Nothing was begun, or the transaction has been aborted, or it is committed and Spark does not know."""


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        return _write(self.options, iterator)

    def commit(self, messages: list[Any], batchId: int) -> None:
        _commit(self.options, messages, batchId)

    def abort(self, messages: list[Any], batchId: int) -> None:
        """As for batches."""
