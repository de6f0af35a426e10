"""`ottla tier status`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.output import Column, count, note, output_option, print_rows
from ottla.cli.scope import Scope, ScopeType
from ottla.model.names import REMOTE_METADATA_TOPIC

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session
    from ottla.cli.admin.topics import TopicInfo
    from ottla.cli.tier.known import Known
    from ottla.tier.remote_segment import RemotePartition

COLUMNS: Final = (
    Column("TOPIC", "topic"),
    Column("PARTITION", "partition"),
    Column("SEGMENTS", "segments"),
    Column("BYTES", "bytes"),
    Column("LOG START", "start_offset"),
    Column("TIERED TO", "tiered_to"),
    Column("LOCAL FROM", "local_start_offset"),
    Column("LOG END", "end_offset"),
    Column("BEHIND", "behind"),
    Column("UNFINISHED", "unfinished"),
)
_EARLIEST, _LATEST, _EARLIEST_LOCAL, _LATEST_TIERED = -2, -1, -4, -5
_LIST_OFFSETS, _VERSION = 2, 9
_ENABLE: Final = "remote.storage.enable"


@click.command("status")
@click.argument("scopes", nargs=-1, type=ScopeType(), metavar="[TOPIC[:N,...]]...")
@output_option
@cluster_options
def command(scopes: tuple[Scope, ...], output: str | None, cluster: Cluster) -> None:
    """What of which partition is in the remote tier, what is on the disk of its leader, and how far copying is behind.

    BEHIND is in offsets: the segment that is written to is always among them. UNFINISHED are segments that are being
    copied or deleted, or were when a broker died: the leader sees to them.
    """
    from ottla.cli.admin import session
    from ottla.cli.tier.known import read_if_told

    known = read_if_told(cluster)
    rows = session.run(cluster, lambda there: _rows(there, known, scopes))
    print_rows(output, COLUMNS, rows)
    segments, size = sum(row["segments"] for row in rows), sum(row["bytes"] for row in rows)
    note(f"{count(len(rows), 'partition')}, {count(segments, 'segment')}, {size} bytes in the remote tier.")
    if rows and not known.is_told:
        note(f"Nothing is copied: {REMOTE_METADATA_TOPIC} is not there yet. If that lasts, the brokers' logs say why.")


async def _rows(there: Session, known: Known, scopes: tuple[Scope, ...]) -> list[dict[str, Any]]:
    from ottla.cli.admin import topics
    from ottla.tier.remote_segment import SegmentState

    found = await topics.topics(there)
    chosen = known.chosen(scopes, await _to_be_tiered(there, found))
    by_id = {topic.id: topic for topic in found}  # one that was deleted may have a namesake by now
    rows = []
    for of, log in chosen:
        readable = list(log.readable())
        row: dict[str, Any] = {
            "topic": of.topic,
            "partition": of.partition,
            "segments": len(readable),
            "bytes": sum(segment.size for segment in readable),
            "unfinished": sum(each.state is not SegmentState.COPY_FINISHED for each in log.segments.values()),
        }
        topic = by_id.get(of.topic_id)
        leader = next((each.leader for each in topic.partitions if each.number == of.partition), -1) if topic else -1
        for name, timestamp in (
            ("start_offset", _EARLIEST), ("tiered_to", _LATEST_TIERED), ("local_start_offset", _EARLIEST_LOCAL),
            ("end_offset", _LATEST),
        ):  # fmt: skip
            row[name] = None if leader < 0 else await _offset(there, of, leader, timestamp)
        row["behind"] = None if leader < 0 else row["end_offset"] - max(row["tiered_to"] + 1, row["start_offset"])
        rows.append(row)
    return rows


async def _to_be_tiered(there: Session, topics: list[TopicInfo]) -> list[RemotePartition]:
    """Also what nothing was copied of, since the store is down, say: that is when one looks."""
    from ottla.cli.admin.configs import configs, of_topic
    from ottla.tier.remote_segment import RemotePartition

    told = await configs(there, [of_topic(topic.name) for topic in topics], [_ENABLE]) if topics else {}
    on = {resource.name for resource, entries in told.items() if any(entry.value == "true" for entry in entries)}
    return [
        RemotePartition(topic.name, topic.id, each.number)
        for topic in topics
        if topic.name in on and topic.id is not None
        for each in topic.partitions
    ]


async def _offset(there: Session, of: RemotePartition, leader: int, timestamp: int) -> int:
    from ottla.cli.admin.session import raise_for
    from ottla.wire.build import build, request_type

    row = {"partition_index": of.partition, "current_leader_epoch": -1, "timestamp": timestamp}
    values = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": of.topic, "partitions": [row]}]}
    answer = await there.call(build(request_type(_LIST_OFFSETS, _VERSION), values), broker=leader)
    part = answer.topics[0].partitions[0]
    raise_for(part.error_code, None, f"offsets of {of.key}")
    return int(part.offset)
