"""The ledger of examples/pipelines on three nodes, while everything is killed at random: no money comes or goes.

tests/spark/killing.py says how a hundred kills are had.
"""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.pipeline.spark.pipelines import EXAMPLES
from tests.spark.killing import (
    PARTITIONS,
    RESTART_WITHIN_S,
    Driver,
    committed_in,
    kill_at_random,
    rounds,
    victims_of,
    writing,
)
from tests.waiting import until

from ottla.testing.process_cluster import ProcessCluster, running_processes

ACCOUNTS = [f"account-{number}" for number in range(20)]


def transfer(number: int) -> bytes:
    chance = random.Random(number)
    payer, payee = chance.sample(ACCOUNTS, 2)
    made = {"id": f"t{number}", "payer": payer, "payee": payee, "amount": chance.randrange(0, 100)}
    return json.dumps(made).encode()


def rows(cluster: ProcessCluster, topic: str, partitions: int) -> list[Any]:
    return [json.loads(value) for value in committed_in(cluster, topic, partitions)]


@pytest.mark.parametrize("kills", rounds(4, 100))
@pytest.mark.timeout(1200)
def test_money_is_conserved(kills: int, tmp_path: Path) -> None:
    with running_processes(tmp_path, 3, min_insync_replicas=2, transaction_state_log_min_isr=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("transfers", PARTITIONS, 3)])["transfers"].result(60)
        file = EXAMPLES / "ledger" / "pipeline.yaml"
        command = ["-m", "ottla.cli.main", "pipeline", "run", str(file), "-b", cluster.bootstrap]
        state = tmp_path / "state"
        driver = Driver([*command, "--show-spark", "--checkpoint", str(state)], tmp_path, state / "0" / "postings")
        try:
            with writing(cluster, "transfers", transfer) as written:
                seed = kill_at_random(victims_of(driver, cluster), kills, driver)
            amounts = {one["id"]: one["amount"] for one in map(json.loads, written)}
            right = {name for name, amount in amounts.items() if amount > 0}
            until(lambda: _all_are_posted(cluster, len(right)), driver.output, within_s=RESTART_WITHIN_S)
        finally:
            driver.stop()
        postings = rows(cluster, "ledger-postings", 3)
        assert Counter(one["id"] for one in postings) == dict.fromkeys(right, 2), seed
        assert sum(one["amount"] for one in postings) == 0
        dead = [one["id"] for one in rows(cluster, "ledger-dead-letters", 1)]
        assert sorted(dead) == sorted(set(amounts) - right), seed
        balances = {one["account"]: one for one in rows(cluster, "ledger-balances", 3)}
        assert {name: one["balance"] for name, one in balances.items()} == _sums(postings), seed
        assert sum(one["balance"] for one in balances.values()) == 0
        print(f"{len(written)} transfers, {driver.starts} starts of the driver, {driver.last_commit + 1} micro-batches")


def _all_are_posted(cluster: ProcessCluster, right: int) -> bool:
    """By both queries, which do not wait for one another."""
    time.sleep(1)
    if len(committed_in(cluster, "ledger-postings", 3)) < 2 * right:
        return False
    latest = {one["account"]: one["postings"] for one in rows(cluster, "ledger-balances", 3)}
    return bool(sum(latest.values()) >= 2 * right)


def _sums(postings: list[Any]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for one in postings:
        found[one["account"]] += one["amount"]
    return dict(found)
