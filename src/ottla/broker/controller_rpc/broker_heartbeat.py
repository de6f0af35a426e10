"""BrokerHeartbeat (key 63): this broker lives, knows the metadata so far, and wants to be fenced, unfenced or gone.

Versions: 1 names log dirs that have failed (KIP-858), 2 those that get no new partitions (KIP-1066).
"""

from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import BrokerHeartbeat, HeartbeatReply


def _ask(request: BrokerHeartbeat) -> dict[str, Any]:
    return {
        "broker_id": request.broker_id,
        "broker_epoch": request.broker_epoch,
        "current_metadata_offset": request.metadata_offset,
        "want_fence": request.want_fence,
        "want_shut_down": request.want_shut_down,
        "offline_log_dirs": request.offline_directories,
        "cordoned_log_dirs": request.cordoned_directories,
    }


def _reply(_: BrokerHeartbeat, answer: Any) -> HeartbeatReply:
    return HeartbeatReply(answer.is_caught_up, answer.is_fenced, answer.should_shut_down)


RPC: Final = Rpc(BrokerHeartbeat, 63, Lane.LIFE, _ask, _reply)
