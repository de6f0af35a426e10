"""How clean the logs of a topic are on this broker, for who asks for it by name in DescribeConfigs.

No API of Kafka tells it. A config of this name is told only if it is asked for, so that no tool comes across it, and a
broker of Apache Kafka, which does not know it, simply leaves it out.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from ottla.log.cleaning.planning import plan
from ottla.log.cleaning.state import CleanerState
from ottla.log.partition_log import PartitionLog
from ottla.model.config import ConfigSource, DescribedConfig
from ottla.model.config.definition import ConfigType

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.log.log_dir import LogDir

COMPACTION_STATE: Final = "ottla.compaction.state"


def compaction_state(node: Node, topic: str) -> DescribedConfig:
    found: dict[str, Any] = {}
    cleaner = node.logs.cleaner
    for log_dir in node.logs.dirs:
        for partition, log in log_dir.logs.items():
            if partition.topic == topic and log.config.compact and cleaner is not None:
                found[str(partition.partition)] = _state(node, log_dir, log, cleaner.state, cleaner.is_cleaning(log))
    source = ConfigSource.STATIC_BROKER_CONFIG
    return DescribedConfig(COMPACTION_STATE, json.dumps(found), source, True, False, ConfigType.STRING, "", synonyms=())


def _state(node: Node, log_dir: LogDir, log: PartitionLog, state: CleanerState, is_cleaning: bool) -> dict[str, Any]:
    stable = node.logs.stable_offset(log)
    cleaned = log_dir.cleaned_offsets.get(log.partition)
    found = plan(log, cleaned, log.start_offset if stable is None else stable, node.env.clock.now_ms())
    last = state.last.get(log)
    return {
        "state": "uncleanable" if state.is_uncleanable(log) else "cleaning" if is_cleaning else "idle",
        "first_dirty_offset": found.first_dirty,
        "active_base_offset": log.active.base_offset,
        "end_offset": log.end_offset,
        "dirty_bytes": found.dirty_bytes,
        "clean_bytes": found.clean_bytes,
        "active_bytes": log.active.size,
        "last_cleaned_ms": None if last is None else last.ended_ms,
        "saved_bytes": None if last is None else last.outcome.bytes_read - last.outcome.bytes_written,
    }
