"""Configs of replication, each seen in what is asked of leaders or held back."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from dataclasses import replace
from uuid import UUID

import pytest
from tests.log.given import TOPIC_ID, Machine

from ottla.broker.dynamic_config import DynamicConfig
from ottla.broker.fetchers import Fetchers
from ottla.broker.replication_quotas import FollowerQuota, LeaderQuota, Rate
from ottla.broker.run import real_env
from ottla.metadata.image import (
    EMPTY_IMAGE,
    METADATA_VERSION,
    BrokerImage,
    ConfigResource,
    Endpoint,
    MetadataImage,
    ResourceType,
)
from ottla.model.config import broker_config
from ottla.model.names import TopicPartition
from ottla.replica.fetch_wire import Limits
from ottla.replica.fetcher import FetchSettings
from ottla.replica.partition import Leadership, Partition


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def a_config(**settings: object) -> DynamicConfig:
    names = {name.replace("_", "."): str(value) for name, value in settings.items()}
    return DynamicConfig(broker_config({"node.id": "1", "process.roles": "broker,controller", **names}))


def an_image(**configs: str) -> MetadataImage:
    given = {name.replace("_", "."): value for name, value in configs.items()}
    return replace(EMPTY_IMAGE, configs={ConfigResource(ResourceType.TOPIC, "orders"): given})


def a_replica(machine: Machine, leader: int, number: int = 0) -> Partition:
    partition = Partition(machine.env, 1, TopicPartition("orders", number), TOPIC_ID, machine.open(), 0)
    partition.lead_or_follow(Leadership(leader, 3, (leader,), (1, 2)))
    return partition


def fetchers(machine: Machine, config: DynamicConfig) -> Fetchers:
    quota = FollowerQuota(machine.env, config, lambda: EMPTY_IMAGE)
    return Fetchers(machine.env, config, lambda: EMPTY_IMAGE, lambda: 7, quota)


def test_what_is_asked_of_leaders_is_as_configured(machine: Machine) -> None:
    config = a_config(
        replica_fetch_max_bytes=1000, replica_fetch_wait_max_ms=123, replica_fetch_min_bytes=5,
        replica_fetch_response_max_bytes=9000, replica_fetch_backoff_ms=250, replica_socket_timeout_ms=4000,
    )  # fmt: skip
    assert fetchers(machine, config)._settings() == FetchSettings(1000, Limits(123, 5, 9000), 0.25, 4.0)


@pytest.mark.parametrize(("metadata_version", "wanted"), [(25, False), (28, False), (29, True), (30, True)])
def test_new_followers_begin_after_the_tier_once_every_leader_can_say_where_that_is(
    machine: Machine, metadata_version: int, wanted: bool
) -> None:
    image = replace(EMPTY_IMAGE, features={METADATA_VERSION: metadata_version})
    for config, expected in ((a_config(follower_fetch_last_tiered_offset_enable="true"), wanted), (a_config(), False)):
        quota = FollowerQuota(machine.env, config, lambda: image)
        assert Fetchers(machine.env, config, lambda: image, lambda: 7, quota)._settings().after_tier is expected


def test_partitions_of_a_leader_are_dealt_to_several_fetchers(machine: Machine) -> None:
    def used(count: int) -> int:
        async def follow() -> int:
            following = fetchers(machine, a_config(num_replica_fetchers=count))
            for number in range(20):
                following.follow(a_replica(machine, leader=2, number=number))
            found = len(following._fetchers)
            await following.stop()
            return found

        found: int = machine.wait_for(follow)
        return found

    assert (used(1), used(3)) == (1, 3)


def test_a_leader_is_lost_for_a_moment_after_its_connection_ended(machine: Machine) -> None:
    async def follow() -> list[frozenset[int]]:
        with socket.create_server(("127.0.0.1", 0)) as server:
            endpoint = Endpoint("PLAINTEXT", "127.0.0.1", server.getsockname()[1], 0)
            leader = BrokerImage(2, 1, UUID(int=2), (endpoint,), {}, None, False, False, ())
            config = a_config(replica_fetch_backoff_ms=50)
            env = real_env()
            quota = FollowerQuota(env, config, lambda: EMPTY_IMAGE)
            image = replace(EMPTY_IMAGE, brokers={2: leader})
            following = Fetchers(env, config, lambda: image, lambda: 7, quota)
            following.follow(a_replica(machine, leader=2))
            first, _ = await asyncio.to_thread(server.accept)
            while_connected = following.lost_leaders
            first.close()
            while not following.lost_leaders:
                await asyncio.sleep(0.001)
            lost = following.lost_leaders
            second, _ = await asyncio.to_thread(server.accept)
            while following.lost_leaders:
                await asyncio.sleep(0.001)
            await following.stop()
            second.close()
            return [while_connected, lost, following.lost_leaders]

    assert asyncio.run(follow()) == [frozenset(), frozenset({2}), frozenset()]


def test_a_rate_counts_the_last_eleven_seconds_and_gives_no_credit_for_more() -> None:
    rate = Rate()
    rate.count(100.5, 1100)
    assert rate.value(100.5) == rate.value(101.5) == 1100
    assert rate.value(104.5) == pytest.approx(1100 / 4)
    rate.count(104.5, 900)
    assert rate.value(108.5) == pytest.approx(2000 / 8)
    assert rate.value(112) == pytest.approx(900 / 7.5)
    assert rate.value(116) == 0


def held(quota: LeaderQuota, partition: Partition) -> bool:
    return quota.holds_back(partition, 2)


@pytest.mark.parametrize(
    ("replicas", "rate", "is_held"),
    [
        ("*", 100, True),
        ("0:1", 100, True),
        ("1:2,0:1", 100, True),
        ("0:2,1:1", 100, False),
        ("", 100, False),
        ("*", 1_000_000, False),
    ],
)
def test_leaders_that_topics_name_hold_back_followers(
    machine: Machine, replicas: str, rate: int, is_held: bool
) -> None:
    """As kafka-reassign-partitions.sh sets it: the list of leaders has who gives, that of followers who takes."""
    image = an_image(leader_replication_throttled_replicas=replicas)
    quota = LeaderQuota(machine.env, a_config(leader_replication_throttled_rate=rate), lambda: image)
    partition = a_replica(machine, leader=1)
    quota.count(partition, 50_000)
    assert held(quota, partition) == is_held
    partition.lead_or_follow(Leadership(1, 3, (1, 2), (1, 2)))
    assert not held(quota, partition), "never one that is in sync"


def test_followers_hold_back_what_topics_name(machine: Machine) -> None:
    image = an_image(follower_replication_throttled_replicas="0:1")
    partition = a_replica(machine, leader=2)
    for rate, is_held in ((100, True), (1_000_000, False)):
        quota = FollowerQuota(machine.env, a_config(follower_replication_throttled_rate=rate), lambda: image)
        quota.count(partition, 50_000)
        assert quota.holds_back(partition) == is_held
