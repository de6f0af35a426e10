"""Broker configs that change while a node runs: they hold at once, for those who use them, and after a restart."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from tests.broker.apis.altering import BROKER, BROKER_LOGGER, TOPIC, change, changed, described, set_config, value
from tests.broker.apis.asking import PRODUCE, ask, create, topic_to_create

from ottla.metadata.controller.requests import AlterOp, ConfigChange, IncrementalAlterConfigs
from ottla.metadata.image import ConfigResource
from ottla.model.config import LogConfig
from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.testing.node import RunningNode, running_node


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    with running_node(tmp_path, log_segment_bytes=2_000_000) as running:
        yield running


def produce(address: str, topic: str, size: int) -> ErrorCode:
    batch = build_batch([Record(None, b"x" * size, int(time.time() * 1000))])
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    answer = ask(
        address, PRODUCE, 9, transactional_id=None, acks=-1, timeout=timedelta(seconds=60), topic_data=topics
    )  # fmt: skip
    code: ErrorCode = answer.responses[0].partition_responses[0].error_code
    return code


def log_config(node: RunningNode, topic: str) -> LogConfig:
    return node.on_loop(lambda: node.node.replicas.by_name[topic, 0].log.config)


def test_a_new_limit_holds_for_topics_without_one_of_their_own(node: RunningNode) -> None:
    create(node.address, topic_to_create("plain"), topic_to_create("own", configs={"max.message.bytes": "5000"}))

    set_config(node.address, BROKER, "", message_max_bytes="500")

    assert produce(node.address, "plain", 600) is ErrorCode.message_too_large
    assert produce(node.address, "own", 600) is ErrorCode.none
    set_config(node.address, BROKER, "1", message_max_bytes="800")  # for this broker wins over for all
    assert produce(node.address, "plain", 600) is ErrorCode.none
    set_config(node.address, BROKER, "1", message_max_bytes=None)
    assert produce(node.address, "plain", 600) is ErrorCode.message_too_large
    set_config(node.address, BROKER, "", message_max_bytes=None)
    assert produce(node.address, "plain", 600) is ErrorCode.none


@pytest.mark.parametrize(
    ("config", "text", "attribute", "expected"),
    [
        ("log.retention.ms", "5000", "retention_ms", 5000),
        ("log.retention.ms", "-1", "retention_ms", -1),
        ("log.retention.bytes", "5000", "retention_bytes", 5000),
        ("log.segment.bytes", "3000000", "segment_bytes", 3_000_000),
        ("log.roll.ms", "5000", "segment_ms", 5000),
        ("log.roll.jitter.ms", "5", "segment_jitter_ms", 5),
        ("log.index.size.max.bytes", "5000", "segment_index_bytes", 5000),
        ("log.index.interval.bytes", "1", "index_interval_bytes", 1),
        ("log.flush.interval.messages", "5", "flush_messages", 5),
        ("log.flush.interval.ms", "5000", "flush_ms", 5000),
        ("log.segment.delete.delay.ms", "1", "file_delete_delay_ms", 1),
        ("log.cleanup.policy", "compact", "cleanup_policy", frozenset({"compact"})),
        ("log.cleaner.min.cleanable.ratio", "0.25", "min_cleanable_dirty_ratio", 0.25),
        ("log.cleaner.delete.retention.ms", "9", "delete_retention_ms", 9),
        ("log.cleaner.min.compaction.lag.ms", "9", "min_compaction_lag_ms", 9),
        ("log.cleaner.max.compaction.lag.ms", "9", "max_compaction_lag_ms", 9),
        ("log.message.timestamp.type", "LogAppendTime", "message_timestamp_type", "LogAppendTime"),
        ("log.message.timestamp.before.max.ms", "9", "message_timestamp_before_max_ms", 9),
        ("log.message.timestamp.after.max.ms", "9", "message_timestamp_after_max_ms", 9),
        ("log.preallocate", "true", "preallocate", True),
        ("compression.type", "zstd", "compression_type", "zstd"),
        ("compression.gzip.level", "5", "compression_gzip_level", 5),
        ("compression.lz4.level", "5", "compression_lz4_level", 5),
        ("compression.zstd.level", "5", "compression_zstd_level", 5),
        ("unclean.leader.election.enable", "true", "unclean_leader_election_enable", True),
    ],
)
def test_what_a_topic_takes_from_its_broker_changes_in_the_running_log(
    node: RunningNode, config: str, text: str, attribute: str, expected: object
) -> None:
    create(node.address, topic_to_create("t"))
    before = getattr(log_config(node, "t"), attribute)

    set_config(node.address, BROKER, "", **{config.replace(".", "_"): text})

    assert getattr(log_config(node, "t"), attribute) == expected != before
    create(node.address, topic_to_create("later"))
    assert getattr(log_config(node, "later"), attribute) == expected
    set_config(node.address, BROKER, "", **{config.replace(".", "_"): None})
    assert getattr(log_config(node, "t"), attribute) == before


def test_the_cluster_has_one_min_isr_that_can_change_but_not_go(node: RunningNode) -> None:
    """With eligible leader replicas (KIP-966)."""
    create(node.address, topic_to_create("t"))

    set_config(node.address, BROKER, "", min_insync_replicas="2")

    assert log_config(node, "t").min_insync_replicas == 2
    with pytest.raises(AssertionError):
        set_config(node.address, BROKER, "", min_insync_replicas=None)
    with pytest.raises(AssertionError):
        set_config(node.address, BROKER, "1", min_insync_replicas="1")
    assert log_config(node, "t").min_insync_replicas == 2


def test_synonyms_tell_every_layer(node: RunningNode) -> None:
    create(node.address, topic_to_create("t", configs={"segment.bytes": "5000000"}))
    set_config(node.address, BROKER, "", log_segment_bytes="3000000")
    set_config(node.address, BROKER, "1", log_segment_bytes="4000000")

    entry = described(node.address, TOPIC, "t", "segment.bytes")["segment.bytes"]
    cluster = described(node.address, BROKER, "")["log.segment.bytes"]

    assert [(each.name, each.value, each.source) for each in entry.synonyms] == [
        ("segment.bytes", "5000000", 1),
        ("log.segment.bytes", "4000000", 2),
        ("log.segment.bytes", "3000000", 3),
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert (cluster.name, cluster.value, cluster.config_source) == ("log.segment.bytes", "3000000", 3)


def test_configs_that_were_set_hold_after_a_restart(tmp_path: Path) -> None:
    with running_node(tmp_path) as node:
        create(node.address, topic_to_create("t"))
        set_config(node.address, BROKER, "", log_retention_ms="77777")
        set_config(node.address, BROKER, "1", producer_id_expiration_ms="5000")

    with running_node(tmp_path) as node:
        assert log_config(node, "t").retention_ms == 77777
        assert node.on_loop(lambda: node.node.config.producer_id_expiration_ms) == 5000
        assert value(node.address, BROKER, "1", "log.retention.ms") == "77777"


def test_the_expiry_of_producers_is_taken_over(node: RunningNode) -> None:
    set_config(node.address, BROKER, "", producer_id_expiration_ms="5000")

    assert node.on_loop(lambda: node.node.logs._intervals.producer_expiration_ms) == 5000


def test_a_new_topic_is_checked_against_what_holds_now(node: RunningNode) -> None:
    set_config(node.address, BROKER, "", log_cleaner_max_compaction_lag_ms="100")

    (topic,) = create(node.address, topic_to_create("t", configs={"min.compaction.lag.ms": "200"})).topics

    assert topic.error_code is ErrorCode.invalid_config


def test_unknown_names_are_kept_and_their_values_hidden(node: RunningNode) -> None:
    set_config(node.address, BROKER, "1", my_plugin="hush-hush")
    set_config(node.address, BROKER, "", other_plugin="hush-hush")
    set_config(node.address, BROKER, "1", listener_name_plaintext_ssl_keystore_password="hush-hush")
    set_config(node.address, BROKER, "", listener_name_plaintext_max_connections="77")

    told = described(node.address, BROKER, "1")
    for_all = described(node.address, BROKER, "")

    def brief(name: str) -> tuple[object, ...]:
        entry = told[name]
        return entry.value, entry.config_source, entry.is_sensitive, entry.read_only, entry.config_type

    assert brief("my.plugin") == (None, 2, True, True, 0)
    assert brief("listener.name.plaintext.ssl.keystore.password") == (None, 2, True, True, 9)
    assert brief("listener.name.plaintext.max.connections") == ("77", 3, False, True, 3)
    assert (for_all["other.plugin"].value, for_all["other.plugin"].is_sensitive) == (None, True)
    assert "hush-hush" not in repr((told, for_all))


def test_stored_configs_that_cannot_be_used_do_not_keep_a_node_from_starting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another version, or another broker, may have written them."""
    with running_node(tmp_path) as node:
        create(node.address, topic_to_create("t"))
        wrong = {"num.partitions": "9", "message.max.bytes": "many", "log.retention.ms": "55555"}
        changes = tuple(ConfigChange(name, AlterOp.SET, text) for name, text in wrong.items())
        request = IncrementalAlterConfigs(((ConfigResource(BROKER, ""), changes),))
        node.wait_for(node.node.controller.submit(request))

    caplog.clear()
    with running_node(tmp_path) as node:
        assert log_config(node, "t").retention_ms == 55555
        assert value(node.address, BROKER, "1", "num.partitions") == "1"
    told = [record.getMessage() for record in caplog.records]
    assert any("Cannot update these configs dynamically: [num.partitions]" in line for line in told)
    assert any("Invalid value many for configuration message.max.bytes" in line for line in told)


