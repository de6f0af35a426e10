"""Three real nodes keep the same records: what is written to a leader is on its followers, whoever dies."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.log.given import batch, everything

from ottla.broker.node import Node
from ottla.model.config import BrokerConfig, broker_config
from ottla.model.errors import ErrorCode
from ottla.replica.partition import Partition
from ottla.testing.cluster import Cluster, running_cluster
from ottla.wire.build import build, request_type
from ottla.wire.client import Connection

TOPIC = "orders"
BROKERS = {i: "broker,controller" for i in (1, 2, 3)}


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(tmp_path, 3, BROKERS, replica_lag_time_max_ms=1000, replica_fetch_backoff_ms=50) as cluster:
        yield cluster


class Story:
    """A topic with three replicas, and those who write to it."""

    def __init__(self, cluster: Cluster, partitions: int = 1, **configs: str) -> None:
        self.cluster = cluster
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in cluster.ports.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        settings = {name.replace("_", "."): value for name, value in configs.items()}
        for future in self.admin.create_topics([NewTopic(TOPIC, partitions, 3, config=settings)]).values():
            future.result()
        cluster.until(lambda: len(self.replicas()) == 3)

    def replicas(self, number: int = 0) -> dict[int, Partition]:
        found = {i: node.replicas.by_name.get((TOPIC, number)) for i, node in self.cluster.nodes.items()}
        return {i: partition for i, partition in found.items() if partition is not None}

    def leader(self) -> Node:
        def look() -> Node | None:
            led = [i for i, partition in self.replicas().items() if partition.is_leader]
            return self.cluster.nodes[led[0]] if len(led) == 1 else None

        return self.cluster.until(look)

    def led(self) -> Partition:
        return self.leader().replicas.by_name[TOPIC, 0]

    def led_by(self, node: Node) -> Partition:
        return node.replicas.by_name[TOPIC, 0]

    def followers(self) -> list[Node]:
        leader = self.leader()
        return [node for node in self.cluster.nodes.values() if node is not leader]

    def write(self, *values: bytes, acks: int = -1, partition: int = 0, timeout_ms: int = 20_000) -> None:
        errors: list[object] = []
        producer = Producer(
            {"bootstrap.servers": self.bootstrap, "acks": acks, "linger.ms": 0, "message.timeout.ms": timeout_ms}
        )
        for value in values:
            producer.produce(TOPIC, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(30) == 0
        failed = [error for error in errors if error is not None]
        if failed:
            raise KafkaException(failed[0])

    def read(self, count: int, **settings: str) -> list[bytes]:
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "g", "auto.offset.reset": "earliest", **settings}
        )
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes] = []
        while len(values) < count:
            message = consumer.poll(20)
            assert message is not None, f"{len(values)} of {count} records came"
            assert message.error() is None
            values.append(message.value() or b"")
        consumer.close()
        return values

    def pause(self, *nodes: Node) -> None:
        """Their fetchers stop, as if they hung, until the node is restarted."""

        async def stop() -> None:
            for node in nodes:
                assert node.replicas.replication is not None
                fetchers = node.replicas.replication.fetchers
                fetchers.follow = lambda partition: None  # type: ignore[method-assign]
                await fetchers.stop()

        self.cluster.run(stop())

    def until_all_have(self, end_offset: int) -> None:
        self.cluster.until(lambda: {each.log.end_offset for each in self.replicas().values()} == {end_offset})

    def until_in_sync(self, *brokers: int) -> None:
        self.cluster.until(lambda: all(set(each.leadership.isr) == set(brokers) for each in self.replicas().values()))

    def logs(self) -> list[list[bytes]]:
        return self.cluster.on_loop(lambda: [everything(each.log) for each in self.replicas().values()])


def test_what_is_acknowledged_is_on_all_replicas(three: Cluster) -> None:
    story = Story(three, min_insync_replicas="2")
    story.write(*(b"%d" % n for n in range(500)))

    story.until_all_have(500)
    first, *others = story.logs()
    assert others == [first, first]
    three.until(lambda: {each.high_watermark for each in story.replicas().values()} == {500})
    assert story.read(500) == [b"%d" % n for n in range(500)]


def test_a_leader_that_goes_leaves_everything_to_the_next(three: Cluster) -> None:
    story = Story(three, min_insync_replicas="2")
    story.write(b"before")
    gone = story.leader().config.node_id
    three.stop(gone)

    story.write(b"after")
    assert story.read(2) == [b"before", b"after"]

    three.start(gone)
    story.until_all_have(2)
    story.until_in_sync(1, 2, 3)


def test_who_hangs_leaves_the_in_sync_replicas_and_comes_back(three: Cluster) -> None:
    story = Story(three)
    story.write(b"one")
    hanging, other = story.followers()
    story.pause(hanging)
    story.write(b"two", timeout_ms=30_000)  # acknowledged once the one that hangs is out

    left = {story.leader().config.node_id, other.config.node_id}
    story.until_in_sync(*left)
    replication = story.leader().replicas.replication
    assert replication is not None
    assert replication.isr_changes.shrinks == 1

    three.stop(hanging.config.node_id)
    three.start(hanging.config.node_id)
    story.until_in_sync(1, 2, 3)
    story.until_all_have(2)


def test_without_enough_replicas_acks_all_is_refused_and_nothing_is_committed(three: Cluster) -> None:
    story = Story(three, min_insync_replicas="3")
    story.write(b"one")
    story.pause(story.followers()[0])
    story.write(b"two", acks=1)
    led = story.led()
    three.until(lambda: len(led.leadership.isr) == 2)

    with pytest.raises(KafkaException):
        story.write(b"three", timeout_ms=1500)
    story.write(b"four", acks=1)
    assert three.on_loop(lambda: led.high_watermark) == 1


def test_what_only_a_dead_leader_had_is_cut_off_when_it_comes_back(three: Cluster) -> None:
    story = Story(three)
    story.write(b"common")
    story.until_all_have(1)
    old = story.leader()
    story.pause(*story.followers())
    story.write(b"lost one", b"lost two", acks=1)
    three.stop(old.config.node_id)

    for node in [each for each in three.nodes.values() if each is not old]:  # they follow again, by a restart each
        three.stop(node.config.node_id)
    three.start(*(i for i in three.ids if i != old.config.node_id))
    story.write(b"kept")
    three.start(old.config.node_id)

    story.until_all_have(2)
    story.until_in_sync(1, 2, 3)
    first, *others = story.logs()
    assert others == [first, first]
    assert story.read(2) == [b"common", b"kept"]


def test_a_high_watermark_beyond_the_end_goes_back_with_the_log(three: Cluster) -> None:
    """After an unclean election: what was committed with the old leader alone is not in the new one's log."""
    story = Story(three, unclean_leader_election_enable="true")
    story.write(b"common")
    story.until_all_have(1)
    old, others = story.leader(), story.followers()
    story.pause(*others)
    story.write(b"lost one", b"lost two", timeout_ms=30_000)  # committed once the others are out
    assert story.led().high_watermark == 3
    three.stop(*(node.config.node_id for node in others))
    three.stop(old.config.node_id)

    three.start(*(node.config.node_id for node in others))
    story.write(b"kept")
    three.start(old.config.node_id)

    story.until_in_sync(1, 2, 3)
    story.until_all_have(2)
    three.until(lambda: {each.high_watermark for each in story.replicas().values()} == {2})
    assert story.read(2) == [b"common", b"kept"]


