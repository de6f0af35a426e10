"""ApiVersions, FindCoordinator, log dirs, quorum, features, the cluster and its brokers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from tests.corpus.scenarios.scenario import EMPTY, SOON, TIMED, UNKNOWN_ID, Cases, Scenario, Values, is_patient

THIS_BROKER: Final = 1


# -- ApiVersions


def _software(name: str, version: str = "1.0", **values: Any) -> Values:
    return {"client_software_name": name, "client_software_version": version} | values


def _api_cases(version: int) -> Cases:
    return {
        "a client": _software("a-client"),
        "other names": _software("A.9"),
        "no name": _software(""),
        "no version": _software("a", ""),
        "a name that begins wrongly": _software("-a"),
        "a name that ends wrongly": _software("a."),
        "a name with a space": _software("a b"),
        "a version with a line's end": _software("a", "1\n"),
    }


API_VERSIONS: Final = Scenario(18, "ApiVersions", 0, 4, _api_cases)

# -- FindCoordinator


def _coordinator(kind: int, *keys: str) -> Values:
    return {"key_type": kind, "key": keys[0] if keys else "", "coordinator_keys": list(keys)}


def _coordinator_cases(version: int) -> Cases:
    return {
        "of a group": _coordinator(0, "group"),
        "of groups": _coordinator(0, "group", "another", "group"),
        "of a group without name": _coordinator(0, ""),
        "of nothing": _coordinator(0),
        "of a transactional id": _coordinator(1, "t"),
        "of a share partition": _coordinator(2, "group:AAAAAAAAAAAAAAAAAAAAAA:0"),
        "of no share partition": _coordinator(2, "k"),
        "of a share partition without number": _coordinator(2, "g:AAAAAAAAAAAAAAAAAAAAAA:x"),
        "of a share partition without id": _coordinator(2, "g:x:0"),
        **{f"of type {kind}": _coordinator(kind, "k") for kind in (3, -1, 127)},
    }


FIND_COORDINATOR: Final = Scenario(10, "FindCoordinator", 0, 6, _coordinator_cases)

# -- DescribeCluster


def _cluster(kind: int = 1, *, operations: bool = False, fenced: bool = False) -> Values:
    return {
        "include_cluster_authorized_operations": operations,
        "endpoint_type": kind,
        "include_fenced_brokers": fenced,
    }


def _cluster_cases(version: int) -> Cases:
    return {
        "brokers": _cluster(),
        "operations": _cluster(operations=True),
        "fenced too": _cluster(fenced=True),
        **{f"type {kind}": _cluster(kind) for kind in (0, 2, 3, -1)},
    }


DESCRIBE_CLUSTER: Final = Scenario(60, "DescribeCluster", 0, 2, _cluster_cases)

# -- DescribeLogDirs, AlterReplicaLogDirs


def _dirs(*rows: tuple[str, list[int]], all_topics: bool = False) -> Values:
    return {"topics": None if all_topics else [{"topic": topic, "partitions": numbers} for topic, numbers in rows]}


def _dirs_cases(version: int) -> Cases:
    return {
        "a topic": _dirs((TIMED, [0])),
        "topics": _dirs((TIMED, [0]), (EMPTY, [0, 1])),
        "all": _dirs(all_topics=True),
        "none": _dirs(),
        "no partitions": _dirs((TIMED, [])),
        "unknown partitions": _dirs((TIMED, [0, 7, -1])),
        "absent": _dirs(("absent", [0])),
        "a topic twice": _dirs((EMPTY, [0]), (EMPTY, [1])),
    }


DESCRIBE_LOG_DIRS: Final = Scenario(35, "DescribeLogDirs", 1, 5, _dirs_cases)


def _move(path: str, *rows: tuple[str, list[int]]) -> Values:
    return {"dirs": [{"path": path, "topics": [{"name": topic, "partitions": numbers} for topic, numbers in rows]}]}


def _move_cases(version: int) -> Cases:
    twice = _move("/nowhere", (EMPTY, [0]))
    twice["dirs"] = twice["dirs"] + _move("/elsewhere", (EMPTY, [0]))["dirs"]
    return {
        "to nowhere": _move("/nowhere", (EMPTY, [0, 1])),
        "to a relative path": _move("nowhere", (EMPTY, [0])),
        "to an empty path": _move("", (EMPTY, [0])),
        "an unknown topic": _move("/nowhere", ("absent", [0])),
        "an unknown partition": _move("/nowhere", (EMPTY, [7])),
        "no topics": _move("/nowhere"),
        "no partitions": _move("/nowhere", (EMPTY, [])),
        "no dirs": {"dirs": []},
        "to two places": twice,
    }


ALTER_REPLICA_LOG_DIRS: Final = Scenario(34, "AlterReplicaLogDirs", 1, 2, _move_cases)

# -- DescribeQuorum


def _quorum(topic: str = "__cluster_metadata", *partitions: int) -> Values:
    return {"topics": [{"topic_name": topic, "partitions": [{"partition_index": number} for number in partitions]}]}


def _quorum_cases(version: int) -> Cases:
    two = _quorum("__cluster_metadata", 0)
    two["topics"] = two["topics"] + _quorum(TIMED, 0)["topics"]
    return {
        "the metadata": _quorum("__cluster_metadata", 0),
        "another partition": _quorum("__cluster_metadata", 1),
        "two partitions": _quorum("__cluster_metadata", 0, 0),
        "no partitions": _quorum(),
        "another topic": _quorum(TIMED, 0),
        "two topics": two,
        "no topics": {"topics": []},
    }


DESCRIBE_QUORUM: Final = Scenario(55, "DescribeQuorum", 0, 2, _quorum_cases)

# -- UpdateFeatures


def _features(*updates: tuple[str, int, int], check: bool = True, timeout: timedelta = SOON) -> Values:
    rows = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != 1}
        for name, level, kind in updates
    ]
    return {"feature_updates": rows, "timeout": timeout, "validate_only": check}


def _feature_cases(version: int) -> Cases:
    unknown = ("no.such.feature", 1, 1)
    cases = {
        "an unknown feature": _features(unknown),
        "two unknown features": _features(unknown, ("another", 2, 1)),
        "a feature twice": _features(unknown, unknown),
        "no features": _features(),
        "the level that is": _features(("metadata.version", 30, 1)),
        "no name": _features(("", 1, 1)),
    }
    if version == 0:  # which cannot only check
        return cases
    return cases | {
        "a level that nobody has": _features(("metadata.version", 999, 1)),
        "a negative level": _features(("metadata.version", -1, 1)),
        "level 0": _features(("metadata.version", 0, 2)),
        "an upgrade that goes down": _features(("metadata.version", 20, 1)),
        "a safe way down": _features(("metadata.version", 29, 2)),
        "an unsafe way down": _features(("metadata.version", 20, 3)),
        **{f"upgrade type {kind}": _features(("metadata.version", 29, kind)) for kind in (0, 4, -1)},
        "kraft.version": _features(("kraft.version", 1, 1)),
        "kraft.version 5": _features(("kraft.version", 5, 1)),
    }


def _feature_is_harmless(request: Any) -> bool:
    known = {"metadata.version", "kraft.version", "group.version", "transaction.version", "share.version",
             "streams.version", "eligible.leader.replicas.version"}  # fmt: skip
    touches = any(update.feature in known for update in request.feature_updates)
    return is_patient(request.timeout) and (not touches or getattr(request, "validate_only", False))


UPDATE_FEATURES: Final = Scenario(57, "UpdateFeatures", 0, 2, _feature_cases, is_harmless=_feature_is_harmless)

# -- UnregisterBroker

UNREGISTER_BROKER: Final = Scenario(
    64,
    "UnregisterBroker",
    0,
    0,
    lambda version: {f"broker {number}": {"broker_id": number} for number in (9, 0, -1, 1000)},
    is_harmless=lambda request: request.broker_id != THIS_BROKER,
)

# -- GetTelemetrySubscriptions, PushTelemetry: not advertised where no reporter is configured, and answered all the same


def _is_first_time(request: Any) -> bool:
    """A client that comes again is told to wait, or not, by the time that has passed."""
    return request.client_instance_id is None


GET_TELEMETRY_SUBSCRIPTIONS: Final = Scenario(
    71,
    "GetTelemetrySubscriptions",
    0,
    0,
    lambda version: {"a client": {"client_instance_id": None}},
    is_harmless=_is_first_time,
)


def _push(**values: Any) -> Values:
    given = {"client_instance_id": None, "subscription_id": 1, "terminating": False, "compression_type": 0}
    return given | {"metrics": b""} | values


PUSH_TELEMETRY: Final = Scenario(
    72,
    "PushTelemetry",
    0,
    0,
    lambda version: {"a client": _push(), "metrics": _push(metrics=b"something"), "the end": _push(terminating=True)},
    is_harmless=_is_first_time,
)

# -- AddRaftVoter, RemoveRaftVoter: of a quorum whose voters are in the configuration, and so cannot be changed

_VOTER: Final = {
    "cluster_id": None,
    "timeout": SOON,
    "voter_id": 9,
    "voter_directory_id": UNKNOWN_ID,
    "listeners": [{"name": "CONTROLLER", "host": "localhost", "port": 9093}],
    "ack_when_committed": True,
}


def _voter_cases(version: int) -> Cases:
    return {
        "another": _VOTER,
        "the one that is there": {**_VOTER, "voter_id": THIS_BROKER},
        "without a directory": {**_VOTER, "voter_directory_id": None},
        "without listeners": {**_VOTER, "listeners": []},
        "of another cluster": {**_VOTER, "cluster_id": "another"},
        "not to be waited for": {**_VOTER, "ack_when_committed": False},
        "of no number": {**_VOTER, "voter_id": -1},
    }


def _voter_is_harmless(request: Any) -> bool:
    """After a listener with a name that it cannot use, Apache Kafka's broker no longer reaches its controller."""
    return all(listener.name == "CONTROLLER" for listener in request.listeners)


ADD_RAFT_VOTER: Final = Scenario(80, "AddRaftVoter", 0, 1, _voter_cases, is_harmless=_voter_is_harmless)
REMOVE_RAFT_VOTER: Final = Scenario(81, "RemoveRaftVoter", 0, 0, _voter_cases)
