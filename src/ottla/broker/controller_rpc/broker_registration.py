"""BrokerRegistration (key 62): this broker is here, or here again.

Versions: 1 says whether the broker migrates from ZooKeeper (none does), 2 names its log dirs (KIP-858), 3 the epoch
that it had when it last stopped cleanly (KIP-966), 4 may offer features from level 0 on.
"""

from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import RegisterBroker


def _ask(request: RegisterBroker) -> dict[str, Any]:
    return {
        "broker_id": request.broker_id,
        "cluster_id": request.cluster_id,
        "incarnation_id": request.incarnation_id,
        "listeners": [end._asdict() for end in request.endpoints],
        "features": [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in request.features
        ],
        "rack": request.rack,
        "is_migrating_zk_broker": False,
        "log_dirs": request.log_dirs,
        "previous_broker_epoch": request.previous_broker_epoch,
    }


RPC: Final = Rpc(RegisterBroker, 62, Lane.LIFE, _ask, lambda _, answer: int(answer.broker_epoch))