def test_connections_that_were_closed_because_they_were_idle_are_made_again(tmp_path: Path) -> None:
    with running_cluster(tmp_path, 3, BROKERS, connections_max_idle_ms=1500) as cluster:
        story = Story(cluster)
        story.write(b"one")
        for future in story.admin.delete_topics([TOPIC]).values():
            future.result()
        cluster.until(lambda: not story.replicas())  # followers have nobody to ask now
        del story
        cluster.until(lambda: not any(node.listening.connections.connections for node in cluster.nodes.values()))

        story = Story(cluster, min_insync_replicas="3")
        story.write(b"two")
        story.until_all_have(1)


def test_a_node_with_an_empty_disk_gets_everything_from_the_leader(three: Cluster) -> None:
    story = Story(three)
    story.write(*(b"%d" % i for i in range(50)))
    number = story.followers()[0].config.node_id
    three.stop(number)
    shutil.rmtree(three.folder / str(number))

    three.start(number)

    three.until(lambda: story.replicas()[number].log.end_offset == 50)
    three.until(lambda: all(len(partition.leadership.isr) == 3 for partition in story.replicas().values()))


def test_a_follower_whose_start_the_leader_has_passed_starts_anew(three: Cluster) -> None:
    story = Story(three)
    story.write(*(b"%d" % n for n in range(10)))
    away = story.followers()[0].config.node_id
    three.stop(away)
    story.write(*(b"%d" % n for n in range(10)))
    for future in story.admin.delete_records([TopicPartition(TOPIC, 0, 15)]).values():
        assert future.result().low_watermark == 15

    three.start(away)
    story.until_in_sync(1, 2, 3)
    three.until(lambda: {each.log.start_offset for each in story.replicas().values()} == {15})
    story.until_all_have(20)