@pytest.fixture
def levels_restored() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (None, "ottla", "ottla.raft")]
    before = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, before, strict=True):
        logger.setLevel(level)


@pytest.mark.usefixtures("levels_restored")
def test_levels_of_loggers_change_at_once(node: RunningNode) -> None:
    kafkas = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}
    for name, level in kafkas.items():
        assert change(node.address, changed(BROKER_LOGGER, "1", ("ottla.raft", 0, name))) == [(ErrorCode.none, None)]
        assert logging.getLogger("ottla.raft").level == level
        entry = described(node.address, BROKER_LOGGER, "1", "ottla.raft")["ottla.raft"]
        assert (entry.value, entry.config_source, entry.read_only, entry.documentation) == (name, 6, False, "")

    assert change(node.address, changed(BROKER_LOGGER, "1", ("ottla", 0, "ERROR"), ("ottla.raft", 1, None)))
    assert value(node.address, BROKER_LOGGER, "1", "ottla.raft") == "ERROR"  # as the one above it


@pytest.mark.usefixtures("levels_restored")
def test_levels_are_all_set_or_none(node: RunningNode) -> None:
    before = value(node.address, BROKER_LOGGER, "1", "ottla.raft")

    wanted = changed(BROKER_LOGGER, "1", ("ottla.raft", 0, "FATAL"), ("no.such", 0, "INFO"))
    ((code, _),) = change(node.address, wanted)

    assert code is ErrorCode.invalid_config
    assert value(node.address, BROKER_LOGGER, "1", "ottla.raft") == before
