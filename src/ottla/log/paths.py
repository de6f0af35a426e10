"""Kafka's names for files and folders of a log."""

from __future__ import annotations

import re
from typing import Final

from ottla.model.names import TopicPartition

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TXN_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"
CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETE_DIR_SUFFIX: Final = "-delete"
STRAY_DIR_SUFFIX: Final = "-stray"
FUTURE_DIR_SUFFIX: Final = "-future"

PARTITION_METADATA: Final = "partition.metadata"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN_MARK: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"

_PARTITION_DIR: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)")
_FUTURE_DIR: Final = re.compile(r"(?P<topic>.+)-(?P<partition>\d+)\.[0-9a-f]{32}-future")
_MAX_DIR_NAME: Final = 255


def offset_name(offset: int) -> str:
    """Twenty digits, so that names sort as offsets do."""
    return f"{offset:020d}"


def parse_partition_dir(name: str) -> TopicPartition | None:
    """The partition that a folder holds; None for folders that are something else."""
    match = _PARTITION_DIR.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None


def parse_future_dir(name: str) -> TopicPartition | None:
    """The partition that a folder was to hold once it was complete."""
    match = _FUTURE_DIR.fullmatch(name)
    return TopicPartition(match["topic"], int(match["partition"])) if match else None


def marked_dir(partition: TopicPartition, unique: str, suffix: str) -> str:
    """`topic-0.UNIQUE-delete`: the topic's name is cut where the whole would be too long for a file system."""
    tail = f"-{partition.partition}.{unique}{suffix}"
    return partition.topic[: _MAX_DIR_NAME - len(tail)] + tail
