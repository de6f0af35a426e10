"""All APIs that a broker answers. What is not in here is not offered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ottla.broker.context import Api

if TYPE_CHECKING:
    from ottla.broker.node import Node


def _with_telemetry(node: Node) -> bool:
    return node.telemetry.is_offered


ALL: Final[tuple[Api, ...]] = (
    Api(0, "Produce", 3, 13, advertise_from=0, is_raw=True),
    Api(1, "Fetch", 4, 18, is_raw=True),
    Api(2, "ListOffsets", 1, 11),
    Api(3, "Metadata", 0, 13, is_raw=True),
    Api(8, "OffsetCommit", 2, 10, is_raw=True),
    Api(9, "OffsetFetch", 1, 10, takes_long=True),
    Api(10, "FindCoordinator", 0, 6),
    Api(11, "JoinGroup", 0, 9),
    Api(12, "Heartbeat", 0, 4),
    Api(13, "LeaveGroup", 0, 5),
    Api(14, "SyncGroup", 0, 5),
    Api(15, "DescribeGroups", 0, 6, takes_long=True),
    Api(16, "ListGroups", 0, 5, takes_long=True),
    Api(18, "ApiVersions", 0, 4),
    Api(19, "CreateTopics", 2, 7, takes_long=True, forwards=True),
    Api(20, "DeleteTopics", 1, 6, takes_long=True, forwards=True),
    Api(21, "DeleteRecords", 0, 2),
    Api(22, "InitProducerId", 0, 5),
    Api(23, "OffsetForLeaderEpoch", 2, 4),
    Api(24, "AddPartitionsToTxn", 0, 5, reads_itself=True),
    Api(25, "AddOffsetsToTxn", 0, 4),
    Api(26, "EndTxn", 0, 5, reads_itself=True),
    Api(27, "WriteTxnMarkers", 1, 2),
    Api(28, "TxnOffsetCommit", 0, 5),
    Api(32, "DescribeConfigs", 1, 4, takes_long=True),
    Api(34, "AlterReplicaLogDirs", 1, 2),
    Api(35, "DescribeLogDirs", 1, 5, takes_long=True),
    Api(33, "AlterConfigs", 0, 2, takes_long=True, forwards=True, forwards_itself=True),
    Api(37, "CreatePartitions", 0, 3, takes_long=True, forwards=True),
    Api(42, "DeleteGroups", 0, 2),
    Api(43, "ElectLeaders", 0, 2, takes_long=True, forwards=True),
    Api(44, "IncrementalAlterConfigs", 0, 1, takes_long=True, forwards=True, forwards_itself=True),
    Api(45, "AlterPartitionReassignments", 0, 1, forwards=True),
    Api(46, "ListPartitionReassignments", 0, 0, takes_long=True, forwards=True),
    Api(47, "OffsetDelete", 0, 0),
    Api(55, "DescribeQuorum", 0, 2, forwards=True),
    Api(57, "UpdateFeatures", 0, 2, forwards=True),
    Api(60, "DescribeCluster", 0, 2),
    Api(61, "DescribeProducers", 0, 0),
    Api(64, "UnregisterBroker", 0, 0, forwards=True),
    Api(65, "DescribeTransactions", 0, 0),
    Api(66, "ListTransactions", 0, 2, takes_long=True),
    Api(74, "ListConfigResources", 0, 1, takes_long=True),
    Api(75, "DescribeTopicPartitions", 0, 0, takes_long=True),
    Api(71, "GetTelemetrySubscriptions", 0, 0, is_offered=_with_telemetry),
    Api(72, "PushTelemetry", 0, 0, is_offered=_with_telemetry),
    Api(68, "ConsumerGroupHeartbeat", 0, 1),
    Api(69, "ConsumerGroupDescribe", 0, 1, takes_long=True),
    Api(80, "AddRaftVoter", 0, 1, forwards=True),
    Api(81, "RemoveRaftVoter", 0, 0, forwards=True),
)
