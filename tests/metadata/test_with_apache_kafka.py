"""Apache Kafka's own tools and broker on what we write, and we on what it writes."""

import asyncio
import re
import shutil
from pathlib import Path
from random import Random

import pytest
from tests.metadata import given
from tests.metadata.running import Running

from ottla.env.clock import SystemClock
from ottla.env.disk import PosixDisk
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.metadata import bootstrap, loader, meta_properties
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, bootstrap_records
from ottla.metadata.controller.requests import (
    AllocateProducerIds,
    BeginControlledShutdown,
    CreateTopics,
    DeleteTopics,
    FenceBroker,
    NewTopic,
    TopicRef,
    UnfenceBroker,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.meta_properties import MetaProperties, random_uuid
from ottla.raft.memory_log import MemoryRaftLog
from ottla.record.reader import iterate_batches
from ottla.testing import apache_kafka

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]


def our_metadata_log(folder: Path) -> MetadataImage:
    """A log with most of what a node writes: two lives of a broker, topics, configs, a clean stop."""

    async def story() -> MetadataImage:
        env = Env(SystemClock(), PosixDisk(), TcpNetwork(), PoolExecutor(), SeededRandom(Random(1)))
        log = MemoryRaftLog()
        for life in (1, 2):
            controller = await Running.start(env, str(folder), log, life)
            epoch = await controller.submit(given.registration(1, incarnation=200 + life))
            await controller.submit(UnfenceBroker(1, epoch))
            topics = (
                NewTopic(f"orders-{life}", 2, 1, configs=(("retention.ms", "60000"),)),
                NewTopic(f"gone-{life}", 1, 1),
            )
            await controller.submit(CreateTopics(topics))
            await controller.submit(DeleteTopics((TopicRef(f"gone-{life}"),)))
            await controller.submit(AllocateProducerIds(1, epoch))
            await controller.stop()
        controller = await Running.start(env, str(folder), log, 3)
        await controller.submit(BeginControlledShutdown(1, epoch))
        await controller.submit(FenceBroker(1, epoch))
        await controller.stop()
        (folder / "00000000000000000000.log").write_bytes(b"".join(log.batches))
        return controller.image

    folder.mkdir(parents=True, exist_ok=True)
    return asyncio.run(story())


def format_storage(data: Path) -> MetaProperties:
    meta = MetaProperties(given.CLUSTER_ID, 1, random_uuid(SeededRandom(Random())))
    data.mkdir(parents=True)
    meta_properties.store(PosixDisk(), str(data), meta, SystemClock().now_ms())
    bootstrap.store(PosixDisk(), str(data), bootstrap_records(), LATEST_METADATA_VERSION, SystemClock().now_ms())
    return meta


def metadata_of(data: Path) -> MetadataImage:
    log = (data / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    return loader.load(batch for _, batch in iterate_batches(log)).image


def test_dump_log_segments_reads_our_metadata_log(tmp_path: Path) -> None:
    our_metadata_log(tmp_path)

    dump = apache_kafka.tool(
        "org.apache.kafka.tools.DumpLogSegments",
        "--cluster-metadata-decoder",
        "--files",
        str(tmp_path / "00000000000000000000.log"),
    )

    assert dump.returncode == 0, dump.stderr
    assert "isvalid: false" not in dump.stdout
    assert "Could not" not in dump.stdout + dump.stderr
    assert dump.stdout.count('LeaderChange: {"version":0,"leaderId":1') == 3
    types = re.findall(r'payload: \{"type":"(\w+)","version":(\d)', dump.stdout)
    assert set(types) == {
        ("BEGIN_TRANSACTION_RECORD", "0"), ("FEATURE_LEVEL_RECORD", "0"), ("END_TRANSACTION_RECORD", "0"),
        ("REGISTER_BROKER_RECORD", "4"), ("BROKER_REGISTRATION_CHANGE_RECORD", "0"),
        ("BROKER_REGISTRATION_CHANGE_RECORD", "1"), ("TOPIC_RECORD", "0"), ("CONFIG_RECORD", "0"),
        ("PARTITION_RECORD", "2"), ("REMOVE_TOPIC_RECORD", "0"), ("PRODUCER_IDS_RECORD", "0"),
        ("PARTITION_CHANGE_RECORD", "2"),
    }  # fmt: skip


def test_storage_tool_knows_the_storage_that_we_formatted(tmp_path: Path) -> None:
    meta = format_storage(tmp_path / "data")
    apache_kafka.format_storage(tmp_path, apache_kafka.free_port())  # writes server.properties, formats nothing

    info = apache_kafka.tool("kafka.tools.StorageTool", "info", "-c", str(tmp_path / "server.properties"))

    assert info.returncode == 0, info.stdout + info.stderr
    assert f"cluster.id={meta.cluster_id}" in info.stdout
    assert f"directory.id={meta_properties.uuid_text(meta.directory_id)}" in info.stdout


def test_apache_kafka_starts_on_storage_that_we_formatted(tmp_path: Path) -> None:
    format_storage(tmp_path / "data")

    node = apache_kafka.ApacheKafka.start(tmp_path, apache_kafka.free_port())
    node.stop()

    assert metadata_of(node.data).features == {
        "metadata.version": 30, "group.version": 1, "eligible.leader.replicas.version": 1, "transaction.version": 2,
    }  # fmt: skip


def test_we_read_the_storage_that_kafka_formatted(tmp_path: Path) -> None:
    apache_kafka.format_storage(tmp_path, apache_kafka.free_port())

    meta = meta_properties.load(PosixDisk(), str(tmp_path / "data"))
    records = bootstrap.load(PosixDisk(), str(tmp_path / "data"))

    assert meta is not None and meta.node_id == 1
    assert records is not None and records[0] == bootstrap_records()[0]


def test_apache_kafka_goes_on_where_our_metadata_log_ends(tmp_path: Path) -> None:
    data = tmp_path / "data"
    format_storage(data)
    ours = our_metadata_log(data / "__cluster_metadata-0")
    shutil.copy(data / "__cluster_metadata-0" / "00000000000000000000.log", tmp_path / "ours.log")

    node = apache_kafka.ApacheKafka.start(tmp_path, apache_kafka.free_port())
    try:
        listed = apache_kafka.tool(
            "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, "--list"
        )
    finally:
        node.stop()

    theirs = metadata_of(data)
    assert listed.stdout.split() == ["orders-1", "orders-2"]
    assert theirs.epoch == ours.epoch + 1
    assert theirs.topic_ids == ours.topic_ids
    assert theirs.configs == ours.configs
    assert theirs.next_producer_id == ours.next_producer_id
    log = (data / "__cluster_metadata-0" / "00000000000000000000.log").read_bytes()
    assert log.startswith((tmp_path / "ours.log").read_bytes())
