"""Writes the tables of APIs in docs/compatibility.md from ottla.broker.apis.registry.

python tools/generate_api_table.py
"""

from __future__ import annotations

import re
from pathlib import Path

from ottla.broker.apis.registry import ALL
from ottla.broker.context import Api

TARGET = Path(__file__).resolve().parent.parent / "docs" / "compatibility.md"
BEGIN = "<!-- apis: written by tools/generate_api_table.py -->"
END = "<!-- end of apis -->"

# What the broker listener of Apache Kafka 4.3.0 answers to ApiVersions: key, name, oldest and newest version. 71 and 72
# it lists only if a plug-in takes clients' metrics.
KAFKA = """
0 Produce 0 13, 1 Fetch 4 18, 2 ListOffsets 1 11, 3 Metadata 0 13, 8 OffsetCommit 2 10, 9 OffsetFetch 1 10,
10 FindCoordinator 0 6, 11 JoinGroup 0 9, 12 Heartbeat 0 4, 13 LeaveGroup 0 5, 14 SyncGroup 0 5,
15 DescribeGroups 0 6, 16 ListGroups 0 5, 17 SaslHandshake 0 1, 18 ApiVersions 0 4, 19 CreateTopics 2 7,
20 DeleteTopics 1 6, 21 DeleteRecords 0 2, 22 InitProducerId 0 5, 23 OffsetForLeaderEpoch 2 4,
24 AddPartitionsToTxn 0 5, 25 AddOffsetsToTxn 0 4, 26 EndTxn 0 5, 27 WriteTxnMarkers 1 2, 28 TxnOffsetCommit 0 5,
29 DescribeAcls 1 3, 30 CreateAcls 1 3, 31 DeleteAcls 1 3, 32 DescribeConfigs 1 4, 33 AlterConfigs 0 2,
34 AlterReplicaLogDirs 1 2, 35 DescribeLogDirs 1 5, 36 SaslAuthenticate 0 2, 37 CreatePartitions 0 3,
38 CreateDelegationToken 1 3, 39 RenewDelegationToken 1 2, 40 ExpireDelegationToken 1 2,
41 DescribeDelegationToken 1 3, 42 DeleteGroups 0 2, 43 ElectLeaders 0 2, 44 IncrementalAlterConfigs 0 1,
45 AlterPartitionReassignments 0 1, 46 ListPartitionReassignments 0 0, 47 OffsetDelete 0 0,
48 DescribeClientQuotas 0 1, 49 AlterClientQuotas 0 1, 50 DescribeUserScramCredentials 0 0,
51 AlterUserScramCredentials 0 0, 55 DescribeQuorum 0 2, 57 UpdateFeatures 0 2, 60 DescribeCluster 0 2,
61 DescribeProducers 0 0, 64 UnregisterBroker 0 0, 65 DescribeTransactions 0 0, 66 ListTransactions 0 2,
68 ConsumerGroupHeartbeat 0 1, 69 ConsumerGroupDescribe 0 1, 71 GetTelemetrySubscriptions 0 0,
72 PushTelemetry 0 0, 74 ListConfigResources 0 1,
75 DescribeTopicPartitions 0 0, 76 ShareGroupHeartbeat 1 1, 77 ShareGroupDescribe 1 1, 78 ShareFetch 1 2,
79 ShareAcknowledge 1 2, 80 AddRaftVoter 0 1, 81 RemoveRaftVoter 0 0, 83 InitializeShareGroupState 0 0,
84 ReadShareGroupState 0 0, 85 WriteShareGroupState 0 1, 86 DeleteShareGroupState 0 0,
87 ReadShareGroupStateSummary 0 1, 88 StreamsGroupHeartbeat 0 0, 89 StreamsGroupDescribe 0 0,
90 DescribeShareGroupOffsets 0 1, 91 AlterShareGroupOffsets 0 0, 92 DeleteShareGroupOffsets 0 0
"""

_TELEMETRY = "KIP-714. Offered when metrics have a listener (`ottla.metrics.listener`); in Kafka, with a plug-in."
NOTES = {
    "GetTelemetrySubscriptions": _TELEMETRY,
    "PushTelemetry": _TELEMETRY,
    "Produce": "Advertised from 0, because librdkafka looks at the lower bound; 0 to 2 close the connection, as there.",
    "FindCoordinator": "Of groups and transactions. Share partitions: COORDINATOR_NOT_AVAILABLE.",
    "ApiVersions": "An unknown version is answered in version 0 with UNSUPPORTED_VERSION (KIP-511).",
}


def kafka_versions() -> dict[int, tuple[str, str]]:
    rows = (entry.split() for entry in KAFKA.split(","))
    return {int(key): (name, _range(oldest, newest)) for key, name, oldest, newest in rows}


def render() -> str:
    """The page with its tables made anew."""
    text = TARGET.read_text()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"{TARGET} has no lines {BEGIN} and {END} to write between")
    return re.sub(f"{re.escape(BEGIN)}.*{re.escape(END)}", lambda _: f"{BEGIN}\n{tables()}{END}", text, flags=re.DOTALL)


def tables() -> str:
    theirs = kafka_versions()
    rows = ["| key | API | versions here | in Kafka 4.3 | |", "|---|---|---|---|---|"]
    for api in sorted(ALL, key=lambda api: api.key):
        rows.append(f"| {api.key} | {api.name} | {_ours(api)} | {theirs[api.key][1]} | {NOTES.get(api.name, '')} |")
    offered = {api.key for api in ALL}
    missing = ", ".join(f"{name} ({key})" for key, (name, _) in theirs.items() if key not in offered)
    return "\n".join(rows) + f"\n\nNot offered yet, so that no client counts on it: {missing}.\n"


def _ours(api: Api) -> str:
    return _range(str(api.oldest if api.advertise_from is None else api.advertise_from), str(api.newest))


def _range(oldest: str, newest: str) -> str:
    return oldest if oldest == newest else f"{oldest} to {newest}"


def main() -> None:
    TARGET.write_text(render())


if __name__ == "__main__":
    main()
