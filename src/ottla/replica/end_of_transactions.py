"""A partition is told that a producer's transaction is over: the marker is appended, and readers may go on."""

from __future__ import annotations

from ottla.log.end_markers import marker_batch
from ottla.log.producers import Origin
from ottla.replica.partition import Appended, Partition


def end_transaction(
    partition: Partition,
    producer_id: int,
    producer_epoch: int,
    is_commit: bool,
    coordinator_epoch: int,
    version: int,
    now_ms: int,
) -> Appended:
    """`version` is that of transactions: with the second each has an epoch of its own, and a marker ends it."""
    if partition.is_leader:
        refused = partition.log.producers.check_marker(producer_id, producer_epoch, coordinator_epoch, version)
        if refused is not None:
            return Appended(refused.code, message=refused.message)
    batch = marker_batch(producer_id, producer_epoch, is_commit, coordinator_epoch, now_ms)
    appended = partition.append(batch, -1, Origin.COORDINATOR)
    assert isinstance(appended, Appended)  # only clients' batches are looked at elsewhere
    return appended
