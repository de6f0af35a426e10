"""The table of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.metadata.controller import (
    alter_partition,
    brokers,
    configs,
    create_partitions,
    create_topics,
    delete_topics,
    directories,
    elections,
    heartbeats,
    producer_ids,
    reassignments,
    requests,
    update_features,
)
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import MetadataImage

R = TypeVar("R")
Decision = Callable[[Any, MetadataImage, ControllerSettings, SoftState], ControllerResult[Any] | Refused]

_DECISIONS: Final[dict[type[Request[Any]], Decision]] = {
    requests.CreateTopics: lambda request, image, settings, _: create_topics.create_topics(request, image, settings),
    requests.DeleteTopics: lambda request, image, _, __: delete_topics.delete_topics(request, image),
    requests.CreatePartitions: lambda request, image, settings, _: create_partitions.create_partitions(
        request, image, settings
    ),
    requests.ElectLeaders: elections.elect_leaders,
    requests.BalanceLeaders: lambda _, image, settings, soft: elections.balance_leaders(image, settings, soft),
    requests.ElectUncleanLeaders: lambda _, image, settings, soft: elections.elect_unclean_leaders(
        image, settings, soft
    ),
    requests.AlterPartition: alter_partition.alter_partition,
    requests.AlterPartitionReassignments: reassignments.alter_reassignments,
    requests.UpdateFeatures: lambda request, image, settings, _: update_features.update_features(
        request, image, settings
    ),
    requests.UnregisterBroker: brokers.unregister_broker,
    requests.RegisterBroker: brokers.register_broker,
    requests.BrokerHeartbeat: heartbeats.heartbeat,
    requests.UnfenceBroker: brokers.unfence_broker,
    requests.FenceBroker: brokers.fence_broker,
    requests.FenceDeadBrokers: brokers.fence_dead_brokers,
    requests.BeginControlledShutdown: brokers.begin_controlled_shutdown,
    requests.AssignReplicasToDirs: directories.assign_replicas,
    requests.RegisterController: lambda request, image, _, __: brokers.register_controller(request, image),
    requests.AllocateProducerIds: lambda request, image, _, __: producer_ids.allocate_producer_ids(request, image),
    requests.IncrementalAlterConfigs: lambda request, image, settings, _: configs.incremental_alter_configs(
        request, image, settings
    ),
    requests.AlterConfigs: lambda request, image, settings, _: configs.alter_configs(request, image, settings),
}


def handle(
    request: Request[R], image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[R] | Refused:
    """Decides on a request, given the state after all records that were appended so far, committed or not."""
    return _DECISIONS[type(request)](request, image, settings, soft)
