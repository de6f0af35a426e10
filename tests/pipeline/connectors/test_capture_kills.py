"""Changes of PostgreSQL are captured to a topic of three nodes while everything is killed at random."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.spark.killing import (
    PARTITIONS,
    RESTART_WITHIN_S,
    committed_in,
    driver_of,
    kill_at_random,
    rounds,
    victims_of,
)
from tests.waiting import until

from ottla.testing.postgres import Postgres, postgres_programs, running_postgres
from ottla.testing.process_cluster import ProcessCluster, running_processes


@contextmanager
def _changing(postgres: Postgres) -> Iterator[None]:
    """Each change has a number of its own. After a server has gone, it is asked which ones are there."""
    ended = threading.Event()

    def change() -> None:
        numbers = count()
        number = next(numbers)
        while not ended.is_set():
            try:
                with psycopg.connect(postgres.dsn, autocommit=True, connect_timeout=5) as connection:
                    while not ended.is_set():
                        done = connection.execute("SELECT 1 FROM ledger WHERE n = %s", (number,)).fetchone()
                        if done is None:
                            connection.execute("INSERT INTO ledger VALUES (%s)", (number,))
                        number = next(numbers)
                        time.sleep(0.01)
            except psycopg.OperationalError:
                time.sleep(0.2)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _captured(cluster: ProcessCluster) -> list[int]:
    return [json.loads(value)["n"] for value in committed_in(cluster)]


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    if postgres_programs() is None:
        pytest.skip("there is no PostgreSQL server on this machine")
    with running_postgres() as server:
        yield server


@pytest.mark.parametrize("kills", rounds(4, 100))
@pytest.mark.timeout(1200)
def test_every_change_is_captured_exactly_once(tmp_path: Path, own_postgres: Postgres, kills: int) -> None:
    postgres = own_postgres

    def kill_postgres(chance: random.Random) -> None:
        postgres.kill()
        time.sleep(chance.uniform(0, 2))
        postgres.start()

    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE ledger (n bigint PRIMARY KEY)")
    with running_processes(tmp_path, 3, min_insync_replicas=2, transaction_state_log_min_isr=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("out", PARTITIONS, 3)])["out"].result(60)
        driver = driver_of(cluster, tmp_path, postgres.dsn, "pipeline/connectors/capturing_driver")
        try:
            with _changing(postgres):
                kinds = victims_of(driver, cluster) | {"postgres": kill_postgres}
                seed = kill_at_random(kinds, kills, driver)
            with psycopg.connect(postgres.dsn) as connection:
                made = [n for (n,) in connection.execute("SELECT n FROM ledger")]
            until(lambda: len(_captured(cluster)) >= len(made), driver.output, within_s=RESTART_WITHIN_S)
        finally:
            driver.stop()
        found = Counter(_captured(cluster))
        lost, doubled = [n for n in made if n not in found], [n for n, times in found.items() if times > 1]
        assert (lost[:5], doubled[:5], len(found)) == ([], [], len(made)), seed
        print(f"{len(made)} changes, {driver.starts} starts of the driver, {driver.last_commit + 1} micro-batches")
