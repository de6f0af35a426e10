"""All APIs that a broker answers. What is not in here is not offered."""

from __future__ import annotations

from typing import Final

from ottla.broker.apis import (
    alter_configs,
    api_versions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    fetch,
    find_coordinator,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
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
    init_producer_id.API,
    offset_for_leader_epoch.API,
    describe_configs.API,
    alter_configs.API,
    incremental_alter_configs.API,
    describe_cluster.API,
    list_config_resources.API,
)
