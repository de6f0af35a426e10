"""What the records of `__remote_log_metadata` tell, for those who read the topic as clients."""

from __future__ import annotations

from uuid import UUID

from ottla.tier.metadata_records import UnknownRecord, read_event
from ottla.tier.remote_log import OutOfOrder, RemoteLog
from ottla.tier.remote_segment import DeleteState, PartitionDelete, RemotePartition, RemoteSegment

Logs = dict[tuple[UUID, int], RemoteLog]
Names = dict[tuple[UUID, int], RemotePartition]


def hear(value: bytes | None, logs: Logs, names: Names) -> None:
    """Takes one record over. What cannot be read, or comes too late, is passed over, as brokers do."""
    if value is None:
        return
    try:
        event = read_event(value)
        key = (event.of.topic_id, event.of.partition)
        names[key] = event.of
        if isinstance(event, PartitionDelete):
            if event.state is DeleteState.FINISHED:
                logs.pop(key, None)
        elif isinstance(event, RemoteSegment):
            logs.setdefault(key, RemoteLog()).begin(event)
        else:
            logs.setdefault(key, RemoteLog()).update(event)
    except (UnknownRecord, OutOfOrder):
        return