def test_a_wrong_node_tells_who_leads_and_where(three: Cluster) -> None:
    story = Story(three)
    story.write(b"one")
    leader, follower = story.leader(), story.followers()[0]
    topic_id = three.on_loop(lambda: story.led_by(leader).topic_id)
    three.until(lambda: story.led_by(follower).high_watermark == 1)

    async def ask() -> tuple[Any, Any]:
        port = three.ports[follower.config.node_id]
        async with await Connection.open(follower.env, "127.0.0.1", port) as connection:
            row = {"index": 0, "records": batch()}
            produce = {
                "transactional_id": None,
                "acks": -1,
                "timeout": timedelta(seconds=5),
                "topic_data": [{"topic_id": topic_id, "partition_data": [row]}],
            }
            produced = await connection.call(build(request_type(0, 13), produce))
            wanted = {
                "partition": 0,
                "current_leader_epoch": 0,
                "fetch_offset": 0,
                "last_fetched_epoch": -1,
                "log_start_offset": -1,
                "partition_max_bytes": 1 << 20,
            }
            return produced, await connection.call(a_fetch(topic_id, wanted))

    produced, fetched = three.run(ask())
    answer = produced.responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.not_leader_or_follower
    assert answer.current_leader.leader_id == leader.config.node_id
    (endpoint,) = produced.node_endpoints
    assert (endpoint.node_id, endpoint.port) == (leader.config.node_id, three.ports[leader.config.node_id])
    row = fetched.responses[0].partitions[0]
    assert (row.error_code, row.high_watermark) == (ErrorCode.none, 1), "a follower serves consumers too (KIP-392)"


def a_fetch(topic_id: object, *rows: dict[str, Any], rack: str = "") -> Any:
    return build(
        request_type(1, 17),
        {
            "max_wait": timedelta(0),
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic_id": topic_id, "partitions": rows}],
            "forgotten_topics_data": [],
            "rack_id": rack,
        },
    )


def test_a_consumer_is_sent_to_the_replica_in_its_rack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Cluster.config

    def with_rack(cluster: Cluster, i: int) -> BrokerConfig:
        config = plain(cluster, i)
        return broker_config({**config.layers.static, "broker.rack": f"rack-{i}"})

    monkeypatch.setattr(Cluster, "config", with_rack)
    selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
    with running_cluster(tmp_path, 3, BROKERS, replica_selector_class=selector) as cluster:
        story = Story(cluster)
        story.write(*(b"%d" % n for n in range(20)))
        story.until_all_have(20)
        near = story.followers()[0]
        assert story.read(20, **{"client.rack": f"rack-{near.config.node_id}"}) == [b"%d" % n for n in range(20)]
        fetched = cluster.on_loop(lambda: near.replicas.by_name[TOPIC, 0].bytes_fetched)
        assert fetched > 0
