"""Configs of the controller. What it does by them is shown by tests/metadata: heartbeats, placement."""

from pathlib import Path

import pytest

from ottla.broker.controller_settings import controller_settings
from ottla.broker.run import real_env
from ottla.metadata.controller.hosts import host_of
from ottla.metadata.controller.requests import BalanceLeaders, ElectUncleanLeaders, FenceBroker
from ottla.metadata.controller.soft_state import BrokerPulse, SoftState
from ottla.metadata.image import EMPTY_IMAGE
from ottla.model.config import broker_config
from ottla.testing.node import running_node


def due_after(ms: float, **configs: str) -> set[str]:
    """What a controller with one broker does by itself after that time."""
    values = {name.replace("_", "."): value for name, value in configs.items()}
    required = {"process.roles": "broker,controller", "node.id": "1", "log.dirs": "/nowhere"}
    config = broker_config({**required, **values})
    now = [0.0]
    soft = SoftState(EMPTY_IMAGE, controller_settings(real_env(), "id", lambda: config), lambda: now[0])
    soft.brokers[2] = BrokerPulse(epoch=5, registered_at=5, seen_ms=0.0)
    now[0] = ms
    return {type(request).__name__ for request in soft.due()}


FENCE, BALANCE, UNCLEAN = FenceBroker.__name__, BalanceLeaders.__name__, ElectUncleanLeaders.__name__


@pytest.mark.parametrize(
    ("ms", "configs", "due"),
    [
        (8_999, {}, set()),
        (9_001, {}, {FENCE}),
        (300_001, {}, {FENCE, BALANCE, UNCLEAN}),
        (301, {"broker_session_timeout_ms": "300"}, {FENCE}),
        (2_001, {"leader_imbalance_check_interval_seconds": "2"}, {BALANCE}),
        (300_001, {"auto_leader_rebalance_enable": "false"}, {FENCE, UNCLEAN}),
        (101, {"unclean_leader_election_interval_ms": "100"}, {UNCLEAN}),
    ],
)
def test_what_the_controller_does_by_itself_has_its_configs(ms: float, configs: dict[str, str], due: set[str]) -> None:
    assert due_after(ms, **configs) == due


def test_a_broker_says_which_machine_it_runs_on(tmp_path: Path) -> None:
    with running_node(tmp_path / "one", ottla_host="rack-7/unit-3") as node:
        assert host_of(node.node.image.brokers[1]) == "rack-7/unit-3"
    with running_node(tmp_path / "other") as node:
        assert host_of(node.node.image.brokers[1]) == "127.0.0.1"
