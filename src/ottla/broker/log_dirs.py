"""The log dirs of a node at its start: whose they are, and which of them can be used."""

from __future__ import annotations

import logging
import os.path
from dataclasses import dataclass
from uuid import UUID

from ottla.env.ports import Env
from ottla.log.log_dir import LogDir
from ottla.metadata import meta_properties
from ottla.metadata.meta_properties import MetaProperties
from ottla.model.config import BrokerConfig
from ottla.model.errors import OttlaError

_log = logging.getLogger("ottla.broker")


@dataclass(frozen=True, slots=True)
class OpenedDirs:
    cluster_id: str
    metadata_directory_id: UUID
    online: list[LogDir]
    offline: list[str]


def absolute(path: str) -> str:
    """A log dir's path as clients see and name it."""
    return os.path.abspath(path)


def open_log_dirs(env: Env, config: BrokerConfig) -> OpenedDirs:
    """A disk that does not answer keeps nobody from starting, unless the metadata is on it or no other is left.

    A folder that is not formatted, or is somebody else's, does: a mix-up here would mix up data.
    """
    owner = _owner(env, config, config.metadata_log_dir)
    opened = OpenedDirs(owner.cluster_id, owner.directory_id, [], [])
    for folder in config.log_dirs:
        try:
            meta = _load(env, folder)
            _check_owner(folder, meta, config, opened.cluster_id)
            opened.online.append(LogDir(env, folder, meta.directory_id))
        except (OSError, meta_properties.Damaged) as error:
            _log.error("%s is offline: %s. Its partitions are not served before it is repaired.", folder, error)
            opened.offline.append(folder)
    if not opened.online:
        raise OttlaError(
            f"none of the log dirs can be used: {', '.join(opened.offline)}. Repair one, then start again."
        )
    if config.metadata_log_dir in opened.offline:
        raise OttlaError(f"{config.metadata_log_dir}, where the metadata log lies, cannot be used. Repair it first.")
    return opened


def _owner(env: Env, config: BrokerConfig, folder: str) -> MetaProperties:
    try:
        meta = _load(env, folder)
    except OSError as error:
        raise OttlaError(f"{folder}, where the metadata log lies, cannot be read: {error}. Repair it first.") from error
    _check_owner(folder, meta, config, meta.cluster_id)
    return meta


def _load(env: Env, folder: str) -> MetaProperties:
    meta = meta_properties.load(env.disk, folder)
    if meta is None:
        raise OttlaError(
            f"{folder} is not formatted: there is no meta.properties in it. Run `ottla storage format`, or "
            "`ottla up`, which does it by itself."
        )
    return meta


def _check_owner(folder: str, meta: MetaProperties, config: BrokerConfig, cluster_id: str) -> None:
    if meta.node_id != config.node_id:
        raise OttlaError(
            f"{folder} belongs to node {meta.node_id}, this is node {config.node_id}. Correct node.id or log.dirs."
        )
    if meta.cluster_id != cluster_id:
        raise OttlaError(f"{folder} belongs to cluster {meta.cluster_id}, other folders to {cluster_id}")
