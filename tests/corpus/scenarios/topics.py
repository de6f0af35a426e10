"""Metadata, CreateTopics, DeleteTopics, CreatePartitions, DescribeTopicPartitions, ElectLeaders."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from tests.corpus.scenarios.scenario import (
    CONFIGURED,
    EMPTY,
    SOON,
    TIMED,
    UNKNOWN_ID,
    Cases,
    Fixture,
    Scenario,
    Values,
    is_patient,
    own,
    stand_in,
)

_TOO_MANY: Final = 10_000  # for one request
FEW: Final = 12  # partitions that a request made by chance may create


# -- Metadata


def _refs(*names: str | UUID | None) -> list[Values]:
    return [
        {"name": ref if isinstance(ref, str) else None, "topic_id": ref if isinstance(ref, UUID) else None}
        for ref in names
    ]


def _metadata(*names: str | UUID | None, all_topics: bool = False, operations: bool = False) -> Values:
    return {
        "topics": None if all_topics else _refs(*names),
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": operations,
        "include_cluster_authorized_operations": operations,
    }


def _metadata_cases(version: int) -> Cases:
    both = [{"name": TIMED, "topic_id": stand_in(TIMED)}]
    contrary = [{"name": EMPTY, "topic_id": stand_in(TIMED)}]
    return {
        "a topic": _metadata(TIMED),
        "topics": _metadata(TIMED, EMPTY),
        "operations": _metadata(TIMED, operations=True),
        "a topic twice": _metadata(TIMED, TIMED),
        "all": _metadata(all_topics=True),
        "none": _metadata(),
        "absent": _metadata("absent"),
        "absent, creation allowed": _metadata("absent") | {"allow_auto_topic_creation": True},
        "wrong names": _metadata("two words", "", ".", "..", "x" * 250, "a/b", "ž"),
        "the longest name": _metadata("x" * 249),
        "internal": _metadata("__cluster_metadata"),
        "by id": _metadata(stand_in(TIMED)),
        "by unknown id": _metadata(UNKNOWN_ID),
        "by ids": _metadata(stand_in(TIMED), UNKNOWN_ID, stand_in(EMPTY), stand_in(TIMED)),
        "by id and name": _metadata(stand_in(TIMED), EMPTY),
        "by id with its name": _metadata() | {"topics": both},
        "by id with another name": _metadata() | {"topics": contrary},
        "by neither": _metadata(None),
        "by neither, and a name": _metadata(None, TIMED),
    }


METADATA: Final = Scenario(3, "Metadata", 0, 13, _metadata_cases)

# -- CreateTopics


def _new(name: str, partitions: int = 1, replicas: int = 1, **values: Any) -> Values:
    configs = [{"name": key, "value": value} for key, value in values.pop("configs", {}).items()]
    assignments = [{"partition_index": index, "broker_ids": ids} for index, ids in values.pop("assigned", ())]
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": replicas,
        "assignments": assignments,
        "configs": configs,
    }


def _create(*topics: Values, check: bool = True, timeout: timedelta = SOON) -> Values:
    return {"topics": list(topics), "timeout": timeout, "validate_only": check}


def _assigned(name: str, *rows: tuple[int, list[int]], partitions: int = -1, replicas: int = -1) -> Values:
    return _new(name, partitions, replicas, assigned=rows)


def _create_cases(version: int) -> Cases:
    def name(text: str) -> str:
        return own(19, version, text)

    return {
        "checked only": _create(_new(name("checked"), 2, configs={"retention.ms": "7"})),
        "created": _create(_new(name("new")), check=False),
        "created again": _create(_new(name("new")), check=False),
        "checked though it is there": _create(_new(name("new"))),
        "with configs": _create(
            _new(name("configs"), 2, configs={"cleanup.policy": "compact", "retention.ms": "-1"}), check=False
        ),
        "by default": _create(_new(name("default"), -1, -1), check=False),
        "assigned": _create(_assigned(name("assigned"), (0, [1]), (1, [1])), check=False),
        "several": _create(_new(name("s1")), _new(name("two words")), _new(name("s2")), check=False),
        "no topics": _create(),
        "no time": _create(_new(name("x")), timeout=timedelta(0)),
        "a name twice": _create(_new(name("x")), _new(name("x")), _new(name("y"))),
        **{
            f"name {text[:30]!r}": _create(_new(text))
            for text in ("", ".", "..", "two words", "x" * 249, "x" * 250, "a/b", "ž", "__cluster_metadata", "a.b")
        },
        "a name that collides": _create(_new(name("new").replace("-", "_")), _new(name("new").replace("-", "."))),
        **{f"{count} partitions": _create(_new(name("x"), count)) for count in (0, -2, 10_001, (1 << 31) - 1)},
        **{f"{count} replicas": _create(_new(name("x"), 1, count)) for count in (0, -2, 2, 32767)},
        "default replicas of two partitions": _create(_new(name("x"), 2, -1)),
        "assigned to nobody": _create(_assigned(name("x"), (0, []))),
        "assigned to a stranger": _create(_assigned(name("x"), (0, [9]))),
        "assigned to a negative": _create(_assigned(name("x"), (0, [-1]))),
        "assigned twice": _create(_assigned(name("x"), (0, [1, 1]))),
        "assigned from one on": _create(_assigned(name("x"), (1, [1]))),
        "assigned with a gap": _create(_assigned(name("x"), (0, [1]), (2, [1]))),
        "assigned a partition twice": _create(_assigned(name("x"), (0, [1]), (0, [1]))),
        "assigned unevenly": _create(_assigned(name("x"), (0, [1]), (1, []))),
        "assigned and counted": _create(_assigned(name("x"), (0, [1]), partitions=1)),
        "assigned and replicated": _create(_assigned(name("x"), (0, [1]), replicas=1)),
        **{
            f"{key}={value}": _create(_new(name("x"), configs={key: value}))
            for key, value in (
                ("retention.ms", "x"), ("retention.ms", None), ("retention.ms", ""), ("retention.ms", "-2"),
                ("no.such.config", "1"), ("", "1"), ("cleanup.policy", "burn"), ("cleanup.policy", "compact,delete"),
                ("cleanup.policy", ""), ("compression.type", "zstd"), ("compression.type", "rar"),
                ("min.insync.replicas", "0"), ("min.insync.replicas", "2"), ("segment.bytes", "1"),
                ("segment.bytes", "1048576"), ("max.message.bytes", "-1"), ("unclean.leader.election.enable", "maybe"),
                ("unclean.leader.election.enable", "TRUE"), ("message.timestamp.type", "Never"),
                ("retention.bytes", "9223372036854775808"), ("min.cleanable.dirty.ratio", "1.1"),
                ("min.cleanable.dirty.ratio", "0.3"), ("leader.replication.throttled.replicas", "0:1"),
                ("leader.replication.throttled.replicas", "x"), ("remote.storage.enable", "true"),
                ("local.retention.ms", "99999999999999"), ("segment.ms", " 1000 "),
            )
        },
    }  # fmt: skip


def _create_is_harmless(request: Any) -> bool:
    """Few partitions, or so many that they are refused: not more than Apache Kafka can count, in 32 bits."""
    count: int = sum(max(topic.num_partitions, len(topic.assignments), 1) for topic in request.topics)
    if not is_patient(request.timeout) or count >= 1 << 31:
        return False
    return bool(request.validate_only) or count <= FEW or count > _TOO_MANY


CREATE_TOPICS: Final = Scenario(19, "CreateTopics", 2, 7, _create_cases, is_harmless=_create_is_harmless)

# -- DeleteTopics


def _delete(*names: str | UUID | None, timeout: timedelta = SOON) -> Values:
    old = [name for name in names if isinstance(name, str)]
    return {"topics": _refs(*names), "topic_names": old, "timeout": timeout}


def _delete_cases(version: int) -> Cases:
    first, second, third = (own(20, version, str(number)) for number in range(3))
    contrary = {"topics": [{"name": third, "topic_id": UNKNOWN_ID}], "topic_names": [], "timeout": SOON}
    return {
        "a topic": _delete(first),
        "again": _delete(first),
        "two, one absent": _delete(second, "absent"),
        "a topic twice": _delete(third, third),
        "absent twice": _delete("absent", "absent"),
        "wrong names": _delete("", "two words", "x" * 250),
        "internal": _delete("__cluster_metadata"),
        "none": _delete(),
        "by unknown id": _delete(UNKNOWN_ID),
        "by unknown id twice": _delete(UNKNOWN_ID, UNKNOWN_ID),
        "by neither": _delete(None),
        "by both": contrary,
        "by id": _delete(stand_in(third)),
        "by name and id": _delete(own(20, version, "3"), stand_in(own(20, version, "3"))),
    }


def _delete_fixtures(version: int) -> tuple[Fixture, ...]:
    return tuple(Fixture(own(20, version, str(number))) for number in range(4))


DELETE_TOPICS: Final = Scenario(
    20, "DeleteTopics", 1, 6, _delete_cases, _delete_fixtures, lambda request: is_patient(request.timeout)
)

# -- CreatePartitions


def _grow(name: str, count: int, assignments: list[list[int]] | None = None, **values: Any) -> Values:
    rows = None if assignments is None else [{"broker_ids": ids} for ids in assignments]
    times = values.pop("times", 1)
    topics = [{"name": name, "count": count, "assignments": rows}] * times
    return {"topics": topics, "timeout": SOON, "validate_only": True} | values


def _grow_cases(version: int) -> Cases:
    topic = own(37, version, "plain")
    return {
        "checked only": _grow(topic, 2),
        "more": _grow(topic, 2, validate_only=False),
        "the same": _grow(topic, 2),
        "less": _grow(topic, 1),
        "none": _grow(topic, 0),
        "negative": _grow(topic, -1),
        "more, assigned": _grow(topic, 3, [[1]], validate_only=False),
        "too few assigned": _grow(topic, 5, [[1]]),
        "too many assigned": _grow(topic, 4, [[1], [1]]),
        "assigned to nobody": _grow(topic, 4, [[]]),
        "nothing assigned": _grow(topic, 4, []),
        "assigned to a stranger": _grow(topic, 4, [[9]]),
        "assigned twice": _grow(topic, 4, [[1, 1]]),
        "an unknown topic": _grow("absent", 2),
        "a wrong name": _grow("two words", 2),
        "internal": _grow("__cluster_metadata", 2),
        "a topic twice": _grow(topic, 9, times=2),
        "no topics": _grow(topic, 9, times=0),
        "no time": _grow(topic, 9, timeout=timedelta(0)),
        "10,001 more": _grow(topic, 10_004),
    }


def _grow_is_harmless(request: Any) -> bool:
    return is_patient(request.timeout) and all(topic.count <= FEW for topic in request.topics)


CREATE_PARTITIONS: Final = Scenario(
    37,
    "CreatePartitions",
    0,
    3,
    _grow_cases,
    lambda version: (Fixture(own(37, version, "plain")),),
    _grow_is_harmless,
)

# -- DescribeTopicPartitions


def _describe(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Values:
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    return {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": at}


def _describe_cases(version: int) -> Cases:
    return {
        "a topic": _describe(EMPTY, cursor=(EMPTY, 0)),
        "without cursor": _describe(TIMED, EMPTY),
        "absent": _describe("absent", TIMED),
        "wrong names": _describe("two words", "", "x" * 250),
        "a topic twice": _describe(TIMED, TIMED),
        "one partition": _describe(EMPTY, TIMED, limit=1),
        "two partitions": _describe(EMPTY, TIMED, limit=2),
        "no partitions": _describe(EMPTY, limit=0),
        "a negative limit": _describe(EMPTY, limit=-1),
        "from the second partition": _describe(EMPTY, TIMED, cursor=(EMPTY, 1)),
        "from beyond the partitions": _describe(EMPTY, TIMED, cursor=(EMPTY, 7)),
        "from a negative partition": _describe(EMPTY, TIMED, cursor=(EMPTY, -1)),
        "from the last topic": _describe(EMPTY, TIMED, CONFIGURED, cursor=(TIMED, 0)),
        "from a topic between": _describe(EMPTY, TIMED, CONFIGURED, cursor=("ez", 0)),
        "from after all": _describe(EMPTY, TIMED, cursor=("zzz", 0)),
        "from an empty name": _describe(EMPTY, cursor=("", 0)),
    }


def _describe_is_harmless(request: Any) -> bool:
    """From there on Apache Kafka counts beyond 32 bits."""
    return request.cursor is None or bool(request.cursor.partition_index < 1 << 30)


DESCRIBE_TOPIC_PARTITIONS: Final = Scenario(
    75, "DescribeTopicPartitions", 0, 0, _describe_cases, is_harmless=_describe_is_harmless
)

# -- ElectLeaders


def _elect(kind: int, *rows: tuple[str, list[int]], all_topics: bool = False, timeout: timedelta = SOON) -> Values:
    topics = None if all_topics else [{"topic": topic, "partitions": partitions} for topic, partitions in rows]
    return {"election_type": kind, "topic_partitions": topics, "timeout": timeout}


def _elect_cases(version: int) -> Cases:
    return {
        **{f"type {kind}": _elect(kind, (EMPTY, [0, 1])) for kind in (0, 1, 2, -1)},
        "all": _elect(0, all_topics=True),
        "all, unclean": _elect(1, all_topics=True),
        "no topics": _elect(0),
        "no partitions": _elect(0, (EMPTY, [])),
        "an unknown topic": _elect(0, ("absent", [0])),
        "an unknown partition": _elect(0, (EMPTY, [0, 7])),
        "a partition twice": _elect(0, (EMPTY, [0, 0])),
        "a topic twice": _elect(0, (EMPTY, [0]), (EMPTY, [1])),
        "no time": _elect(0, (EMPTY, [0]), timeout=timedelta(0)),
    }


ELECT_LEADERS: Final = Scenario(
    43, "ElectLeaders", 0, 2, _elect_cases, is_harmless=lambda request: is_patient(request.timeout)
)

# -- AlterPartitionReassignments, ListPartitionReassignments


def _move(topic: str, *rows: tuple[int, list[int] | None], times: int = 1, **values: Any) -> Values:
    partitions = [{"partition_index": number, "replicas": replicas} for number, replicas in rows]
    topics = [{"name": topic, "partitions": partitions}] * times
    return {"topics": topics, "timeout": SOON, "allow_replication_factor_change": True} | values


def _move_cases(version: int) -> Cases:
    topic = own(45, version, "plain")
    return {
        "to where it is": _move(topic, (0, [1])),
        "cancelled": _move(topic, (0, None)),
        "to nobody": _move(topic, (0, [])),
        "to a stranger": _move(topic, (0, [9])),
        "to one more": _move(topic, (0, [1, 9])),
        "to one twice": _move(topic, (0, [1, 1])),
        "to a negative": _move(topic, (0, [-1])),
        "replicas may not change": _move(topic, (0, [1]), allow_replication_factor_change=False),
        "an unknown topic": _move("absent", (0, [1])),
        "an unknown partition": _move(topic, (0, [1]), (7, [1])),
        "a partition twice": _move(topic, (0, [1]), (0, [9])),
        "a topic twice": _move(topic, (0, [1]), times=2),
        "no partitions": _move(topic),
        "no topics": _move(topic, times=0),
    }


ALTER_PARTITION_REASSIGNMENTS: Final = Scenario(
    45,
    "AlterPartitionReassignments",
    0,
    1,
    _move_cases,
    lambda version: (Fixture(own(45, version, "plain")),),
    lambda request: is_patient(request.timeout),
)


def _moving(*rows: tuple[str, list[int]], all_topics: bool = False) -> Values:
    topics = None if all_topics else [{"name": topic, "partition_indexes": numbers} for topic, numbers in rows]
    return {"topics": topics, "timeout": SOON}


def _moving_cases(version: int) -> Cases:
    return {
        "a topic": _moving((TIMED, [0])),
        "all": _moving(all_topics=True),
        "none": _moving(),
        "no partitions": _moving((TIMED, [])),
        "absent": _moving(("absent", [0])),
        "an unknown partition": _moving((TIMED, [7, 0])),
        "a topic twice": _moving((TIMED, [0]), (TIMED, [0])),
    }


LIST_PARTITION_REASSIGNMENTS: Final = Scenario(
    46,
    "ListPartitionReassignments",
    0,
    0,
    _moving_cases,
    is_harmless=lambda request: is_patient(request.timeout),
)
