"""Control records of the metadata log and its snapshots: batches that change no metadata."""

import io
from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final, TypeVar

from kio.schema.k_raft_version_record import v0 as version_schema
from kio.schema.leader_change_message.v0 import data as leader_schema
from kio.schema.snapshot_footer_record.v0 import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0 import SnapshotHeaderRecord
from kio.schema.types import BrokerId
from kio.schema.voters_record.v0 import data as voters_schema
from kio.serial import entity_reader, entity_writer
from kio.static.primitive import i16, i32, i64, u16
from kio.static.protocol import Entity

from ottla.env.ports import Buffer
from ottla.raft.log_view import Batch, ControlRecord, KRaftVersionRecord, LeaderChangeRecord, VotersRecord
from ottla.raft.voters import NO_DIRECTORY, Endpoint, ReplicaKey, VersionRange, VoterNode, VoterSet
from ottla.record.batch import parse_header
from ottla.record.builder import build_batch
from ottla.record.reader import read_records
from ottla.record.records import CorruptBatch, Record

E = TypeVar("E", bound=Entity)

_KEY: Final = Struct(">hh")
_KEY_VERSION: Final = 0


class ControlType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


def control_batch(records: Iterable[ControlRecord], now_ms: int) -> bytes:
    return build_batch([_record_of(record, now_ms) for record in records], control=True)


def snapshot_header_batch(
    last_contained_log_timestamp: int, now_ms: int, kraft_version: int = 0, voters: VoterSet | None = None
) -> bytes:
    """The first batch of a snapshot. With kraft.version 1 it says who votes as well."""
    header = SnapshotHeaderRecord(version=i16(0), last_contained_log_timestamp=i64(last_contained_log_timestamp))
    records = [_control(ControlType.SNAPSHOT_HEADER, header, now_ms)]
    if kraft_version > 0:
        records.append(_record_of(KRaftVersionRecord(kraft_version), now_ms))
        if voters is not None:
            records.append(_record_of(VotersRecord(voters), now_ms))
    return build_batch(records, control=True)


def snapshot_footer_batch(now_ms: int) -> bytes:
    message = SnapshotFooterRecord(version=i16(0))
    return build_batch([_control(ControlType.SNAPSHOT_FOOTER, message, now_ms)], control=True)


def control_type(record: Record) -> int:
    """Which kind of control record this is; may be one that ControlType does not know."""
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptBatch(f"the control record at offset {record.offset} has no version and type in its key")
    return int(_KEY.unpack_from(record.key)[1])


def last_contained_timestamp(record: Record) -> int:
    """Of a snapshot's header."""
    return int(_decoded(SnapshotHeaderRecord, record).last_contained_log_timestamp)


def batch_of(data: Buffer) -> Batch:
    """What the quorum needs to know of a batch. CorruptBatch if its control records cannot be read."""
    header = parse_header(data)
    controls: list[tuple[int, ControlRecord]] = []
    if header.is_control:
        for record in read_records(data):
            content = decode_control(record)
            if content is not None:
                controls.append((record.offset, content))
    return Batch(header.base_offset, header.next_offset, header.leader_epoch, data, tuple(controls))


def decode_control(record: Record) -> KRaftVersionRecord | VotersRecord | None:
    """None of those that do not change who votes."""
    match control_type(record):
        case ControlType.KRAFT_VERSION:
            return KRaftVersionRecord(int(_decoded(version_schema.KRaftVersionRecord, record).k_raft_version))
        case ControlType.KRAFT_VOTERS:
            return VotersRecord(_voters_of(_decoded(voters_schema.VotersRecord, record)))
    return None


def _record_of(record: ControlRecord, now_ms: int) -> Record:
    match record:
        case LeaderChangeRecord(leader_id, voters, granting):
            message = leader_schema.LeaderChangeMessage(
                version=i16(0),
                leader_id=BrokerId(leader_id),
                voters=tuple(leader_schema.Voter(voter_id=i32(voter)) for voter in voters),
                granting_voters=tuple(leader_schema.Voter(voter_id=i32(voter)) for voter in granting),
            )
            return _control(ControlType.LEADER_CHANGE, message, now_ms)
        case KRaftVersionRecord(version):
            level = version_schema.KRaftVersionRecord(version=i16(0), k_raft_version=i16(version))
            return _control(ControlType.KRAFT_VERSION, level, now_ms)
        case VotersRecord(voters=voter_set):
            nodes = tuple(_schema_of(node) for node in voter_set.nodes.values())
            return _control(ControlType.KRAFT_VOTERS, voters_schema.VotersRecord(version=i16(0), voters=nodes), now_ms)


def _schema_of(node: VoterNode) -> voters_schema.Voter:
    return voters_schema.Voter(
        voter_id=BrokerId(node.key.id),
        voter_directory_id=node.key.directory_id,
        endpoints=tuple(
            voters_schema.Endpoint(name=name, host=host, port=u16(port)) for name, host, port in node.endpoints
        ),
        k_raft_version_feature=voters_schema.KRaftVersionFeature(
            min_supported_version=i16(node.kraft_versions.min), max_supported_version=i16(node.kraft_versions.max)
        ),
    )


def _voters_of(record: voters_schema.VotersRecord) -> VoterSet:
    return VoterSet.of(
        VoterNode(
            ReplicaKey(int(voter.voter_id), voter.voter_directory_id or NO_DIRECTORY),
            tuple(Endpoint(endpoint.name, endpoint.host, int(endpoint.port)) for endpoint in voter.endpoints),
            VersionRange(
                int(voter.k_raft_version_feature.min_supported_version),
                int(voter.k_raft_version_feature.max_supported_version),
            ),
        )
        for voter in record.voters
    )


def _control(kind: ControlType, message: Entity, now_ms: int) -> Record:
    buffer = io.BytesIO()
    entity_writer(type(message))(buffer, message)
    return Record(_KEY.pack(_KEY_VERSION, kind), buffer.getvalue(), now_ms)


def _decoded(kind: type[E], record: Record) -> E:
    if record.value is None:
        raise CorruptBatch(f"the control record at offset {record.offset} has no value")
    try:
        found: tuple[E, int] = entity_reader(kind)(bytes(record.value), 0)
    except Exception as error:  # kio raises whatever it meets
        raise CorruptBatch(f"the control record at offset {record.offset} is no {kind.__name__}: {error}") from error
    return found[0]
