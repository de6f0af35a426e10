"""A node that stops, and what becomes of the partitions that it led; three nodes in this process."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.broker.apis.asking import CREATE_TOPICS, ask

from ottla.broker.node_state import NodeState
from ottla.testing.cluster import running_cluster

SHORT_SESSION: dict[str, Any] = {"broker_session_timeout_ms": 3000, "broker_heartbeat_interval_ms": 200}
ROLES = {1: "broker,controller", 2: "broker,controller", 3: "broker,controller"}


@pytest.mark.parametrize("is_enabled", [True, False])
def test_leaders_are_handed_over_if_that_is_wanted(tmp_path: Path, is_enabled: bool) -> None:
    enabled = str(is_enabled).lower()
    with running_cluster(tmp_path, 3, ROLES, controlled_shutdown_enable=enabled, **SHORT_SESSION) as cluster:
        goes = next(node for node in cluster.nodes.values() if not node.local_controller.is_active)
        stays = next(node for node in cluster.nodes.values() if node is not goes)
        own, others = goes.config.node_id, [i for i in cluster.ids if i != goes.config.node_id]
        topic = {
            "name": "led", "num_partitions": -1, "replication_factor": -1, "configs": [],
            "assignments": [{"partition_index": 0, "broker_ids": [own, *others]}],
        }  # fmt: skip
        ask(stays.address, CREATE_TOPICS, 7, topics=[topic], timeout=timedelta(seconds=30), validate_only=False)
        cluster.until(lambda: (led := goes.image.topic("led")) is not None and led.partitions[0].leader == own)
        seen: list[NodeState] = []
        assert goes.broker is not None
        lifecycle, node_hears = goes.broker.lifecycle, goes.broker.lifecycle.on_state

        def hear(state: NodeState) -> None:
            seen.append(state)
            node_hears(state)

        cluster.on_loop(lambda: setattr(lifecycle, "on_state", hear))
        cluster.stop(own)
        pending = [NodeState.PENDING_CONTROLLED_SHUTDOWN] if is_enabled else []
        assert seen == [*pending, NodeState.SHUTTING_DOWN]
        if is_enabled:  # before it ended, and all others know
            led = cluster.on_loop(lambda: stays.image.topic("led"))
            assert led is not None and led.partitions[0].leader in others
        cluster.until(lambda: (led := stays.image.topic("led")) is not None and led.partitions[0].leader in others)
