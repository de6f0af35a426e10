"""A node under real clients tells what they did, under the names that dashboards for Kafka ask for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.broker.apis.asking import CREATE_TOPICS, DELETE_TOPICS, ask, create, metadata, topic_to_create
from tests.broker.watching import Scrape, get, health, scrape
from tests.interop.raw import FETCH, PRODUCE, Raw, fetch_values, produce_values
from tests.waiting import PATIENCE_S, attempts, until
from tools.generate_metrics_reference import families

from ottla.broker.node_state import NodeState
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node

TOPIC = "kafka_server_brokertopicmetrics_{}_total"
_names = count()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("node")
    tier: dict[str, str | bool] = {
        "remote_log_storage_system_enable": True,
        "rsm_config_url": f"file://{tmp_path_factory.mktemp('tier')}",
    }
    with running_node(folder, ottla_metrics_listener="127.0.0.1:0", num_partitions=2, **tier) as running:
        yield running


@pytest.fixture
def topic(node: RunningNode) -> str:
    name = f"topic-{next(_names)}"
    (created,) = create(node.address, topic_to_create(name, 2)).topics
    assert created.error_code == 0
    return name


def produce(node: RunningNode, topic: str, records: int, partition: int) -> None:
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 50})
    for _ in range(records):
        producer.produce(topic, b"x" * 100, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


def consume(node: RunningNode, topic: str, records: int) -> None:
    consumer = Consumer({"bootstrap.servers": node.address, "group.id": "g", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(2)])
    got = 0
    for _ in attempts():
        if got >= records:
            break
        got += len(consumer.consume(1000, 0.2))
    consumer.close()


def test_records_and_bytes_are_counted_by_topic_by_partition_and_in_all(node: RunningNode, topic: str) -> None:
    before = scrape(node)
    produce(node, topic, 300, partition=0)
    produce(node, topic, 200, partition=1)
    consume(node, topic, 500)

    after = scrape(node)

    for name in ("messagesin", "bytesin", "bytesout", "totalproducerequests", "totalfetchrequests"):
        in_all = after.value(TOPIC.format(name)) - before.value(TOPIC.format(name))
        assert in_all == after.value(TOPIC.format(name), topic=topic) > 0, name
    assert after.value(TOPIC.format("messagesin"), topic=topic) == 500
    assert after.value(TOPIC.format("failedproducerequests"), topic=topic) == 0
    for number, records in enumerate((300, 200)):
        one = {"topic": topic, "partition": number}
        assert after.value("ottla_partition_messages_in_total", **one) == records
        assert after.value("kafka_log_log_logendoffset", **one) == records
        assert after.value("kafka_log_log_logstartoffset", **one) == 0
        assert after.value("ottla_partition_high_watermark", **one) == records
        assert after.value("kafka_log_log_numlogsegments", **one) == 1
        size = after.value("kafka_log_log_size", **one)
        assert size == after.value("ottla_partition_bytes_in_total", **one) > 100 * records
        assert after.value("ottla_partition_bytes_out_total", **one) >= size


def test_requests_are_counted_by_api_and_version_and_timed(node: RunningNode) -> None:
    before = scrape(node)
    for _ in range(10):
        metadata(node.address, version=12)
    metadata(node.address, version=9)

    after = scrape(node)

    def grown(name: str, **labels: object) -> float:
        return after.get(name, **labels) - before.get(name, **labels)

    requests = "kafka_network_requestmetrics_requests_total"
    assert grown(requests, request="Metadata", version=12) == 10
    assert grown(requests, request="Metadata", version=9) == 1
    assert grown("kafka_network_requestmetrics_totaltimems_count", request="Metadata") == 11
    assert grown("kafka_network_requestmetrics_errors_total", request="Metadata", error="NONE") == 11
    assert 0 < after.value("kafka_network_requestmetrics_totaltimems", request="Metadata", quantile="0.99") < 1000


def test_the_time_of_a_fetch_that_waits_is_in_its_figures(node: RunningNode, topic: str) -> None:
    with Raw(node.port) as raw:
        for _ in range(8):  # one in eight is measured
            raw.ask(FETCH, 11, **fetch_values({(topic, 0): 0}, max_wait_ms=60))
    found = scrape(node)
    assert found.value("kafka_network_requestmetrics_totaltimems", request="FetchConsumer", quantile="0.999") >= 60
    assert found.value("ottla_request_seconds_bucket", request="Fetch", le="+Inf") > found.value(
        "ottla_request_seconds_bucket", request="Fetch", le="0.05"
    )


def test_errors_are_counted_by_api_and_code(node: RunningNode, topic: str) -> None:
    def errors(found: Scrape, request: str, error: str) -> float:
        return found.get("kafka_network_requestmetrics_errors_total", request=request, error=error)

    before = scrape(node)
    create(node.address, topic_to_create(topic), topic_to_create("a name with spaces"))
    metadata(node.address, "there-is-no-such-topic")
    metadata(node.address, "there-is-no-such-topic")  # out of the cache
    with Raw(node.port) as raw:
        raw.ask(FETCH, 11, **fetch_values({(topic, 0): 999, (topic, 7): 0}))
        raw.ask(PRODUCE, 9, **produce_values(topic, b"\x00" * 70))
        raw.ask(PRODUCE, 9, **produce_values("there-is-no-such-topic", build_batch([Record(None, b"x", 1)])))

    after = scrape(node)

    counted = {
        (request, code): errors(after, request, code) - errors(before, request, code)
        for request, code in [
            ("CreateTopics", "TOPIC_ALREADY_EXISTS"), ("CreateTopics", "INVALID_TOPIC_EXCEPTION"),
            ("Metadata", "UNKNOWN_TOPIC_OR_PARTITION"), ("Fetch", "OFFSET_OUT_OF_RANGE"),
            ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"), ("Produce", "UNKNOWN_TOPIC_OR_PARTITION"),
            ("CreateTopics", "NONE"),
        ]
    }  # fmt: skip
    assert list(counted.values()) == [1, 1, 2, 1, 1, 1, 0], counted


def test_a_batch_that_the_broker_refuses_is_a_failed_request_of_its_topic(node: RunningNode) -> None:
    name = f"compacted-{next(_names)}"
    create(node.address, topic_to_create(name, 1, configs={"cleanup.policy": "compact"}))
    producer = Producer({"bootstrap.servers": node.address})
    told: list[KafkaError | None] = []
    producer.produce(name, b"no key", on_delivery=lambda error, _: told.append(error))
    producer.flush(PATIENCE_S)
    assert told[0] is not None

    found = scrape(node)

    assert found.value(TOPIC.format("failedproducerequests"), topic=name) >= 1
    assert found.value(TOPIC.format("messagesin"), topic=name) == 0


def test_totals_do_not_go_back_when_a_topic_goes(node: RunningNode, topic: str) -> None:
    produce(node, topic, 100, partition=0)
    before = scrape(node)
    ask(node.address, DELETE_TOPICS, 5, topic_names=[topic], timeout=timedelta(seconds=60))

    after = scrape(node)

    assert after.value(TOPIC.format("messagesin")) == before.value(TOPIC.format("messagesin"))
    assert f'topic="{topic}"' not in after.text


def test_the_node_tells_of_its_place_and_of_what_it_needs(node: RunningNode, topic: str) -> None:
    found = scrape(node)
    image = node.node.image
    partitions = sum(len(one.partitions) for one in image.topics.values())
    assert found.value("kafka_server_kafkaserver_brokerstate") == 3
    assert found.value("kafka_server_replicamanager_partitioncount") == partitions
    assert found.value("kafka_server_replicamanager_leadercount") == partitions
    assert found.value("kafka_server_replicamanager_underreplicatedpartitions") == 0
    assert found.value("kafka_server_replicamanager_offlinereplicacount") == 0
    assert found.value("kafka_controller_kafkacontroller_activecontrollercount") == 1
    assert found.value("kafka_controller_kafkacontroller_activebrokercount") == 1
    assert found.value("kafka_controller_kafkacontroller_globaltopiccount") == len(image.topics)
    assert found.value("kafka_controller_kafkacontroller_globalpartitioncount") == partitions
    assert found.value("kafka_controller_kafkacontroller_offlinepartitionscount") == 0
    assert found.value("kafka_server_raft_metrics_current_leader") == 1
    assert found.value("kafka_server_raft_metrics_current_epoch") >= 1
    assert found.value("kafka_server_raft_metrics_high_watermark") > found.value(
        "kafka_server_metadatacache_metadataoffset"
    )
    assert found.value("process_resident_memory_bytes") > 10_000_000
    assert found.value("process_cpu_seconds_total") > 0
    assert 5 < found.value("process_open_fds") < found.value("process_max_fds")
    assert abs(found.value("process_start_time_seconds") - time.time()) < 600
    assert found.value("ottla_disk_sync_seconds_count") > 0
    assert found.value("ottla_loop_lag_seconds_count") > 0


def test_connections_are_counted_by_listener(node: RunningNode) -> None:
    name, one = "kafka_server_socket_server_metrics_connection_{}", {"listener": "PLAINTEXT", "networkprocessor": 0}
    before = scrape(node)
    with Raw(node.port) as first, Raw(node.port):
        first.ask(FETCH, 4, **fetch_values({}))
        during = scrape(node)
    assert during.value(name.format("creation_total"), **one) - before.value(name.format("creation_total"), **one) == 2
    until(
        lambda: scrape(node).value(name.format("count"), **one) == before.value(name.format("count"), **one),
    )
    closed = scrape(node).value(name.format("close_total"), **one)
    assert closed - before.value(name.format("close_total"), **one) == 2


def test_all_that_the_reference_lists_is_told_and_nothing_else(node: RunningNode) -> None:
    ask(node.address, CREATE_TOPICS, 7, topics=[], timeout=timedelta(0), validate_only=True)
    listed = {family.name: family.kind.value for family in families()}
    told = {
        words[2]: words[3] for line in scrape(node).text.splitlines() if (words := line.split(" "))[:2] == ["#", "TYPE"]
    }
    assert told == listed


def test_a_node_that_serves_is_alive_and_ready(node: RunningNode) -> None:
    for which in ("live", "ready"):
        status, told = health(node, which)
        assert (status, told["ok"], told["state"], told["node_id"]) == (200, True, "running", 1)
    assert get(node, "/metric")[0] == 404


@pytest.mark.parametrize("state", [NodeState.STARTING, NodeState.RECOVERY, NodeState.SHUTTING_DOWN])
def test_a_node_on_its_way_is_alive_and_not_ready(node: RunningNode, state: NodeState) -> None:
    def be(state: NodeState) -> None:
        node.node.state = state

    node.on_loop(lambda: be(state))
    try:
        assert health(node, "live")[0] == 200
        assert health(node, "ready") == (503, {**health(node, "ready")[1], "ok": False})
        assert f"kafka_server_kafkaserver_brokerstate {int(state)}\n" in get(node, "/metrics")[1].decode()
    finally:
        node.on_loop(lambda: be(NodeState.RUNNING))


def test_a_failed_node_is_neither(tmp_path: Path) -> None:
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as node:
        node.on_loop(lambda: node.node.fail("the disk is gone"))
        assert [health(node, which)[0] for which in ("live", "ready")] == [503, 503]
        assert health(node, "live")[1]["state"] == "failed"


def test_nothing_is_served_that_nobody_asked_for(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        assert node.node.status.address is None


def test_a_port_that_is_taken_is_told_with_what_to_do(node: RunningNode, tmp_path: Path) -> None:
    from ottla.model.errors import OttlaError

    with pytest.raises(OttlaError, match=r"cannot listen on 127.0.0.1:\d+ for metrics: .*ottla.metrics.listener"):
        with running_node(tmp_path, ottla_metrics_listener=str(node.node.status.address)):
            pass


def test_a_log_dir_that_has_failed_is_told_and_what_was_counted_stays(tmp_path: Path) -> None:
    dirs = [str(tmp_path / name) for name in ("one", "two")]
    with running_node(tmp_path, log_dirs=",".join(dirs), ottla_metrics_listener="127.0.0.1:0") as node:
        create(node.address, topic_to_create("t", 4))
        for number in range(4):
            produce(node, "t", 10, partition=number)

        def fail() -> int:
            (log_dir,) = (each for each in node.node.logs.dirs if each.path == dirs[1])
            lost = len(log_dir.logs)
            log_dir.fail(OSError("the disk is gone"))
            return lost

        lost = node.on_loop(fail)
        until(lambda: scrape(node).value("kafka_server_replicamanager_offlinereplicacount") == lost == 2)
        found = scrape(node)
        assert found.value("kafka_log_logmanager_offlinelogdirectorycount") == 1
        assert [found.value("kafka_log_logmanager_logdirectoryoffline", logdirectory=path) for path in dirs] == [0, 1]
        assert found.value(TOPIC.format("messagesin")) == 40
        assert found.value(TOPIC.format("messagesin"), topic="t") == 20
        assert health(node, "ready")[1]["offline_log_dirs"] == 1


def test_what_the_cleaner_does_is_told(node: RunningNode) -> None:
    name, configs = "a-table", {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0", "segment.ms": "1"}
    (created,) = create(node.address, topic_to_create(name, 1, configs=configs)).topics
    assert created.error_code == 0
    before = scrape(node)
    producer = Producer({"bootstrap.servers": node.address, "linger.ms": 0})
    for number in range(20):
        producer.produce(name, b"%d" % number, b"key")
        assert producer.flush(PATIENCE_S) == 0
        time.sleep(0.002)
    assert node.node.logs.cleaner is not None
    node.on_loop(node.node.logs.cleaner.wake)

    def saved() -> float:
        return scrape(node).value("ottla_log_cleaner_saved_bytes_total")

    until(lambda: saved() > before.value("ottla_log_cleaner_saved_bytes_total"), within_s=120)
    after = scrape(node)
    assert after.value("ottla_log_cleanings_total") > before.value("ottla_log_cleanings_total")
    assert 0 < after.value("kafka_log_logcleaner_cleaner_recopy_percent") < 100
    assert 0 <= after.value("kafka_log_logcleanermanager_max_dirty_percent") <= 100
    assert 0 <= after.value("kafka_log_logcleanermanager_time_since_last_run_ms") < 60_000
    (directory,) = [log_dir.path for log_dir in node.node.logs.dirs]
    assert after.value("kafka_log_logcleanermanager_uncleanable_partitions_count", logDirectory=directory) == 0
