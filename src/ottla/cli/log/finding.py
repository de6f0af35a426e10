"""Which files of a log there are under a path, and what each one is."""

from __future__ import annotations

import os
import re
from enum import Enum
from typing import Final, NamedTuple

from ottla.log import paths
from ottla.model.errors import OttlaError
from ottla.model.names import METADATA_TOPIC


class Kind(Enum):
    LOG = "segment"
    OFFSET_INDEX = "offset index"
    TIME_INDEX = "time index"
    TXN_INDEX = "aborted transactions"
    PRODUCERS = "producer snapshot"
    SNAPSHOT = "metadata snapshot"
    EPOCHS = "leader epochs"
    TOPIC_ID = "partition metadata"
    OFFSETS = "offsets by partition"
    META = "meta.properties"
    QUORUM = "quorum state"
    CLEAN_SHUTDOWN = "mark of a clean stop"


class LogFile(NamedTuple):
    path: str
    kind: Kind
    offset: int = 0  # the number in its name

    @property
    def is_metadata(self) -> bool:
        partition = paths.parse_partition_dir(os.path.basename(os.path.dirname(os.path.abspath(self.path))))
        in_metadata_log = partition is not None and partition.topic == METADATA_TOPIC
        return self.kind is Kind.SNAPSHOT or (self.kind is Kind.LOG and in_metadata_log)


_BY_SUFFIX: Final = {
    paths.LOG_SUFFIX: Kind.LOG,
    paths.INDEX_SUFFIX: Kind.OFFSET_INDEX,
    paths.TIME_INDEX_SUFFIX: Kind.TIME_INDEX,
    paths.TXN_INDEX_SUFFIX: Kind.TXN_INDEX,
    paths.SNAPSHOT_SUFFIX: Kind.PRODUCERS,
}
_BY_NAME: Final = {
    paths.LEADER_EPOCH_CHECKPOINT: Kind.EPOCHS,
    paths.PARTITION_METADATA: Kind.TOPIC_ID,
    paths.RECOVERY_POINT_CHECKPOINT: Kind.OFFSETS,
    paths.LOG_START_OFFSET_CHECKPOINT: Kind.OFFSETS,
    paths.HIGH_WATERMARK_CHECKPOINT: Kind.OFFSETS,
    "cleaner-offset-checkpoint": Kind.OFFSETS,
    "meta.properties": Kind.META,
    "bootstrap.checkpoint": Kind.SNAPSHOT,
    "quorum-state": Kind.QUORUM,
    paths.CLEAN_SHUTDOWN_MARK: Kind.CLEAN_SHUTDOWN,
}
_NUMBERED: Final = re.compile(r"([0-9]{20})(\.[a-z]+)(?:\.deleted)?")
_SNAPSHOT: Final = re.compile(r"([0-9]{20})-[0-9]{10}\.checkpoint(?:\.deleted)?")
_ORDER: Final = {kind: number for number, kind in enumerate(Kind)}


def classify(path: str) -> LogFile | None:
    """What a file is, by its name; None if it is none of a log's."""
    name = os.path.basename(path)
    if name in _BY_NAME:
        return LogFile(path, _BY_NAME[name])
    if match := _SNAPSHOT.fullmatch(name):
        return LogFile(path, Kind.SNAPSHOT, int(match[1]))
    match = _NUMBERED.fullmatch(name)
    if match is None or match[2] not in _BY_SUFFIX:
        return None
    return LogFile(path, _BY_SUFFIX[match[2]], int(match[1]))


class Folder(NamedTuple):
    """A folder with files of a log: a partition's, or a log dir, which has checkpoints only."""

    path: str
    files: tuple[LogFile, ...]

    def of(self, kind: Kind) -> list[LogFile]:
        """Without those that wait for their deletion."""
        return [file for file in self.files if file.kind is kind and not file.path.endswith(paths.DELETED_SUFFIX)]


def find(path: str) -> list[Folder]:
    """A file alone, a partition's folder, or a log dir with all its partitions. OttlaError if nothing is there."""
    try:
        if not os.path.isdir(path):
            os.stat(path)
            file = classify(path)
            if file is None:
                raise OttlaError(
                    f"{path} is no file of a log: it would be named like 00000000000000000000.log, .index, .timeindex, "
                    ".txnindex or .snapshot, or be a checkpoint"
                )
            return [Folder(os.path.dirname(path), (file,))]
        found = [_folder(path)]
        for name in sorted(os.listdir(path)):
            inner = os.path.join(path, name)
            if os.path.isdir(inner):
                found.append(_folder(inner))
    except OSError as error:
        raise OttlaError(f"cannot look into {path}: {error.strerror}") from None
    found = [folder for folder in found if folder.files]
    if not found:
        raise OttlaError(f"there are no files of a log in {path}, nor in the folders in it")
    return found


def _folder(path: str) -> Folder:
    files = (classify(os.path.join(path, name)) for name in os.listdir(path))
    ordered = sorted((file for file in files if file), key=lambda file: (file.offset, _ORDER[file.kind], file.path))
    return Folder(path, tuple(ordered))
