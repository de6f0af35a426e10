"""What the configs of the tier change."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.tier.tiered import tiered_node
from tests.waiting import until

from ottla.broker.broker_part import open_tier
from ottla.broker.tier.manager import _Places
from ottla.broker.tier.metrics import Counts
from ottla.broker.tier.reads import TierReads
from ottla.broker.tier.settings import metadata_topic, store_place
from ottla.env.backoff import Backoff
from ottla.env.executor import PoolExecutor
from ottla.model.config.broker import broker_config, standalone
from ottla.model.config_error import ConfigError
from ottla.model.errors import ErrorCode
from ottla.model.names import TopicPartition
from ottla.replica.partition import Isolation

NODE = standalone("/data", 9092)
PARTITION: Any = SimpleNamespace(key=TopicPartition("t", 0))


def node_with(**settings: str) -> Any:
    config = broker_config(NODE | {name.replace("_", "."): value for name, value in settings.items()})
    return cast(Any, SimpleNamespace(config=config, env=SimpleNamespace(executor=PoolExecutor())))


def test_where_the_store_is() -> None:
    given = {"rsm.config.url": "s3://bucket", "rsm.config.aws.region": "eu"}
    assert store_place(broker_config(NODE | given)) == ("s3://bucket", {"aws_region": "eu"})
    other = {"remote.log.storage.manager.impl.prefix": "my.", "my.url": "memory:///"}
    assert store_place(broker_config(NODE | given | other)) == ("memory:///", {})
    with pytest.raises(ConfigError, match=r"rsm\.config\.url"):
        store_place(broker_config(NODE))


def test_how_the_metadata_topic_is_created() -> None:
    given = {"rlmm.config.remote.log.metadata.topic.num.partitions": "7"}
    assert metadata_topic(broker_config(NODE | given)).num_partitions == 7
    other = {"remote.log.metadata.manager.impl.prefix": "my.", "my.remote.log.metadata.topic.num.partitions": "3"}
    made = metadata_topic(broker_config(NODE | given | other))
    assert made.num_partitions == 3
    assert dict(made.configs)["flush.messages"] == "1"  # what it tells of may be on no disk any more


@pytest.mark.parametrize(
    ("name", "value"), [("num.partitions", "many"), ("num.partitions", "0"), ("retention.ms", "-2")]
)
def test_a_node_does_not_start_with_a_metadata_topic_that_cannot_be(name: str, value: str) -> None:
    name = f"my.remote.log.metadata.topic.{name}"
    given = {"remote.log.metadata.manager.impl.prefix": "my.", "remote.log.storage.system.enable": "true", name: value}
    with pytest.raises(ConfigError, match=name):
        open_tier(node_with(**given))


@pytest.mark.parametrize(
    "name", ["remote.log.manager.copier.thread.pool.size", "remote.log.manager.expiration.thread.pool.size"]
)
@pytest.mark.parametrize("size", [1, 2])
def test_so_many_are_worked_on_at_a_time(name: str, size: int) -> None:
    async def scenario() -> None:
        places, at_work = _Places(name, node_with(**{name: str(size)})), 0
        most = 0

        async def work() -> None:
            nonlocal at_work, most
            async with places:
                at_work += 1
                most = max(most, at_work)
                await asyncio.sleep(0.001)
                at_work -= 1

        await asyncio.gather(*(work() for _ in range(5)))
        assert most == size

    asyncio.run(scenario())


def test_reads_are_bounded() -> None:
    async def scenario() -> None:
        node = node_with(
            ottla_remote_cache_bytes="2000000", remote_log_reader_threads="3", remote_log_reader_max_pending_tasks="2"
        )
        reads = TierReads(node, cast(Any, None), cast(Any, None), defaultdict(Counts))
        assert (reads.chunks._most_bytes(), reads.chunks._reads_at_once()) == (2_000_000, 3)
        reads.pending = 2
        refused = await reads.read(PARTITION, 0, 1, Isolation.READ_UNCOMMITTED, at_least_one=True)
        assert refused.code is ErrorCode.kafka_storage_error

    asyncio.run(scenario())


def test_rounds_and_rests_are_as_configured(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "remote_log_manager_task_interval_ms": 20,
        "remote_log_manager_task_retry_backoff_ms": 30,
        "remote_log_manager_task_retry_backoff_max_ms": 70,
        "remote_log_manager_task_retry_jitter": "0.1",
    }
    with tiered_node(tmp_path, **settings) as running:
        tier = running.node.tier
        assert tier is not None
        assert tier._backoff == Backoff(30, 70, 0.1)
        rounds = tier.rounds
        until(lambda: tier.rounds > rounds + 5, within_s=10)
