"""UpdateFeatures: other levels for the features that the cluster has finalised. All updates of a request, or none."""

from typing import Final

from ottla.metadata.controller.features import SUPPORTED
from ottla.metadata.controller.requests import FeatureUpdate, UpdateFeatures, UpgradeType
from ottla.metadata.controller.result import ApiError, ControllerResult, Refused
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.errors import ErrorCode

# The levels of metadata.version that write what lower ones cannot read: there is no way back below one.
_NEW_FORMATS: Final = (7, 8, 11, 13, 14, 15, 17, 23, 30)


def update_features(request: UpdateFeatures, image: MetadataImage) -> ControllerResult[None] | Refused:
    levels = {update.name: update for update in request.updates}
    records = []
    for update in levels.values():
        if (wrong := _wrong_with(update, image)) is not None:
            message = f"The update failed for all features since the following feature had an error: {wrong}"
            return Refused(ApiError(ErrorCode.invalid_update_version, message))
        if update.level != image.features.get(update.name, 0):
            records.append(FeatureLevelRecord(name=update.name, feature_level=update.level))
    return ControllerResult(None, () if request.validate_only else tuple(records))


def _wrong_with(update: FeatureUpdate, image: MetadataImage) -> str | None:
    reason = _why_not(update, image.features.get(update.name, 0), image)
    if reason is not None:
        return f"Invalid update version {update.level} for feature {update.name}. {reason}"
    return _why_no_way_back(update, image.features.get(update.name, 0))


def _why_not(update: FeatureUpdate, now: int, image: MetadataImage) -> str | None:
    if update.type is UpgradeType.UNKNOWN:
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    supported = SUPPORTED.get(update.name)
    if supported is None:
        return "Local controller does not support this feature."
    if not supported.low <= update.level <= supported.high:
        return f"Local controller only supports versions {supported.low}-{supported.high}"
    for broker in image.brokers.values():
        low, high = broker.features.get(update.name, (0, 0))
        if not low <= update.level <= high:
            return f"Broker {broker.id} only supports versions {low}-{high}"
    if update.level < now and update.type is UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.level > now and update.type is not UpgradeType.UPGRADE:
        return "Can't downgrade to a newer version."
    return None


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
