"""Changes of PostgreSQL are captured to a topic of three nodes while everything is killed at random."""

from __future__ import annotations

import json
import os
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
from tests.spark.test_kills import PARTITIONS, RESTART_WITHIN_S, committed_in, driver_of, strike, wait_for_progress
from tests.waiting import until

from ottla.testing.postgres import Postgres
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


MANY = int(os.environ.get("OTTLA_KILLS", 100))


@pytest.mark.parametrize("kills", [4, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])])
@pytest.mark.timeout(1200)
def test_every_change_is_captured_exactly_once(tmp_path: Path, postgres: Postgres, kills: int) -> None:
    seed = int(os.environ.get("OTTLA_KILL_SEED", random.randrange(1 << 30)))
    chance = random.Random(seed)
    kinds = ["driver", "worker", "broker", "postgres"]
    victims = [*kinds, *chance.choices(kinds, k=kills - 4)]
    chance.shuffle(victims)
    print(f"OTTLA_KILL_SEED={seed}: {Counter(victims)}")
    with psycopg.connect(postgres.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE ledger (n bigint PRIMARY KEY)")
    with running_processes(tmp_path, 3, min_insync_replicas=2, transaction_state_log_min_isr=2) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic("out", PARTITIONS, 3)])["out"].result(60)
        driver = driver_of(cluster, tmp_path, postgres.dsn, "pipeline/connectors/capturing_driver")
        try:
            with _changing(postgres):
                for number, victim in enumerate(victims):
                    wait_for_progress(driver)
                    time.sleep(chance.uniform(0, 3))
                    if victim == "postgres":
                        postgres.kill()
                        time.sleep(chance.uniform(0, 2))
                        postgres.start()
                    else:
                        strike(victim, driver, cluster, chance)
                    print(f"{number + 1} of {kills}: {victim}, batch {driver.last_commit}", flush=True)
                wait_for_progress(driver)
            with psycopg.connect(postgres.dsn) as connection:
                made = [n for (n,) in connection.execute("SELECT n FROM ledger")]
            until(lambda: len(_captured(cluster)) >= len(made), driver.output, within_s=RESTART_WITHIN_S)
        finally:
            driver.stop()
        found = Counter(_captured(cluster))
        lost, doubled = [n for n in made if n not in found], [n for n, times in found.items() if times > 1]
        assert (lost[:5], doubled[:5], len(found)) == ([], [], len(made)), f"seed {seed}"
        print(f"{len(made)} changes, {driver.starts} starts of the driver, {driver.last_commit + 1} micro-batches")
