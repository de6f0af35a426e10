"""AllocateProducerIds (key 67): a block of producer ids for this broker alone."""

from typing import Any, Final

from ottla.broker.controller_rpc.rpc import Lane, Rpc
from ottla.metadata.controller.requests import AllocateProducerIds, ProducerIdBlock


def _ask(request: AllocateProducerIds) -> dict[str, Any]:
    return {"broker_id": request.broker_id, "broker_epoch": request.broker_epoch}


def _reply(_: AllocateProducerIds, answer: Any) -> ProducerIdBlock:
    return ProducerIdBlock(int(answer.producer_id_start), int(answer.producer_id_len))


RPC: Final = Rpc(AllocateProducerIds, 67, Lane.PARTITIONS, _ask, _reply)
