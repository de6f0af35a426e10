"""Changes of configs. Those of a resource are checked with what it has already, and stand or fall together."""

from collections.abc import Iterable, Mapping
from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller import cordoning, min_isr, tiering
from ottla.metadata.controller.requests import AlterConfigs, AlterOp, ConfigChange, IncrementalAlterConfigs
from ottla.metadata.controller.result import MAX_RECORDS, NO_ERROR, ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.metadata.records.config_record import ConfigRecord
from ottla.model.errors import ErrorCode

Outcomes = tuple[tuple[ConfigResource, ApiError], ...]
_LONGEST: Final = 32_767
_TOO_LONG: Final = ApiError(
    ErrorCode.invalid_config,
    f"The configuration value cannot be added because it exceeds the maximum value size of {_LONGEST} bytes.",
)


def record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def incremental_alter_configs(
    request: IncrementalAlterConfigs, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[Outcomes] | Refused:
    records: list[ConfigRecord] = []
    outcomes: list[tuple[ConfigResource, ApiError]] = []
    for resource, changes in request.changes:
        wanted = _wanted(resource, changes, image, settings)
        _alter(resource, wanted, request.is_looked_at, image, settings, records, outcomes)
    return _result(outcomes, records, image, request.validate_only)


def alter_configs(
    request: AlterConfigs, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[Outcomes] | Refused:
    records: list[ConfigRecord] = []
    outcomes: list[tuple[ConfigResource, ApiError]] = []
    for resource, values in request.configs:
        wanted: dict[str, str | None] = dict.fromkeys(image.config(resource))
        wanted.update(values)
        _alter(resource, wanted, request.is_looked_at, image, settings, records, outcomes)
    return _result(outcomes, records, image, request.validate_only)


def _result(
    outcomes: list[tuple[ConfigResource, ApiError]],
    records: list[ConfigRecord],
    image: MetadataImage,
    validate_only: bool,
) -> ControllerResult[Outcomes] | Refused:
    if len(records) > MAX_RECORDS:
        return Refused(ApiError(ErrorCode.policy_violation, "Unable to perform excessively large batch operation."))
    return ControllerResult(tuple(outcomes), () if validate_only else (*records, *min_isr.cleared(records, image)))


def _wanted(
    resource: ConfigResource, changes: tuple[ConfigChange, ...], image: MetadataImage, settings: ControllerSettings
) -> dict[str, str | None] | ApiError:
    if len({change.name for change in changes}) != len(changes):
        return ApiError(ErrorCode.invalid_request, "Error due to duplicate config keys")
    nulls = [change.name for change in changes if change.op is not AlterOp.DELETE and change.value is None]
    if nulls:
        return ApiError(ErrorCode.invalid_request, f"Null value not supported for : {','.join(nulls)}")
    wanted: dict[str, str | None] = {}
    for name, op, value in changes:
        if op in (AlterOp.APPEND, AlterOp.SUBTRACT):
            if not settings.configs.is_list(resource, name):
                message = f"Can't {op.name} to key {name} because its type is not LIST."
                return ApiError(ErrorCode.invalid_config, message)
            now = image.config(resource).get(name)
            now = settings.configs.default(resource, name) if now is None else now
            wanted[name] = edited(now or "", op, value or "")
        else:
            wanted[name] = None if op is AlterOp.DELETE else value
    return wanted


def edited(now: str, op: AlterOp, value: str) -> str:
    """A list with something added to it or taken out of it."""
    items = [item for item in now.split(",") if item]
    for item in value.split(","):
        if op is AlterOp.APPEND and item not in items:
            items.append(item)
        elif op is AlterOp.SUBTRACT and item in items:
            items.remove(item)
    return ",".join(items)


def too_long(values: Iterable[str | None]) -> ApiError | None:
    return _TOO_LONG if any(value is not None and len(value) > _LONGEST for value in values) else None


def _missing(resource: ConfigResource, image: MetadataImage, settings: ControllerSettings) -> ApiError | None:
    """What the configs are for. A node need not be a broker; its name was checked."""
    if resource.type == ResourceType.TOPIC and resource.name not in image.topic_ids:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"The topic '{resource.name}' does not exist.")
    if resource.type == ResourceType.BROKER and resource.name:
        number = int(resource.name)
        known = (image.brokers, image.controllers, settings.static_voters, (settings.node_id,))
        if not any(number in nodes for nodes in known):
            return ApiError(ErrorCode.broker_id_not_registered, f"No node with id {number} found.")
    return None


def _alter(
    resource: ConfigResource,
    wanted: Mapping[str, str | None] | ApiError,
    is_looked_at: bool,
    image: MetadataImage,
    settings: ControllerSettings,
    records: list[ConfigRecord],
    outcomes: list[tuple[ConfigResource, ApiError]],
) -> None:
    breathe()
    if isinstance(wanted, ApiError):
        outcomes.append((resource, wanted))
        return
    now = image.config(resource)
    after = {name: value for name, value in {**now, **wanted}.items() if value is not None}
    wrong = (
        min_isr.what_is_wrong(resource, wanted, image)
        or cordoning.what_is_wrong(resource, wanted, image, is_looked_at=is_looked_at)
        or too_long(wanted.values())
        or settings.configs.check(resource, after)
        or tiering.what_is_wrong(resource, now, after)
        or _missing(resource, image, settings)
    )
    if wrong is not None:
        outcomes.append((resource, wrong))
        return
    outcomes.append((resource, NO_ERROR))
    for name, value in sorted(wanted.items()):
        # KAFKA-14136: a broker's config is written even if it is the same, so that the broker reads its files again
        if now.get(name) != value or resource.type == ResourceType.BROKER:
            records.append(record(resource, name, value))
