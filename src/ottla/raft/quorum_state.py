"""The file `quorum-state`: which epoch this voter is in, whom it voted for, who leads.

One line of JSON, as Kafka's FileQuorumStateStore writes it. Version 0 goes with static voters (kraft.version 0) and
lists them; version 1 (KIP-853) has the directory id of the candidate voted for instead.
"""

import json
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from ottla.env.files import read_file, write_atomically
from ottla.env.ports import Disk
from ottla.model.errors import OttlaError
from ottla.model.ids import parse_uuid, uuid_text
from ottla.raft.voters import NO_DIRECTORY, ReplicaKey

FILE_NAME: Final = "quorum-state"
NOBODY: Final = -1
_KNOWN_VERSIONS: Final = (0, 1)


@dataclass(frozen=True, slots=True)
class ElectionState:
    epoch: int
    leader_id: int = NOBODY
    voted_id: int = NOBODY
    voters: tuple[int, ...] = ()
    """Only in version 0."""
    voted_directory_id: UUID = NO_DIRECTORY
    """Only in version 1."""
    version: int = 0

    @property
    def voted(self) -> ReplicaKey | None:
        return None if self.voted_id == NOBODY else ReplicaKey(self.voted_id, self.voted_directory_id)


def encode(state: ElectionState) -> bytes:
    fields: dict[str, Any] = {
        "clusterId": "",  # always empty in Kafka's files: meta.properties has it
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in state.voters],
        "data_version": 0,
    }
    if state.version == 1:
        fields = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": uuid_text(state.voted_directory_id),
            "data_version": 1,
        }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes, source: str = FILE_NAME) -> ElectionState:
    try:
        fields: dict[str, Any] = json.loads(data)
        version = int(fields["data_version"])
        if version not in _KNOWN_VERSIONS:
            raise OttlaError(f"{source} has data_version {version}, only 0 and 1 are known: written by a newer Kafka?")
        voters = tuple(int(voter["voterId"]) for voter in fields.get("currentVoters") or ())
        directory_id = parse_uuid(fields["votedDirectoryId"]) if version == 1 else NO_DIRECTORY
        epoch, leader_id, voted_id = (int(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
        return ElectionState(epoch, leader_id, voted_id, voters, directory_id, version)
    except (ValueError, KeyError, TypeError) as error:
        # Never treated as absent: forgetting a vote could elect two leaders in one epoch.
        raise OttlaError(
            f"{source} is damaged ({error!r}): restore it, or remove it only if this node is the sole voter"
        ) from error


def load(disk: Disk, folder: str) -> ElectionState | None:
    path = f"{folder}/{FILE_NAME}"
    return decode(read_file(disk, path), path) if disk.exists(path) else None


def store(disk: Disk, folder: str, state: ElectionState) -> None:
    """Durable when it returns; blocks on fsync."""
    write_atomically(disk, f"{folder}/{FILE_NAME}", encode(state))
