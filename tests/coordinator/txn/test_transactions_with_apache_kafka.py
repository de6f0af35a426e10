"""Apache Kafka's tools read our `__transaction_state`, and our coordinator goes on with what Apache Kafka left."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.broker.apis.transacting import Place
from tests.interop.conftest import create_topic
from tests.waiting import until

from ottla.coordinator.group.hashing import group_hash
from ottla.coordinator.txn.transaction import TxnState
from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import ApacheKafka, free_port, tool
from ottla.testing.node import running_node

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
TOPIC = "__transaction_state"


def test_its_decoder_reads_what_we_write(tmp_path: Path) -> None:
    with running_node(tmp_path, transaction_state_log_num_partitions=1) as node:
        place = Place(node.address, "story")
        who = place.producer("transfer")
        place.produce(who)
        place.end(who, True)
        place.at_rest("transfer")
        place.add(who.with_epoch(1), 0, 1)
    (log,) = (tmp_path / f"{TOPIC}-0").glob("*.log")

    done = tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(log), "--transaction-log-decoder")

    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "transfer" in line]
    assert len(lines) == 5, done.stdout
    for line, state, epoch in zip(lines, (0, 1, 2, 4, 1), (0, 0, 1, 1, 1), strict=True):
        assert f'"transactionStatus":{state}' in line.replace(" ", ""), line
        assert f'"producerEpoch":{epoch}' in line.replace(" ", ""), line


def test_our_coordinator_goes_on_with_what_it_left(tmp_path: Path) -> None:
    kafka = ApacheKafka.start(tmp_path / "kafka", free_port(), transaction_state_log_num_partitions=3)
    try:
        topic = create_topic(kafka.bootstrap, "orders", 2)
        for name, how in (("kept", "commit"), ("dropped", "abort"), ("open", "")):
            producer = Producer({"bootstrap.servers": kafka.bootstrap, "transactional.id": name})
            producer.init_transactions(30)
            producer.begin_transaction()
            producer.produce(topic, name.encode(), partition=0)
            producer.flush(30)
            if how:
                getattr(producer, f"{how}_transaction")(30)
        kafka.kill()  # a clean stop would not change it either
    finally:
        kafka.stop()

    ours = tmp_path / "ottla"
    with running_node(ours, transaction_state_log_num_partitions=3) as node:
        place = Place(node.address, "orders")
        create_topic(node.address, "orders", 2)
    for number in range(3):
        folder = ours / f"{TOPIC}-{number}"
        for file in folder.iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for log in (kafka.data / f"{TOPIC}-{number}").glob("*.log"):
            shutil.copy(log, folder)
    (ours / ".kafka_cleanshutdown").unlink()

    with running_node(ours, transaction_state_log_num_partitions=3) as node:
        txns = node.node.txns
        until(lambda: node.on_loop(lambda: len([s for s in txns.runtime.active if s.state.name == "ACTIVE"])) == 3)
        found: dict[str, Any] = {
            name: node.on_loop(lambda name=name: txns.read(name, lambda machine: machine.describe(name)))  # type: ignore[misc]
            for name in ("kept", "dropped", "open")
        }
        assert {name: each.state for name, each in found.items()} == {
            "kept": TxnState.COMPLETE_COMMIT,
            "dropped": TxnState.COMPLETE_ABORT,
            "open": TxnState.ONGOING,
        }
        assert [str(key) for key in found["open"].partitions] == ["orders-0"]
        assert group_hash("open") % 3 in range(3)
        place = Place(node.address, "story")
        assert place.init("open")[0] == "concurrent_transactions"
        heir = place.producer("open")
        assert place.describe("open")["state"] == "Empty"
        assert heir.epoch == found["open"].epoch + 2
