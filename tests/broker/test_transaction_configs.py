"""What the configs of transactions do, on a running node."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis import asking
from tests.broker.apis.asking import ask
from tests.broker.apis.transacting import Place
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.testing.node import RunningNode, running_node


def find(node: RunningNode, name: str = "tx") -> ErrorCode:
    (row,) = ask(node.address, asking.FIND_COORDINATOR, 6, key_type=1, coordinator_keys=[name]).coordinators
    code: ErrorCode = row.error_code
    return code


def own_configs(node: RunningNode, topic: str) -> dict[str, str]:
    resources = [{"resource_type": 2, "resource_name": topic, "configuration_keys": None}]
    (described,) = ask(
        node.address, asking.DESCRIBE_CONFIGS, 4, resources=resources, include_synonyms=False,
        include_documentation=False,
    ).results  # fmt: skip
    return {row.name: row.value for row in described.configs if row.config_source == 1}


def test_the_topic_is_made_as_the_configs_say(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "transaction_state_log_num_partitions": 3,
        "transaction_state_log_segment_bytes": 1 << 20,
        "transaction_state_log_min_isr": 1,
        "transaction_state_log_replication_factor": 1,
    }
    with running_node(tmp_path, **settings) as node:
        until(lambda: find(node) is ErrorCode.none)
        (topic,) = asking.metadata(node.address, "__transaction_state").topics

        assert topic.is_internal
        assert [len(row.replica_nodes) for row in topic.partitions] == [1, 1, 1]
        assert own_configs(node, "__transaction_state") == {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": str(1 << 20),
            "unclean.leader.election.enable": "false",
        }


def test_without_enough_brokers_there_is_no_coordinator(tmp_path: Path) -> None:
    with running_node(tmp_path, transaction_state_log_replication_factor=3) as node:
        assert {find(node) for _ in range(5)} == {ErrorCode.coordinator_not_available}


def test_too_few_in_sync_replicas_keep_the_coordinator_from_deciding(tmp_path: Path) -> None:
    """Of one replica one is enough, whatever the config says: as many as there are."""
    with running_node(tmp_path, transaction_state_log_min_isr=2) as node:
        until(lambda: find(node) is ErrorCode.none)
        assert own_configs(node, "__transaction_state")["min.insync.replicas"] == "2"


def test_what_takes_too_long_is_aborted(tmp_path: Path) -> None:
    with running_node(tmp_path, transaction_abort_timed_out_transaction_cleanup_interval_ms=20) as node:
        place = Place(node.address, "story")
        producer = place.producer("tx", timeout_ms=300)
        assert place.produce(producer) == ["none", 0]
        assert place.ends() == [1, 0]
        until(lambda: place.ends() == [2, 2])
        assert place.at_rest("tx")["state"] == "CompleteAbort"
        assert place.produce(producer, 1)[0] == "invalid_producer_epoch"


def test_ids_are_forgotten(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "transactional_id_expiration_ms": 100,
        "transaction_remove_expired_transaction_cleanup_interval_ms": 20,
    }
    with running_node(tmp_path, **settings) as node:
        place = Place(node.address, "story")
        place.producer("tx")
        until(lambda: place.describe("tx")["code"] == "transactional_id_not_found")


@pytest.mark.parametrize(("enable", "code"), [(True, "invalid_txn_state"), (False, "none")])
def test_verification_can_be_left_out(tmp_path: Path, enable: bool, code: str) -> None:
    """Then a transaction may begin where its coordinator does not know of it, as with Kafka before 3.6."""
    with running_node(tmp_path, transaction_partition_verification_enable=enable) as node:
        place = Place(node.address, "story")
        assert place.produce(place.producer("tx"), 0, 9)[0] == code


@pytest.mark.parametrize(("backoff_ms", "at_most_ms"), [(50, 400), (300, 0)])
def test_how_long_a_broker_asks_by_itself(tmp_path: Path, backoff_ms: int, at_most_ms: int) -> None:
    """While markers of the transaction before cannot be written, since nobody leads one of its partitions."""
    settings: dict[str, Any] = {
        "add_partitions_to_txn_retry_backoff_ms": backoff_ms,
        "add_partitions_to_txn_retry_backoff_max_ms": at_most_ms,
    }
    with running_node(tmp_path, **settings) as node:
        place = Place(node.address, "story")
        producer = place.producer("tx")
        place.produce(producer)
        place.produce(producer, partition=1)
        stuck = node.node.replicas.by_name[place.topic, 1]
        node.on_loop(lambda: setattr(stuck, "is_leader", False))
        place.end(producer)
        began = time.monotonic()
        assert place.produce(producer.with_epoch(1))[0] == "concurrent_transactions"
        took_ms = (time.monotonic() - began) * 1000
        assert took_ms >= at_most_ms
        node.on_loop(lambda: setattr(stuck, "is_leader", True))
        assert place.settled(lambda: place.produce(producer.with_epoch(1)))[0] == "none"


def test_a_request_that_meets_markers_is_answered_when_they_are_written(tmp_path: Path) -> None:
    """It is not sent away, though clients of old would come again: that takes them longer."""
    with running_node(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=30_000) as node:
        place = Place(node.address, "story")
        producer = place.producer("tx")
        place.produce(producer)
        place.produce(producer, partition=1)
        stuck = node.node.replicas.by_name[place.topic, 1]
        node.on_loop(lambda: setattr(stuck, "is_leader", False))
        place.end(producer)
        again = producer.with_epoch(1)
        with ThreadPoolExecutor(3) as pool:
            added = pool.submit(place.add, again, 0)
            offsets = pool.submit(place.add_offsets, again)
            produced = pool.submit(place.produce, again)
            until(lambda: node.on_loop(lambda: node.node.txns.markers.waiting("tx")) == 3)
            node.on_loop(lambda: setattr(stuck, "is_leader", True))
            assert (added.result(), offsets.result(), produced.result()[0]) == (["none"], "none", "none")


def test_no_client_waits_longer_for_markers_than_is_configured(tmp_path: Path) -> None:
    with running_node(tmp_path, add_partitions_to_txn_retry_backoff_max_ms=100) as node:
        place = Place(node.address, "story")
        producer = place.producer("tx")
        place.produce(producer, partition=1)
        stuck = node.node.replicas.by_name[place.topic, 1]
        node.on_loop(lambda: setattr(stuck, "is_leader", False))
        place.end(producer)
        assert place.add(producer.with_epoch(1), 0) == ["concurrent_transactions"]
