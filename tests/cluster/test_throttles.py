"""A replica that is moved under a throttle comes slowly, and at full speed without it."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic
from tests.broker.apis.asking import ALTER_PARTITION_REASSIGNMENTS, ask
from tests.cluster.clients import a_name, admin, isr_is_full, leaders, produce
from tests.waiting import PATIENCE_S, until

from ottla.model.errors import ErrorCode
from ottla.testing.process_cluster import ProcessCluster

RATE = 200_000
SIZE = 10_000_000


def set_config(cluster: ProcessCluster, kind: str, name: str, **values: str) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for key, value in values.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for done in admin(cluster.bootstrap).incremental_alter_configs([resource]).values():
        done.result(PATIENCE_S)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_move_is_slow_until_the_throttle_goes(whole: ProcessCluster, side: str) -> None:
    topic, through = a_name("throttled"), admin(whole.bootstrap)
    made = NewTopic(topic, replica_assignment=[[1, 2]], config={"min.insync.replicas": "1"})
    through.create_topics([made])[topic].result(PATIENCE_S)
    until(lambda: leaders(whole, topic) == [1])
    produce(whole.bootstrap, topic, [b"x" * 10_000] * (SIZE // 10_000))

    set_config(whole, "topic", topic, **{f"{side}_replication_throttled_replicas": "*"})
    for node in whole.ids:
        set_config(whole, "broker", str(node), **{f"{side}_replication_throttled_rate": str(RATE)})
    row = {"partition_index": 0, "replicas": [1, 2, 3]}
    answer = ask(
        whole.address(1), ALTER_PARTITION_REASSIGNMENTS, 1, timeout=timedelta(seconds=30),
        allow_replication_factor_change=True, topics=[{"name": topic, "partitions": [row]}],
    )  # fmt: skip
    assert answer.error_code is ErrorCode.none and answer.responses[0].partitions[0].error_code is ErrorCode.none

    until(lambda: arrived(whole.data(3) / f"{topic}-0") > 0)
    time.sleep(3)
    came = arrived(whole.data(3) / f"{topic}-0")
    assert 0 < came < SIZE / 2  # at full speed all of it is there in a moment

    for node in whole.ids:
        set_config(whole, "broker", str(node), **{f"{side}_replication_throttled_rate": str(1 << 40)})
    until(lambda: isr_is_full(whole, topic) and arrived(whole.data(3) / f"{topic}-0") >= SIZE)
    through.delete_topics([topic])[topic].result(PATIENCE_S)


def arrived(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.log")) if folder.exists() else 0
