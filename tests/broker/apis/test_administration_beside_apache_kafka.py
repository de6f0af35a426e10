"""The same changes asked of Apache Kafka and of this node, one after the other: the same outcomes, the same state.

Kafka answers a change before its broker has taken it over, so what is described is compared until it is the same.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.altering import (
    APPEND,
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    DELETE,
    GROUP,
    SET,
    SUBTRACT,
    TOPIC,
    changed,
    replaced,
)
from tests.broker.apis.asking import ask, create, topic_to_create
from tests.broker.apis.beside import Both, running_both
from tests.broker.apis.test_beside_apache_kafka import configs, plain, topics

from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

SOON = timedelta(seconds=60)
Question = tuple[int, int, dict[str, Any]]
DESCRIBE = asking.DESCRIBE_CONFIGS


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    with running_both(tmp_path_factory, num_partitions=2) as both:
        for address in both:
            wanted = (("t", 1), ("d1", 5), ("d2", 3), ("d3", 1), ("grows", 1), ("a.b", 1))
            create(address, *(topic_to_create(name, partitions) for name, partitions in wanted))
        yield both


def alter(*resources: dict[str, Any], check: bool = False, version: int = 1) -> Question:
    return asking.INCREMENTAL_ALTER_CONFIGS, version, {"resources": list(resources), "validate_only": check}


def replace(*resources: dict[str, Any], version: int = 2) -> Question:
    return asking.ALTER_CONFIGS, version, {"resources": list(resources), "validate_only": False}


def wrong(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Question:
    return alter(changed(kind, name, *changes), check=True)


def described(kind: int, name: str, *keys: str) -> Question:
    return DESCRIBE, 4, configs((kind, name), keys=list(keys) or None)


def grown(*rows: tuple[str, int, list[list[int]] | None], check: bool = False, version: int = 3) -> Question:
    wanted = [
        {"name": name, "count": count, "assignments": None if given is None else [{"broker_ids": b} for b in given]}
        for name, count, given in rows
    ]
    return asking.CREATE_PARTITIONS, version, {"topics": wanted, "timeout": SOON, "validate_only": check}


def page(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Question:
    place = cursor and {"topic_name": cursor[0], "partition_index": cursor[1]}
    asked = {"topics": [{"name": name} for name in names], "response_partition_limit": limit, "cursor": place}
    return asking.DESCRIBE_TOPIC_PARTITIONS, 0, asked


def elected(rows: list[tuple[str, list[int]]] | None, kind: int = 0, version: int = 2) -> Question:
    asked = None if rows is None else [{"topic": topic, "partitions": numbers} for topic, numbers in rows]
    return asking.ELECT_LEADERS, version, {"election_type": kind, "topic_partitions": asked, "timeout": SOON}


def updated(*rows: tuple[str, int, int], version: int = 2) -> Question:
    asked = [
        {"feature": name, "max_version_level": level, "upgrade_type": kind, "allow_downgrade": kind != 1}
        for name, level, kind in rows
    ]
    return asking.UPDATE_FEATURES, version, {"feature_updates": asked, "timeout": SOON, "validate_only": True}


def moved(*rows: tuple[str, list[tuple[int, list[int] | None]]]) -> Question:
    asked = [
        {"name": name, "partitions": [{"partition_index": number, "replicas": ids} for number, ids in partitions]}
        for name, partitions in rows
    ]
    values = {"topics": asked, "timeout": SOON, "allow_replication_factor_change": True}
    return asking.ALTER_PARTITION_REASSIGNMENTS, 1, values


STORIES: dict[str, list[Question]] = {
    "a topic's configs": [
        alter(changed(TOPIC, "t", ("retention.ms", SET, "1000"), ("cleanup.policy", APPEND, "compact"))),
        described(TOPIC, "t"),
        alter(
            changed(TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete,compact"), ("no.such", DELETE, None)), version=0
        ),
        described(TOPIC, "t", "cleanup.policy", "retention.ms"),
        replace(replaced(TOPIC, "t", {"segment.ms": "99999"}), version=0),
        described(TOPIC, "t"),
        replace(replaced(TOPIC, "t", {})),
        described(TOPIC, "t"),
    ],
    "configs of brokers": [
        alter(changed(BROKER, "", ("message.max.bytes", SET, "2000000"), ("log.retention.ms", SET, "223456"))),
        alter(changed(BROKER, "1", ("log.retention.ms", SET, "123456"), ("my.plugin", SET, "x"))),
        alter(changed(BROKER, "1", ("listener.name.plaintext.ssl.keystore.password", SET, "x"))),
        alter(changed(BROKER, "", ("listener.name.plaintext.max.connections", SET, "77"))),
        alter(changed(BROKER, "1", ("log.cleanup.policy", APPEND, "compact"), ("message.max.bytes", SET, " 1000 "))),
        alter(changed(BROKER, "1", ("leader.replication.throttled.rate", SET, "1000"))),
        described(BROKER, ""),
        described(
            BROKER, "1", "log.retention.ms", "log.retention.hours", "my.plugin", "log.cleanup.policy",
            "message.max.bytes", "listener.name.plaintext.ssl.keystore.password", "leader.replication.throttled.rate",
            "listener.name.plaintext.max.connections",
        ),
        described(TOPIC, "t"),
        replace(replaced(BROKER, "1", {"num.io.threads": "12"})),
        described(BROKER, "1", "num.io.threads", "log.retention.ms", "my.plugin", "message.max.bytes"),
        replace(replaced(BROKER, "1", {})),
        described(BROKER, "1", "num.io.threads", "log.retention.ms"),
    ],
    "groups and subscriptions": [
        alter(changed(GROUP, "g", ("consumer.session.timeout.ms", SET, "50000"))),
        described(GROUP, "g"),
        described(GROUP, "other", "share.isolation.level", "no.such"),
        alter(changed(CLIENT_METRICS, "m", ("interval.ms", SET, "5000"), ("match", SET, "client_id=a.*"))),
        described(CLIENT_METRICS, "m"),
        described(CLIENT_METRICS, "other"),
        (asking.LIST_CONFIG_RESOURCES, 1, {"resource_types": []}),
        (asking.LIST_CONFIG_RESOURCES, 1, {"resource_types": [GROUP, CLIENT_METRICS]}),
        (asking.LIST_CONFIG_RESOURCES, 1, {"resource_types": [99, TOPIC]}),
        (asking.LIST_CONFIG_RESOURCES, 0, {}),
        replace(replaced(GROUP, "g", {}), replaced(CLIENT_METRICS, "m", {})),
        described(GROUP, "g"),
        (asking.LIST_CONFIG_RESOURCES, 1, {"resource_types": [GROUP, CLIENT_METRICS]}),
    ],
    "changes that are refused": [
        wrong(TOPIC, "t", ("retention.ms", SET, "x")), wrong(TOPIC, "t", ("retention.ms", SET, "-5")),
        wrong(TOPIC, "t", ("no.such", SET, "x")), wrong(TOPIC, "absent", ("retention.ms", SET, "1")),
        wrong(TOPIC, "absent"), wrong(TOPIC, "a b", ("retention.ms", SET, "1")), wrong(TOPIC, ""),
        wrong(TOPIC, "t", ("flush.ms", SET, "1"), ("flush.ms", DELETE, None)), wrong(TOPIC, "t", ("flush.ms", 9, "1")),
        wrong(TOPIC, "t", ("flush.ms", SET, None)), wrong(TOPIC, "t", ("retention.ms", APPEND, "1")),
        wrong(TOPIC, "t", ("no.such", SUBTRACT, "1")), wrong(TOPIC, "t", ("remote.storage.enable", SET, "true")),
        wrong(TOPIC, "t", ("min.compaction.lag.ms", SET, "100"), ("max.compaction.lag.ms", SET, "50")),
        wrong(64, "x", ("a", SET, "1")), wrong(0, "x"),
        wrong(BROKER, "1", ("num.partitions", SET, "4")), wrong(BROKER, "", ("num.partitions", SET, "4")),
        wrong(BROKER, "", ("listeners", SET, "PLAINTEXT://:1")), wrong(BROKER, "1", ("listeners", SET, "X://:1")),
        wrong(BROKER, "1", ("advertised.listeners", SET, "PLAINTEXT://x:1")),
        wrong(BROKER, "1", ("message.max.bytes", SET, "x")), wrong(BROKER, "", ("log.cleanup.policy", SET, "burn")),
        wrong(BROKER, "2", ("message.max.bytes", SET, "1")), wrong(BROKER, "x", ("message.max.bytes", SET, "1")),
        wrong(BROKER, "-1"), wrong(BROKER, "+1"), wrong(BROKER, "1", ("message.max.bytes", APPEND, "1")),
        wrong(BROKER, "1", ("no.such", APPEND, "1")), wrong(BROKER, "1", ("message.max.bytes", 9, "1")),
        wrong(BROKER, "1", ("num.partitions", DELETE, None)), wrong(BROKER, "1", ("no.such", DELETE, None)),
        *(
            wrong(BROKER, "1", (name, SET, value))
            for name, value in (
                ("num.io.threads", "100"), ("num.io.threads", "1"), ("num.io.threads", "0"), ("num.io.threads", "16"),
                ("num.network.threads", "100"), ("background.threads", "100"), ("num.replica.fetchers", "3"),
                ("log.cleaner.threads", "0"), ("log.cleaner.threads", "9"), ("log.cleaner.dedupe.buffer.size", "1"),
                ("log.local.retention.ms", "99999999999"), ("log.local.retention.ms", "-1"),
                ("log.local.retention.bytes", "-1"), ("producer.id.expiration.ms", "0"), ("log.retention.ms", "0"),
                ("ssl.keystore.location", "/x"), ("metric.reporters", "no.such.Class"), ("log.roll.hours", "4"),
                ("leader.replication.throttled.rate", "x"), ("max.connections.per.ip", "0"),
                ("max.connections.per.ip.overrides", "nonsense"), ("max.connections.per.ip.overrides", "127.0.0.1:4"),
                ("cordoned.log.dirs", "/nowhere"), ("cordoned.log.dirs", "*"),
                ("unclean.leader.election.enable", "yes"),
                ("log.cleanup.policy", ""), ("log.initial.task.delay.ms", "5"),
                ("follower.fetch.last.tiered.offset.enable", "true"),
            )
        ),
        wrong(BROKER, "", ("listener.name.plaintext.ssl.key.password", SET, "x")),
        *(
            wrong(GROUP, "g", (name, SET, value))
            for name, value in (
                ("consumer.session.timeout.ms", "1"), ("consumer.session.timeout.ms", "x"),
                ("consumer.session.timeout.ms", "70000"), ("consumer.heartbeat.interval.ms", "46000"), ("no.such", "1"),
                ("share.record.lock.duration.ms", "1"), ("share.record.lock.duration.ms", "100000"),
                ("share.delivery.count.limit", "1"), ("share.delivery.count.limit", "100"),
                ("share.auto.offset.reset", "x"), ("share.auto.offset.reset", "by_duration:PT1H"),
                ("share.auto.offset.reset", "by_duration:P1DT2H3M4.5S"), ("share.auto.offset.reset", "by_duration:P"),
                ("share.auto.offset.reset", "by_duration:-PT1H"), ("streams.num.standby.replicas", "5"),
                ("share.partition.max.record.locks", "1"), ("share.isolation.level", "READ_COMMITTED"),
                ("share.renew.acknowledge.enable", "x"), ("streams.assignment.interval.ms", "-1"),
                ("consumer.assignment.interval.ms", "20000"),
            )
        ),
        wrong(GROUP, "", ("consumer.session.timeout.ms", SET, "50000")),
        *(
            wrong(CLIENT_METRICS, "m", (name, SET, value))
            for name, value in (
                ("interval.ms", "5"), ("interval.ms", "3600001"), ("interval.ms", "x"), ("no.such", "1"),
                ("match", "foo=bar"), ("match", "client_id"), ("match", "client_id=["), ("match", "client_id=a=b"),
                ("match", " client_id = a "), ("metrics", "a,,b"), ("metrics", "*"),
            )
        ),
        wrong(CLIENT_METRICS, "", ("interval.ms", SET, "5000")), wrong(CLIENT_METRICS, "m", ("metrics", APPEND, "a")),
        wrong(BROKER_LOGGER, "1", ("no.such", SET, "INFO")), wrong(BROKER_LOGGER, "1", ("root", SET, "LOUD")),
        wrong(BROKER_LOGGER, "1", ("root", DELETE, None)), wrong(BROKER_LOGGER, "1", ("root", APPEND, "INFO")),
        wrong(BROKER_LOGGER, "1", ("root", 9, "INFO")), wrong(BROKER_LOGGER, "2", ("root", SET, "INFO")),
        wrong(BROKER_LOGGER, "", ("root", SET, "INFO")), wrong(BROKER_LOGGER, "1", ("root", SET, "INFO")),
        alter(changed(TOPIC, "t"), changed(TOPIC, "t"), changed(BROKER, "1")),
        alter(changed(TOPIC, "t", ("flush.ms", 9, "1")), changed(GROUP, "g")),
        replace(replaced(BROKER_LOGGER, "1", {"root": "INFO"})), replace(replaced(TOPIC, "t", {"flush.ms": None})),
        replace(replaced(BROKER, "1", {"num.partitions": "1"})), replace(replaced(TOPIC, "absent", {})),
        replace(replaced(64, "x", {})), replace(replaced(TOPIC, "t", {"no.such": "1"})),
    ],
    "partitions": [
        grown(("grows", 3, None)), grown(("grows", 3, None)), grown(("grows", 2, None), ("d3", 0, None)),
        grown(("absent", 2, None), ("a b", 2, None), ("", 2, None)), grown(("grows", 5, None), ("grows", 6, None)),
        grown(("grows", 5, [[1], [1]])), grown(("grows", 9, [[1]])), grown(("grows", 6, [[1, 2]])),
        grown(("grows", 6, [[9]])), grown(("grows", 6, [[1, 1]])), grown(("grows", 6, [[]])), grown(("grows", 6, [])),
        grown(("grows", 7, None), check=True), grown(("d3", 2, None), version=0), grown(),
        (asking.METADATA, 12, {
            "topics": topics("grows", "d3"), "allow_auto_topic_creation": False,
            "include_topic_authorized_operations": False,
        }),
        page("grows", "d1", "d1"), page("d1", "d2", limit=6), page("d1", "d2", limit=5), page("d1", limit=0),
        page("d1", limit=-1), page("absent", "d1", "a b"), page("absent", "d1", "d2", "zz", limit=5),
        page("d1", "d2", cursor=("d1", 3)), page("d1", "d2", cursor=("d15", 0)), page("d1", "d2", cursor=("d1", 99)),
        page("d1", "d2", cursor=("d1", -1)), page(), page(cursor=("d2", 1)), page(limit=3),
        page("d3", cursor=("d2", 1)), page("d1", "d25", "d3", cursor=("d25", 1)), page("d1", ""),
    ],
    "the cluster": [
        elected([("d1", [0, 1, 9]), ("absent", [0])]), elected(None), elected([("d1", [0])], 1), elected(None, 1),
        elected([("d1", [0])], 5), elected([("d1", [0])], version=0), elected([("d1", [0, 0])]), elected([]),
        updated(("metadata.version", 30, 1)), updated(("metadata.version", 29, 1)), updated(),
        updated(("metadata.version", 29, 2)), updated(("metadata.version", 29, 3)), updated(("no.such", 1, 1)),
        updated(("metadata.version", 31, 1)), updated(("metadata.version", 30, 0)),
        updated(("metadata.version", 30, 9)),
        updated(("metadata.version", -1, 1)), updated(("metadata.version", 29, 2), version=0),
        updated(("metadata.version", 30, 1), version=1), updated(("no.such", 1, 1), version=1),
        updated(("kraft.version", 0, 1)), updated(("kraft.version", 2, 1)),
        (asking.UNREGISTER_BROKER, 0, {"broker_id": 9}),
        moved(("d1", [(0, [1]), (1, None), (2, [9]), (3, [1, 1]), (4, []), (9, [1])]), ("absent", [(0, [1])])), moved(),
        (asking.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": None, "timeout": SOON}),
        (asking.LIST_PARTITION_REASSIGNMENTS, 0, {
            "topics": [{"name": "d1", "partition_indexes": [0, 9]}], "timeout": SOON,
        }),
        *(
            (asking.DESCRIBE_QUORUM, version, {
                "topics": [{"topic_name": name, "partitions": [{"partition_index": n} for n in numbers]}],
            })
            for version in range(3)
            for name, numbers in (("other", [0]), ("__cluster_metadata", [1]), ("__cluster_metadata", [0, 1]))
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_a_story_has_the_same_outcomes(both: Both, name: str) -> None:
    for number, (api, version, question) in enumerate(STORIES[name]):
        deadline = time.monotonic() + 10
        ottla = plain(ask(both.ottla, api, version, **question))
        while (kafka := plain(ask(both.kafka, api, version, **question))) != ottla and time.monotonic() < deadline:
            if api not in (DESCRIBE, asking.METADATA, asking.DESCRIBE_TOPIC_PARTITIONS, asking.LIST_CONFIG_RESOURCES):
                break
            time.sleep(0.1)

        assert ottla == kafka, f"step {number}: API {api} version {version} {question}"


def test_every_config_of_a_broker_is_told_with_kafkas_type_and_rights(both: Both) -> None:
    def told(address: str) -> dict[str, tuple[Any, ...]]:
        answer = ask(address, DESCRIBE, 4, **configs((BROKER, "1")))
        return {row.name: (row.config_type, row.read_only, row.is_sensitive) for row in answer.results[0].configs}

    assert told(both.ottla) == told(both.kafka)


def test_the_quorum_is_told_alike(both: Both) -> None:
    """But for offsets, times and where controllers listen."""
    asked = {"topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]}
    for version in range(3):
        found = [
            ask(address, asking.DESCRIBE_QUORUM, version, **asked).topics[0].partitions[0] for address in both
        ]  # fmt: skip
        told = [
            (row.error_code, row.leader_id, [voter.replica_id for voter in row.current_voters], row.observers)
            for row in found
        ]
        assert told[0] == told[1]
        assert all(row.current_voters[0].log_end_offset == row.high_watermark > 0 for row in found)
