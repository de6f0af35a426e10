"""The voters that a new cluster begins with (KIP-853), as `storage format` is told, and the snapshot with them."""

from __future__ import annotations

import re
from typing import Final
from uuid import UUID

from ottla.env.files import write_atomically
from ottla.env.ports import Disk
from ottla.model.errors import OttlaError
from ottla.model.ids import parse_uuid
from ottla.model.names import METADATA_TOPIC
from ottla.raft import snapshot_format
from ottla.raft.log_view import BOOTSTRAP_SNAPSHOT
from ottla.raft.quorum_config import KRAFT_VERSIONS
from ottla.raft.voters import Endpoint, ReplicaKey, VoterNode, VoterSet

KRAFT_VERSION: Final = 1
_FORM: Final = re.compile(r"(\d+)@(?:\[([^\]]+)\]|([^:\[\]]+)):(\d+):([A-Za-z0-9_-]+)")


def parse_initial_voters(text: str, listener: str) -> VoterSet:
    """From id@host:port:directory, separated by commas. OttlaError if one is not that."""
    nodes = [_parse(entry.strip(), listener) for entry in text.split(",") if entry.strip()]
    ids = [node.key.id for node in nodes]
    if not nodes:
        raise OttlaError("no initial controller is named: give id@host:port:directory, separated by commas")
    if len(set(ids)) != len(ids):
        raise OttlaError(f"the initial controllers {text} name a node twice: each has a node.id of its own")
    return VoterSet.of(nodes)


def _parse(entry: str, listener: str) -> VoterNode:
    found = _FORM.fullmatch(entry)
    if found is None:
        raise OttlaError(
            f"{entry!r} is not id@host:port:directory, such as 1@one.example.com:9093:JEXY6aqzQY-32P5TStzaFg; "
            "`ottla storage random-uuid` makes an id for a directory"
        )
    port = int(found[4])
    if port > 65535:
        raise OttlaError(f"port {port} of {entry!r} is not between 0 and 65535")
    try:
        directory_id = parse_uuid(found[5])
    except ValueError as error:
        raise OttlaError(f"the directory of {entry!r}: {error}; `ottla storage random-uuid` makes one") from None
    return a_voter(int(found[1]), directory_id, listener, found[2] or found[3], port)


def a_voter(node_id: int, directory_id: UUID, listener: str, host: str, port: int) -> VoterNode:
    return VoterNode(ReplicaKey(node_id, directory_id), (Endpoint(listener, host, port),), KRAFT_VERSIONS)


def store(disk: Disk, metadata_log_dir: str, voters: VoterSet, now_ms: int) -> None:
    """The snapshot 0-0 beside the log that is still to come, as Kafka's tool writes it. Blocks on fsync."""
    folder = f"{metadata_log_dir}/{METADATA_TOPIC}-0"
    disk.make_dirs(folder)
    data = snapshot_format.encode([], now_ms, kraft_version=KRAFT_VERSION, voters=voters)
    write_atomically(disk, f"{folder}/{snapshot_format.file_name(BOOTSTRAP_SNAPSHOT)}", data)
    disk.sync_dir(metadata_log_dir)
