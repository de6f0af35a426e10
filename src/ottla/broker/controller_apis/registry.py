"""All APIs of a controller's listener. What is not in here is not offered there."""

from __future__ import annotations

from typing import Final

from ottla.broker.apis import (
    add_raft_voter,
    alter_partition_reassignments,
    create_partitions,
    create_topics,
    delete_topics,
    describe_configs,
    describe_quorum,
    elect_leaders,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    update_features,
)
from ottla.broker.context import Api
from ottla.broker.controller_apis import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    describe_cluster,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    incremental_alter_configs,
    update_raft_voter,
    vote,
)

ALL: Final[tuple[Api, ...]] = (
    fetch.API,
    api_versions.API,
    vote.API,
    begin_quorum_epoch.API,
    end_quorum_epoch.API,
    describe_quorum.API,
    alter_partition.API,
    fetch_snapshot.API,
    broker_registration.API,
    broker_heartbeat.API,
    allocate_producer_ids.API,
    controller_registration.API,
    assign_replicas_to_dirs.API,
    add_raft_voter.API,
    remove_raft_voter.API,
    update_raft_voter.API,
    # what clients ask for, directly or through a broker
    create_topics.API,
    delete_topics.API,
    create_partitions.API,
    describe_configs.API,
    alter_configs.API,
    incremental_alter_configs.API,
    elect_leaders.API,
    alter_partition_reassignments.API,
    list_partition_reassignments.API,
    update_features.API,
    unregister_broker.API,
    envelope.API,
    describe_cluster.API,
)
