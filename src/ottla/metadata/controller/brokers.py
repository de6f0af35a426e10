"""Registration of brokers and controllers, fencing and unfencing."""

from typing import Any

from ottla.metadata.controller.features import KRAFT_VERSION, REGISTERS_CONTROLLERS
from ottla.metadata.controller.partition_change import DIRECTORIES
from ottla.metadata.controller.partition_changes import InDoubtError, PartitionChanges
from ottla.metadata.controller.requests import (
    BeginControlledShutdown,
    FenceBroker,
    FenceDeadBrokers,
    RegisterBroker,
    RegisterController,
    UnfenceBroker,
    UnregisterBroker,
)
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import METADATA_VERSION, RESERVED_DIRECTORIES, BrokerImage, MetadataImage, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.register_broker_record import BrokerEndpoint, BrokerFeature, RegisterBrokerRecord
from ottla.model.errors import ErrorCode

_DUPLICATE = ApiError(
    ErrorCode.duplicate_broker_registration,
    "Another broker is registered with that broker id. If the broker was recently restarted this should "
    "self-resolve once the heartbeat manager expires the broker's session.",
)
_FENCE = 1
_UNFENCE = -1
_IN_CONTROLLED_SHUTDOWN = 1


def register_broker(
    request: RegisterBroker, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[int] | Refused:
    """A new incarnation starts fenced, in an epoch that is the offset at which the batch of its registration begins."""
    existing = image.brokers.get(request.broker_id)
    if error := _check_registration(request, existing, image, settings, soft):
        return Refused(error)
    if existing is not None and existing.incarnation_id == request.incarnation_id:
        record = _registration(request, image, existing.epoch, existing.fenced, existing.in_controlled_shutdown)
        return ControllerResult(existing.epoch, (record,))
    epoch = image.offset + 1
    # What the earlier incarnation led is led by nobody until the new one is unfenced.
    partitions = PartitionChanges(image, settings, soft)
    ended_well = existing is not None and request.previous_broker_epoch == existing.epoch
    doubted = frozenset[int]()
    if existing is not None and not existing.fenced and existing.id == settings.node_id:
        doubted = soft.unheard(image) - {existing.id}
    try:
        changes = (partitions.without_broker if ended_well else partitions.after_crash)(request.broker_id, doubted)
    except InDoubtError:
        return Refused(_DUPLICATE)
    return ControllerResult(epoch, (*changes, _registration(request, image, epoch, True, False)), is_whole=False)


def unfence_broker(
    request: UnfenceBroker, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[None] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    records = unfenced(broker, PartitionChanges(image, settings, soft)) if broker.fenced else ()
    return ControllerResult(None, tuple(records), is_whole=False)


def fence_broker(
    request: FenceBroker, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[None] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    soft.end_session(broker.id)
    records = () if broker.fenced else fenced(broker, PartitionChanges(image, settings, soft))
    return ControllerResult(None, tuple(records), is_whole=False)


def fence_dead_brokers(
    request: FenceDeadBrokers, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[int | None]:
    """All in one decision, so that no leader is elected that is dead as well, and the last leader stays known."""
    found = [
        image.brokers[broker_id] for broker_id, epoch in request.incarnations if is_registered(image, broker_id, epoch)
    ]
    dead = [broker for broker in found if not broker.fenced]
    ids = [broker.id for broker in dead]
    doubted = [broker.id for broker in image.brokers.values() if not broker.fenced and broker.id not in request.alive]
    try:
        changes = PartitionChanges(image, settings, soft).without_dead(
            ids, [each for each in doubted if each not in ids]
        )
    except InDoubtError as error:
        return ControllerResult(error.broker_id)
    for broker in found:
        soft.end_session(broker.id)
    records = (*changes, *(_change(broker, fenced=_FENCE) for broker in dead))
    return ControllerResult(None, records, is_whole=False)


def is_registered(image: MetadataImage, broker_id: int, epoch: int) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.epoch == epoch


def begin_controlled_shutdown(
    request: BeginControlledShutdown, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[None] | Refused:
    broker = check_epoch(image, request.broker_id, request.broker_epoch)
    if isinstance(broker, Refused):
        return broker
    records = in_controlled_shutdown(broker, PartitionChanges(image, settings, soft))
    return ControllerResult(None, tuple(records), is_whole=False)


def fenced(broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    return [*changes.without_broker(broker.id), _change(broker, fenced=_FENCE)]


def unfenced(broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    return [_change(broker, fenced=_UNFENCE), *changes.with_broker(broker.id)]


def in_controlled_shutdown(broker: BrokerImage, changes: PartitionChanges) -> list[MetadataRecord]:
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(_change(broker, in_controlled_shutdown=_IN_CONTROLLED_SHUTDOWN))
    return [*records, *changes.without_broker(broker.id)]


def unregister_broker(
    request: UnregisterBroker, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[None] | Refused:
    """Also one that is alive, as in Kafka: its partitions are without it until it registers anew."""
    broker = image.brokers.get(request.broker_id)
    if broker is None:
        message = f"Broker ID {request.broker_id} is not currently registered"
        return Refused(ApiError(ErrorCode.broker_id_not_registered, message))
    # loaded here: hardly any node ever writes one
    from ottla.metadata.records.unregister_broker_record import UnregisterBrokerRecord

    changes = PartitionChanges(image, settings, soft).without_unregistered(broker.id)
    gone = UnregisterBrokerRecord(broker_id=broker.id, broker_epoch=broker.epoch)
    return ControllerResult(None, (*changes, gone), is_whole=False)


def register_controller(request: RegisterController, image: MetadataImage) -> ControllerResult[None] | Refused:
    if image.metadata_version < REGISTERS_CONTROLLERS:
        message = "The current MetadataVersion is too old to support controller registrations."
        return Refused(ApiError(ErrorCode.unsupported_version, message))
    # loaded here: of the other types every node writes some, of this one only a controller that starts
    from ottla.metadata.records.register_controller_record import (
        ControllerEndpoint,
        ControllerFeature,
        RegisterControllerRecord,
    )

    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=tuple(ControllerEndpoint(**end._asdict()) for end in request.endpoints),
        features=tuple(
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in request.features
        ),
    )
    return ControllerResult(None, (record,))


def check_epoch(image: MetadataImage, broker_id: int, epoch: int) -> BrokerImage | Refused:
    broker = image.brokers.get(broker_id)
    if broker is None:
        message = f"No broker registration found for broker id {broker_id}"
    elif broker.epoch != epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
    else:
        return broker
    return Refused(ApiError(ErrorCode.stale_broker_epoch, message))


def _check_registration(
    request: RegisterBroker,
    existing: BrokerImage | None,
    image: MetadataImage,
    settings: ControllerSettings,
    soft: SoftState,
) -> ApiError | None:
    if request.cluster_id != settings.cluster_id:
        message = f"Expected cluster ID {settings.cluster_id}, but got cluster ID {request.cluster_id}"
        return ApiError(ErrorCode.inconsistent_cluster_id, message)
    if (
        existing is not None
        and existing.incarnation_id != request.incarnation_id
        and request.is_remote
        and soft.has_session(existing.id, existing.epoch)
    ):
        return _DUPLICATE
    return _check_directories(request, image) or _check_features(request, image, settings)


def _check_directories(request: RegisterBroker, image: MetadataImage) -> ApiError | None:
    if image.metadata_version < DIRECTORIES:
        return None
    wrong = None
    if not request.log_dirs:
        wrong = "No directories specified in request"
    elif any(directory in RESERVED_DIRECTORIES for directory in request.log_dirs):
        wrong = "Reserved directory ID in request"
    elif len(set(request.log_dirs)) != len(request.log_dirs):
        wrong = "Duplicate directory ID in request"
    for other in image.brokers.values():
        for directory in request.log_dirs:
            if other.id != request.broker_id and directory in other.directories and wrong is None:
                wrong = f"Broker {other.id} is already registered with directory {directory}"
    return None if wrong is None else ApiError(ErrorCode.invalid_registration, wrong)


def _check_features(request: RegisterBroker, image: MetadataImage, settings: ControllerSettings) -> ApiError | None:
    """That of the quorum is among them, though it is not in the image."""
    offered = dict(request.features)
    levels = {**image.features, KRAFT_VERSION: settings.quorum.kraft_version}
    if METADATA_VERSION not in offered:
        message = "Request features do not contain 'metadata.version'"
        return ApiError(ErrorCode.invalid_registration, message)
    for name in dict.fromkeys((*offered, *levels)):
        finalised = levels.get(name, 0)
        low, high = offered.get(name, VersionRange(0, 0))
        if not low <= finalised <= high:
            return ApiError(
                ErrorCode.unsupported_version,
                f"Unable to register because the broker does not support finalized version {finalised} of {name}. "
                f"The broker wants a version between {low} and {high}, inclusive.",
            )
    return None


def _registration(
    request: RegisterBroker, image: MetadataImage, epoch: int, fenced: bool, in_controlled_shutdown: bool
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=request.broker_id,
        incarnation_id=request.incarnation_id,
        broker_epoch=epoch,
        end_points=tuple(BrokerEndpoint(**end._asdict()) for end in request.endpoints),
        features=tuple(
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in request.features
        ),
        rack=request.rack,
        fenced=fenced,
        in_controlled_shutdown=in_controlled_shutdown,
        log_dirs=request.log_dirs if image.metadata_version >= DIRECTORIES else (),
    )


def _change(broker: BrokerImage, **changes: Any) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.id, broker_epoch=broker.epoch, **changes)
