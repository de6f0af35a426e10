"""Three real nodes that the tests of this folder share; those that kill and restart leave all running."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.testing.process_cluster import ProcessCluster, running_processes


@pytest.fixture(scope="package")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProcessCluster]:
    folder = tmp_path_factory.mktemp("cluster")
    settings: dict[str, Any] = {
        "min_insync_replicas": 2,
        "default_replication_factor": 3,
        "group_initial_rebalance_delay_ms": 0,
    }
    with running_processes(folder, 3, offsets_topic_num_partitions=6, **settings) as cluster:
        yield cluster


@pytest.fixture
def whole(cluster: ProcessCluster) -> Iterator[ProcessCluster]:
    """For tests that take nodes away: afterwards all are back, however the test went."""
    try:
        yield cluster
    finally:
        away = [i for i in cluster.ids if not cluster.is_running(i)]
        if away:
            cluster.start(*away)
