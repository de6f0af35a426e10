"""Changes of configs. Those of a resource are checked with what it has already, and stand or fall together."""

from collections.abc import Mapping

from ottla.env.slices import breathe
from ottla.metadata.controller import min_isr, tiering
from ottla.metadata.controller.requests import AlterConfigs, AlterOp, ConfigChange, IncrementalAlterConfigs
from ottla.metadata.controller.result import MAX_RECORDS, NO_ERROR, ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.metadata.records.config_record import ConfigRecord
from ottla.model.errors import ErrorCode

Outcomes = tuple[tuple[ConfigResource, ApiError], ...]


def record(resource: ConfigResource, name: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)


def incremental_alter_configs(
    request: IncrementalAlterConfigs, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[Outcomes] | Refused:
    records: list[ConfigRecord] = []
    outcomes: list[tuple[ConfigResource, ApiError]] = []
    for resource, changes in request.changes:
        wanted = _wanted(resource, changes, image, settings)
        _alter(resource, wanted, image, settings, records, outcomes)
    return _result(outcomes, records, image, request.validate_only)


def alter_configs(
    request: AlterConfigs, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[Outcomes] | Refused:
    records: list[ConfigRecord] = []
    outcomes: list[tuple[ConfigResource, ApiError]] = []
    for resource, values in request.configs:
        wanted: dict[str, str | None] = dict.fromkeys(image.config(resource))
        wanted.update(values)
        _alter(resource, wanted, image, settings, records, outcomes)
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


def _alter(
    resource: ConfigResource,
    wanted: Mapping[str, str | None] | ApiError,
    image: MetadataImage,
    settings: ControllerSettings,
    records: list[ConfigRecord],
    outcomes: list[tuple[ConfigResource, ApiError]],
) -> None:
    breathe()
    if isinstance(wanted, ApiError):
        outcomes.append((resource, wanted))
        return
    if (wrong := min_isr.what_is_wrong(resource, wanted, image)) is not None:
        outcomes.append((resource, wrong))
        return
    now = image.config(resource)
    after = {name: value for name, value in {**now, **wanted}.items() if value is not None}
    if (wrong := settings.configs.check(resource, after) or tiering.what_is_wrong(resource, now, after)) is not None:
        outcomes.append((resource, wrong))
        return
    if resource.type == ResourceType.TOPIC and resource.name not in image.topic_ids:
        message = f"The topic '{resource.name}' does not exist."
        outcomes.append((resource, ApiError(ErrorCode.unknown_topic_or_partition, message)))
        return
    outcomes.append((resource, NO_ERROR))
    for name, value in sorted(wanted.items()):
        # KAFKA-14136: a broker's config is written even if it is the same, so that the broker reads its files again
        if now.get(name) != value or resource.type == ResourceType.BROKER:
            records.append(record(resource, name, value))
