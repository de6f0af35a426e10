"""All APIs of a controller's listener. What is not in here is not offered there."""

from __future__ import annotations

from functools import partial
from typing import Final

from ottla.broker.apis import registry as brokers
from ottla.broker.context import Api

_Api: Final = partial(Api, folder="ottla.broker.controller_apis")

_AS_A_BROKER_DOES: Final = {
    "CreateTopics",
    "DeleteTopics",
    "DescribeConfigs",
    "CreatePartitions",
    "ElectLeaders",
    "AlterPartitionReassignments",
    "ListPartitionReassignments",
    "DescribeQuorum",
    "UpdateFeatures",
    "UnregisterBroker",
    "AddRaftVoter",
    "RemoveRaftVoter",
}

ALL: Final[tuple[Api, ...]] = (
    _Api(1, "Fetch", 4, 18),
    _Api(18, "ApiVersions", 0, 4),
    _Api(52, "Vote", 0, 2),
    _Api(53, "BeginQuorumEpoch", 0, 1),
    _Api(54, "EndQuorumEpoch", 0, 1),
    _Api(56, "AlterPartition", 2, 3),
    _Api(59, "FetchSnapshot", 0, 1),
    _Api(62, "BrokerRegistration", 0, 4),
    _Api(63, "BrokerHeartbeat", 0, 2),
    _Api(67, "AllocateProducerIds", 0, 0),
    _Api(70, "ControllerRegistration", 0, 0),
    _Api(73, "AssignReplicasToDirs", 0, 0),
    _Api(82, "UpdateRaftVoter", 0, 0),
    # what clients ask for, directly or through a broker
    _Api(33, "AlterConfigs", 0, 2, takes_long=True, forwards=True),
    _Api(44, "IncrementalAlterConfigs", 0, 1, takes_long=True, forwards=True),
    _Api(58, "Envelope", 0, 0, takes_long=True),
    _Api(60, "DescribeCluster", 0, 2),
    *(api for api in brokers.ALL if api.name in _AS_A_BROKER_DOES),
)
