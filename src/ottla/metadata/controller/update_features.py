"""UpdateFeatures: other levels for the features that the cluster has finalised. All updates of a request, or none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.metadata.controller import min_isr
from ottla.metadata.controller.features import ELR_VERSION, KRAFT_VERSION, MIN_ISR, REGISTERS_CONTROLLERS
from ottla.metadata.controller.requests import FeatureUpdate, UpdateFeatures, UpgradeType
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import METADATA_VERSION, MetadataImage, VersionRange
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import ErrorCode

# The levels of metadata.version that write what lower ones cannot read: there is no way back below one.
_NEW_FORMATS: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30)


# What a level of a feature needs of others.
_NEEDS: Final = {(ELR_VERSION, 1): (METADATA_VERSION, 23)}  # 4.0-IV1
_UNKNOWN: Final = VersionRange(0, 0)


def update_features(
    request: UpdateFeatures, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[None] | Refused:
    updates = {update.name: update for update in request.updates}
    levels = {**image.features, **{name: update.level for name, update in updates.items()}}
    records: list[MetadataRecord] = []
    for update in updates.values():
        if (wrong := _wrong_with(update, levels, image, settings)) is not None:
            message = f"The update failed for all features since the following feature had an error: {wrong}"
            return Refused(ApiError(ErrorCode.invalid_update_version, message))
        if update.name != KRAFT_VERSION and update.level != image.features.get(update.name, 0):
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    # Last, as it cannot be taken back: the quorum puts it into the log itself, among its own records.
    if KRAFT_VERSION in updates and (wrong := _of_quorum(updates[KRAFT_VERSION], request, settings)) is not None:
        return Refused(ApiError(ErrorCode.invalid_update_version, wrong))
    if levels.get(ELR_VERSION, 0) > 0 and ELR_VERSION in updates:
        records[:0] = min_isr.safety_records(image, settings.configs.inherited(MIN_ISR) or "1")
    return ControllerResult(None, () if request.validate_only else tuple(records))


def _of_quorum(update: FeatureUpdate, request: UpdateFeatures, settings: ControllerSettings) -> str | None:
    if update.level == settings.quorum.kraft_version:
        return None
    if settings.quorum.upgrade_kraft_version(update.level, validate_only=request.validate_only):
        return None
    return (
        "The update failed for all features since the following feature had an error: Invalid upgrade of "
        f"{KRAFT_VERSION} to {update.level} because not all of the voters support it"
    )


def _wrong_with(
    update: FeatureUpdate, levels: Mapping[str, int], image: MetadataImage, settings: ControllerSettings
) -> str | None:
    is_of_quorum = update.name == KRAFT_VERSION
    now = settings.quorum.kraft_version if is_of_quorum else image.features.get(update.name, 0)
    reason = _why_not(update, now, image, settings)
    if reason is None and is_of_quorum and update.level < now:
        reason = "Can't downgrade the version of this feature."
    if reason is None:
        reason = _what_it_lacks(update, levels)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    return _why_no_way_back(update, now)


def _why_not(update: FeatureUpdate, now: int, image: MetadataImage, settings: ControllerSettings) -> str | None:
    if update.type is UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    if (reason := _who_cannot(update, image, settings)) is not None:
        return reason
    if update.level < now and update.type is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > now and update.type is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


def _who_cannot(update: FeatureUpdate, image: MetadataImage, settings: ControllerSettings) -> str | None:
    """This controller first, then every broker, fenced ones too, and every other controller."""
    me = f"Local controller {settings.node_id}"
    supported: list[tuple[str, Mapping[str, VersionRange]]] = [(me, settings.supported)]
    supported += ((f"Broker {broker.id}", broker.features) for broker in image.brokers.values())
    supported += (
        (f"Controller {controller.id}", controller.features)
        for controller in image.controllers.values()
        if controller.id != settings.node_id
    )
    if update.name not in settings.supported:
        return f"{supported[0][0]} does not support this feature."
    for who, features in supported:
        low, high = features.get(update.name, _UNKNOWN)
        if not low <= update.level <= high:
            return f"{who} only supports versions {low}-{high}" if high else f"{who} does not support this feature."
    for voter in settings.static_voters if image.metadata_version >= REGISTERS_CONTROLLERS else ():
        if voter not in image.controllers and voter != settings.node_id:
            return f"controller {voter} has not registered, and may not support this feature"
    return None


def _what_it_lacks(update: FeatureUpdate, levels: Mapping[str, int]) -> str | None:
    needs = _NEEDS.get((update.name, update.level))
    if needs is None or levels.get(needs[0], 0) >= needs[1]:
        return None
    return f"{update.name} could not be set to {update.level} because it depends on {needs[0]} level {needs[1]}"


def _why_no_way_back(update: FeatureUpdate, now: int) -> str | None:
    if update.name != METADATA_VERSION or not any(update.level < level <= now for level in _NEW_FORMATS):
        return None
    unsafe = update.type is UpgradeType.UNSAFE_DOWNGRADE
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    return f"Unsupported metadata.version downgrade from {now} to {update.level}. {reason}"
