"""ControllerRegistration (key 70): where this controller is found and what it can do."""

from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import RegisterController


def _ask(request: RegisterController) -> dict[str, Any]:
    return {
        "controller_id": request.controller_id,
        "incarnation_id": request.incarnation_id,
        "zk_migration_ready": False,
        "listeners": [end._asdict() for end in request.endpoints],
        "features": [
            {"name": name, "min_supported_version": low, "max_supported_version": high}
            for name, (low, high) in request.features
        ],
    }


RPC: Final = Rpc(RegisterController, 70, Lane.LIFE, _ask, lambda _request, _answer: None)
