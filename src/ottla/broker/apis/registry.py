"""All APIs that a broker answers. What is not in here is not offered."""

from __future__ import annotations

from typing import Final

from ottla.broker.apis import (
    alter_replica_log_dirs,
    api_versions,
    create_topics,
    delete_records,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    fetch,
    find_coordinator,
    init_producer_id,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from ottla.broker.context import Api

ALL: Final[tuple[Api, ...]] = (
    produce.API,
    fetch.API,
    list_offsets.API,
    metadata.API,
    find_coordinator.API,
    api_versions.API,
    create_topics.API,
    delete_topics.API,
    delete_records.API,
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_replica_log_dirs.API,
    describe_log_dirs.API,
    describe_cluster.API,
)
