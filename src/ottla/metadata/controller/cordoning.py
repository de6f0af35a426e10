"""`cordoned.log.dirs` names folders, and only the broker itself knows which it has (KIP-1066).

So one that a client asks directly, with no broker that has looked at the request, can only be told to name fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.metadata.controller.directories import CORDONING
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.model.errors import ErrorCode

_CORDONED: Final = "cordoned.log.dirs"
_TOO_EARLY: Final = ApiError(
    ErrorCode.invalid_config,
    f"The {_CORDONED} configuration value cannot be set because it requires metadata.version >= 4.3-IV0",
)
_NOT_FEWER: Final = ApiError(
    ErrorCode.invalid_config,
    f"When updating {_CORDONED} via controllers,  the new value must be a subset of the current configuration value.",
)


def what_is_wrong(
    resource: ConfigResource, wanted: Mapping[str, str | None], image: MetadataImage, *, is_looked_at: bool
) -> ApiError | None:
    if resource.type != ResourceType.BROKER or _CORDONED not in wanted:
        return None
    if image.metadata_version < CORDONING:
        return _TOO_EARLY
    now = image.config(resource).get(_CORDONED, "")
    return None if is_looked_at or _folders(wanted[_CORDONED] or "") <= _folders(now) else _NOT_FEWER


def _folders(value: str) -> set[str]:
    return {folder.strip() for folder in value.split(",")} if value.strip() else set()
