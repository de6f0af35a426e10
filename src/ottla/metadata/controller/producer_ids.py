"""Producer ids are handed to brokers in blocks, so that InitProducerId seldom has to wait for the controller."""

from typing import Final

from ottla.metadata.controller.brokers import check_epoch
from ottla.metadata.controller.requests import AllocateProducerIds, ProducerIdBlock
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.producer_ids_record import ProducerIdsRecord
from ottla.model.errors import ErrorCode

BLOCK_SIZE: Final = 1000
_MAX_ID: Final = 2**63 - 1


def allocate_producer_ids(
    request: AllocateProducerIds, image: MetadataImage
) -> ControllerResult[ProducerIdBlock] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    first = image.next_producer_id
    if first > _MAX_ID - BLOCK_SIZE:
        message = "Exhausted all producerIds as the next block's end producerId has exceeded the int64 type limit"
        return Refused(ApiError(ErrorCode.unknown_server_error, message))
    record = ProducerIdsRecord(broker_id=broker.id, broker_epoch=broker.epoch, next_producer_id=first + BLOCK_SIZE)
    return ControllerResult(ProducerIdBlock(first, BLOCK_SIZE), (record,))
