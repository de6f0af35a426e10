"""The logs of all replicas, straight from the files of the simulated disks."""

from __future__ import annotations

from collections.abc import Sequence

from ottla.sim.cluster.member import Member
from ottla.sim.log_files import PartitionId, StoredLog

ReplicaLogs = dict[PartitionId, dict[int, StoredLog]]
"""By partition and node."""


def replica_logs(members: Sequence[Member]) -> ReplicaLogs:
    logs: ReplicaLogs = {}
    for member in members:
        for key, log in member.stored_logs().items():
            logs.setdefault(key, {})[member.id] = log
    return logs
