"""Three brokers and one remote tier: leaders change, followers come late, and all read the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.tier.tiered import QUICK, TIERED, TOPIC, consume, produce
from tests.waiting import until

from ottla.replica.partition import Partition
from ottla.testing.cluster import Cluster, running_cluster

BROKERS = {i: "broker,controller" for i in (1, 2, 3)}


@pytest.fixture
def three(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    settings: dict[str, Any] = {name: str(value).lower() for name, value in QUICK.items()}
    settings |= {"rsm_config_url": f"file://{tmp_path}/tier", "replica_fetch_backoff_ms": "50"}
    settings |= getattr(request, "param", {})
    with running_cluster(tmp_path, 3, BROKERS, **settings) as cluster:
        yield cluster


def bootstrap(cluster: Cluster) -> str:
    return ",".join(f"127.0.0.1:{cluster.ports[i]}" for i in cluster.nodes)


def replicas(cluster: Cluster) -> dict[int, Partition]:
    found = {i: node.replicas.by_name.get((TOPIC, 0)) for i, node in cluster.nodes.items()}
    return {i: partition for i, partition in found.items() if partition is not None}


def leader(cluster: Cluster) -> int:
    return cluster.until(lambda: next((i for i, each in replicas(cluster).items() if each.is_leader), 0))


def address(cluster: Cluster) -> str:
    return f"127.0.0.1:{cluster.ports[leader(cluster)]}"


def create(cluster: Cluster, **configs: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap(cluster)})
    config = TIERED | {name.replace("_", "."): value for name, value in configs.items()}
    for future in admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)]).values():
        future.result()
    cluster.until(lambda: len(replicas(cluster)) == 3)


def until_local_from(cluster: Cluster, offset: int) -> None:
    until(
        lambda: all(each.log.local_start_offset >= offset for each in replicas(cluster).values()),
        lambda: {i: each.log.local_start_offset for i, each in replicas(cluster).items()},
    )


def test_all_replicas_keep_only_what_is_young_and_a_new_leader_goes_on(three: Cluster) -> None:
    create(three)
    end = produce(address(three), 0, 10)
    until_local_from(three, end)
    assert consume(bootstrap(three), 0, end) == list(range(end))
    three.stop(leader(three))
    assert consume(bootstrap(three), 0, end) == list(range(end))
    end = produce(address(three), end, 6)
    until_local_from(three, end)
    assert consume(bootstrap(three), 0, end) == list(range(end))


def test_a_follower_that_has_lost_its_disk_begins_after_what_is_in_the_tier(three: Cluster) -> None:
    create(three)
    end = produce(address(three), 0, 10)
    until_local_from(three, end)
    away = next(i for i in three.nodes if i != leader(three))
    three.stop(away)
    shutil.rmtree(three.folder / str(away) / f"{TOPIC}-0")
    end = produce(address(three), end, 1)
    three.start(away)
    log = three.until(lambda: replicas(three).get(away)).log
    until(lambda: log.end_offset == end, lambda: f"{log.start_offset} {log.local_start_offset} {log.end_offset}")
    led = replicas(three)[leader(three)].log
    assert (log.start_offset, log.epochs.starts) == (led.start_offset, led.epochs.starts)
    assert log.local_start_offset > 0
    until(lambda: away in replicas(three)[leader(three)].leadership.isr)
    three.stop(leader(three))
    assert consume(bootstrap(three), 0, end) == list(range(end))


@pytest.mark.parametrize("three", [{"follower_fetch_last_tiered_offset_enable": "true"}], indirect=True)
def test_if_it_is_wanted_it_leaves_all_that_is_in_the_tier_to_the_tier(three: Cluster) -> None:
    create(three, local_retention_ms="-1", local_retention_bytes="4000")
    end = produce(address(three), 0, 20)
    led = replicas(three)[leader(three)].log
    until(lambda: led.tiered_to >= end - 20 and 0 < led.local_start_offset < led.tiered_to - 10)
    away = next(i for i in three.nodes if i != leader(three))
    three.stop(away)
    shutil.rmtree(three.folder / str(away) / f"{TOPIC}-0")
    three.start(away)
    log = three.until(lambda: replicas(three).get(away)).log
    until(lambda: log.end_offset == end, lambda: f"{log.start_offset} {log.local_start_offset} {log.end_offset}")
    led = replicas(three)[leader(three)].log
    assert log.local_start_offset > led.local_start_offset
    assert (log.start_offset, log.epochs.starts) == (led.start_offset, led.epochs.starts)
    until(lambda: away in replicas(three)[leader(three)].leadership.isr)
    three.stop(leader(three))
    assert consume(bootstrap(three), 0, end) == list(range(end))
