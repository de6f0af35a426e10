"""What the configs say about the controller."""

from collections.abc import Callable, Mapping

from ottla.broker.software import THIS
from ottla.env.ports import Env
from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import VersionRange
from ottla.model.config import BrokerConfig


def controller_settings(
    env: Env,
    cluster_id: str,
    current: Callable[[], BrokerConfig],
    supported: Mapping[str, VersionRange] = THIS.features,
) -> ControllerSettings:
    config = current()
    balances = config.get("auto.leader.rebalance.enable")
    return ControllerSettings(
        cluster_id,
        env.random,
        config_rules(current),
        config.num_partitions,
        config.default_replication_factor,
        config.get_int("internal.metadata.max.batch.size.in.bytes"),
        node_id=config.node_id,
        supported=supported,
        static_voters=tuple(int(voter.partition("@")[0]) for voter in config.controller_quorum_voters),
        session_timeout_ms=config.broker_session_timeout_ms,
        balance_every_ms=config.get_int("leader.imbalance.check.interval.seconds") * 1000 if balances else None,
        unclean_every_ms=config.get_int("unclean.leader.election.interval.ms"),
    )
