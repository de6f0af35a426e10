"""A broker of which one log dir has failed goes on with the others."""

from __future__ import annotations

from datetime import timedelta
from errno import EIO
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.broker.apis.asking import ALTER_PARTITION_REASSIGNMENTS, ask
from tests.broker.test_replication import BROKERS, TOPIC

from ottla.model.config import BrokerConfig, broker_config
from ottla.model.errors import ErrorCode
from ottla.testing.cluster import Cluster, running_cluster


def test_a_replica_that_is_moved_to_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Cluster.config

    def with_two_dirs(cluster: Cluster, i: int) -> BrokerConfig:
        static = plain(cluster, i).layers.static
        return broker_config({**static, "log.dirs": f"{cluster.folder}/{i},{cluster.folder}/{i}-second"})

    monkeypatch.setattr(Cluster, "config", with_two_dirs)
    with running_cluster(tmp_path, 3, BROKERS) as cluster:
        address = f"127.0.0.1:{cluster.ports[1]}"
        admin = AdminClient({"bootstrap.servers": address})
        for future in admin.create_topics([NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1]])]).values():
            future.result()
        node = cluster.nodes[3]
        cluster.on_loop(lambda: node.logs.dirs[-1].fail(OSError(EIO, "it is broken")))

        answer = ask(
            address, ALTER_PARTITION_REASSIGNMENTS, 1, timeout=timedelta(seconds=30),
            allow_replication_factor_change=True,
            topics=[{"name": TOPIC, "partitions": [{"partition_index": 0, "replicas": [1, 3]}]}],
        )  # fmt: skip
        assert answer.responses[0].partitions[0].error_code is ErrorCode.none

        partition = cluster.until(lambda: cluster.nodes[1].replicas.by_name.get((TOPIC, 0)))
        cluster.until(lambda: set(partition.leadership.isr) == {1, 3} and not partition.is_reassigning, within=20)
