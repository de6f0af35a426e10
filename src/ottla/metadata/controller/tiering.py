"""Turning the remote tier of a topic off takes what is there with it, and so has to be said twice (KIP-950)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.errors import ErrorCode

_ENABLE: Final = "remote.storage.enable"
_DELETE: Final = "remote.log.delete.on.disable"
_NOT_WITHOUT_DELETING: Final = ApiError(
    ErrorCode.invalid_config,
    "It is invalid to disable remote storage without deleting remote data. If you want to keep the remote data and "
    "turn to read only, please set `remote.storage.enable=true,remote.log.copy.disable=true`. If you want to disable "
    "remote storage and delete all remote data, please set "
    "`remote.storage.enable=false,remote.log.delete.on.disable=true`.",
)


def what_is_wrong(resource: ConfigResource, now: Mapping[str, str], after: Mapping[str, str]) -> ApiError | None:
    """Configs are those of the topic itself, which were checked one by one."""
    if resource.type != ResourceType.TOPIC or not _is_on(now, _ENABLE) or _is_on(after, _ENABLE):
        return None
    return None if _is_on(after, _DELETE) else _NOT_WITHOUT_DELETING


def _is_on(configs: Mapping[str, str], name: str) -> bool:
    return configs.get(name, "false").strip().lower() == "true"
