"""All APIs that a broker answers. What is not in here is not offered."""

from __future__ import annotations

from typing import Final

from ottla.broker.apis import (
    alter_configs,
    alter_partition_reassignments,
    api_versions,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    find_coordinator,
    get_telemetry_subscriptions,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    list_offsets,
    list_partition_reassignments,
    metadata,
    offset_for_leader_epoch,
    produce,
    push_telemetry,
    unregister_broker,
    update_features,
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
    create_partitions.API,
    elect_leaders.API,
    incremental_alter_configs.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    describe_quorum.API,
    update_features.API,
    describe_cluster.API,
    unregister_broker.API,
    list_config_resources.API,
    describe_topic_partitions.API,
    get_telemetry_subscriptions.API,
    push_telemetry.API,
)
