"""Partitions that nobody writes to cost their followers next to nothing, however many there are."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
from tests.cluster.clients import create_topic, isr_is_full
from tests.waiting import at_best, until

from ottla.testing.process_cluster import ProcessCluster, running_processes

SECONDS = 4.0


def cpu_share(cluster: ProcessCluster) -> float:
    """Of one core, by the busiest node."""
    nodes = [psutil.Process(cluster.pid(i)) for i in cluster.ids]

    def used() -> list[float]:
        return [sum(node.cpu_times()[:2]) for node in nodes]

    before = used()
    time.sleep(SECONDS)
    return max(now - then for now, then in zip(used(), before, strict=True)) / SECONDS


def test_a_thousand_partitions_that_rest_cost_followers_next_to_nothing(tmp_path: Path) -> None:
    with running_processes(tmp_path, 3) as cluster:
        empty = at_best(lambda: cpu_share(cluster), 0.03)
        topic = create_topic(cluster, partitions=1000)
        until(lambda: isr_is_full(cluster, topic))
        time.sleep(6)  # checkpoints of what was made are written
        full = at_best(lambda: cpu_share(cluster), empty + 0.02)
        print(f"of a core: {empty:.3f} without partitions, {full:.3f} with 1,000 on each of three nodes")
        assert full < empty + 0.05
