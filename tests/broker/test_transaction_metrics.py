"""What a node tells about transactions, under the names that dashboards for Kafka ask for."""

from __future__ import annotations

import time
from pathlib import Path

from tests.broker.apis.transacting import Place
from tests.broker.watching import scrape
from tests.waiting import until

from ottla.testing.node import running_node

MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager"


def test_transactions_by_state_and_markers_that_wait(tmp_path: Path) -> None:
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as node:
        place = Place(node.address, "story")
        open_one, ending = place.producer("open"), place.producer("ending")
        place.produce(open_one)
        place.produce(ending, partition=1)
        assert scrape(node).value("ottla_transactional_ids", state="Ongoing") == 2
        stuck = node.node.replicas.by_name[place.topic, 1]
        node.on_loop(lambda: setattr(stuck, "is_leader", False))
        place.end(ending)
        told = scrape(node)
        assert told.value("ottla_transactional_ids", state="PrepareCommit") == 1
        assert told.value("ottla_transactions_unfinished") == 1
        assert told.value(f"{MARKERS}_unknowndestinationqueuesize") == 0  # somebody leads it, as the metadata says
        assert told.value(f"{MARKERS}_logappendretryqueuesize") == 0
        node.on_loop(lambda: setattr(stuck, "is_leader", True))
        until(lambda: scrape(node).value("ottla_transactional_ids", state="CompleteCommit") == 1)
        assert scrape(node).value("ottla_transactions_unfinished") == 0


def test_a_transaction_that_hangs_is_told(tmp_path: Path) -> None:
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    with running_node(tmp_path, ottla_metrics_listener="127.0.0.1:0") as node:
        place = Place(node.address, "story")
        place.produce(place.producer("tx"))
        assert scrape(node).value(late) == 0
        (entry,) = [
            entry for entry in node.node.replicas.by_name[place.topic, 0].log.producers.entries.values()
        ]  # fmt: skip
        longest_ms = node.node.config.transaction_max_timeout_ms + 5 * 60 * 1000
        node.on_loop(lambda: setattr(entry, "last_timestamp", int(time.time() * 1000) - longest_ms - 1))
        assert scrape(node).value(late) == 1
