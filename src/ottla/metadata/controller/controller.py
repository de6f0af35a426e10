"""The table of requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.metadata.controller import (
    brokers,
    configs,
    create_partitions,
    create_topics,
    delete_topics,
    directories,
    elections,
    producer_ids,
    reassignments,
    requests,
    update_features,
)
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import MetadataImage

R = TypeVar("R")
Decision = Callable[[Any, MetadataImage, ControllerSettings], ControllerResult[Any] | Refused]

_DECISIONS: Final[dict[type[Request[Any]], Decision]] = {
    requests.CreateTopics: create_topics.create_topics,
    requests.DeleteTopics: lambda request, image, _: delete_topics.delete_topics(request, image),
    requests.CreatePartitions: create_partitions.create_partitions,
    requests.ElectLeaders: lambda request, image, _: elections.elect_leaders(request, image),
    requests.AlterPartitionReassignments: lambda request, image, _: reassignments.alter_reassignments(request, image),
    requests.UpdateFeatures: lambda request, image, _: update_features.update_features(request, image),
    requests.UnregisterBroker: brokers.unregister_broker,
    requests.RegisterBroker: brokers.register_broker,
    requests.UnfenceBroker: brokers.unfence_broker,
    requests.FenceBroker: brokers.fence_broker,
    requests.BeginControlledShutdown: brokers.begin_controlled_shutdown,
    requests.AssignReplicasToDirs: directories.assign_replicas,
    requests.TakeDirectoriesOffline: directories.take_offline,
    requests.CordonDirectories: lambda request, image, _: directories.cordon(request, image),
    requests.RegisterController: lambda request, _image, _settings: brokers.register_controller(request),
    requests.AllocateProducerIds: lambda request, image, _: producer_ids.allocate_producer_ids(request, image),
    requests.IncrementalAlterConfigs: configs.incremental_alter_configs,
    requests.AlterConfigs: configs.alter_configs,
}


def handle(request: Request[R], image: MetadataImage, settings: ControllerSettings) -> ControllerResult[R] | Refused:
    """Decides on a request, given the state after all records that were appended so far, committed or not."""
    return _DECISIONS[type(request)](request, image, settings)
