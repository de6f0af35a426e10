"""A stream is copied over three nodes while its driver, its Python processes and the nodes are killed at random."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.spark.killing import (
    PARTITIONS,
    RESTART_WITHIN_S,
    Driver,
    committed_in,
    driver_of,
    kill_at_random,
    rounds,
    victims_of,
    writing,
)
from tests.waiting import until

from ottla.testing.process_cluster import ProcessCluster, running_processes


@pytest.mark.parametrize("kills", rounds(5, 50))
@pytest.mark.parametrize("writes", ["driver", "executors"])
@pytest.mark.timeout(900)
def test_every_record_is_copied_exactly_once(tmp_path: Path, writes: str, kills: int) -> None:
    with running_processes(tmp_path, 3, min_insync_replicas=2, transaction_state_log_min_isr=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        topics = [NewTopic(name, PARTITIONS, 3) for name in ("in", "out")]
        for future in admin.create_topics(topics).values():
            future.result(60)
        driver = driver_of(cluster, tmp_path, writes)
        try:
            with writing(cluster) as written:
                seed = kill_at_random(victims_of(driver, cluster), kills, driver)
            _wait_until_all_is_copied(cluster, len(written), driver)
        finally:
            driver.stop()
        found = Counter(committed_in(cluster))
        lost, doubled = [one for one in written if one not in found], [one for one, n in found.items() if n > 1]
        assert (lost[:5], doubled[:5], len(found)) == ([], [], len(written)), seed
        print(f"{len(written)} records, {driver.starts} starts of the driver, {driver.last_commit + 1} micro-batches")


def _wait_until_all_is_copied(cluster: ProcessCluster, records: int, driver: Driver) -> None:
    def all_are_there() -> bool:
        time.sleep(1)
        return len(committed_in(cluster)) >= records

    until(all_are_there, driver.output, within_s=RESTART_WITHIN_S)
