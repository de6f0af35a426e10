"""From registration records to the images of brokers and controllers."""

from dataclasses import replace
from typing import Any
from uuid import UUID

from ottla.metadata.image import DIRECTORY_MIGRATING, BrokerImage, ControllerImage, Endpoint, VersionRange


def broker(record: Any) -> BrokerImage:
    """From a RegisterBrokerRecord."""
    cordoned = record.cordoned_log_dirs
    return BrokerImage(
        id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        endpoints=_endpoints(record),
        features=_features(record),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        directories=_directories(record.log_dirs),
        cordoned_directories=None if cordoned is None else _directories(cordoned),
    )


def changed(before: BrokerImage, record: Any) -> BrokerImage:
    """A BrokerRegistrationChangeRecord on top: in its fields 0 means no change, 1 yes, -1 no."""
    return replace(
        before,
        fenced=before.fenced if record.fenced == 0 else record.fenced > 0,
        in_controlled_shutdown=before.in_controlled_shutdown or record.in_controlled_shutdown > 0,
        directories=_directories(record.log_dirs) if record.log_dirs else before.directories,
        cordoned_directories=(
            before.cordoned_directories if record.cordoned_log_dirs is None else _directories(record.cordoned_log_dirs)
        ),
    )


def controller(record: Any) -> ControllerImage:
    """From a RegisterControllerRecord."""
    return ControllerImage(record.controller_id, record.incarnation_id, _endpoints(record), _features(record))


def _endpoints(record: Any) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(end.name, end.host, end.port, end.security_protocol) for end in record.end_points)


def _features(record: Any) -> dict[str, VersionRange]:
    return {
        feature.name: VersionRange(feature.min_supported_version, feature.max_supported_version)
        for feature in record.features
    }


def _directories(given: tuple[UUID | None, ...]) -> tuple[UUID, ...]:
    return tuple(directory or DIRECTORY_MIGRATING for directory in given)
