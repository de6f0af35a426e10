"""Formatting the folders of a node: `meta.properties` in each, `bootstrap.checkpoint` beside the metadata log."""

from __future__ import annotations

import random
from pathlib import Path

from ottla.env.clock import SystemClock
from ottla.env.disk import PosixDisk
from ottla.env.randomness import SeededRandom
from ottla.metadata import bootstrap, meta_properties
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, bootstrap_records
from ottla.metadata.meta_properties import Damaged, MetaProperties
from ottla.model.config import BrokerConfig
from ottla.model.errors import OttlaError
from ottla.model.ids import parse_uuid, random_uuid, uuid_text


def folders(config: BrokerConfig) -> tuple[str, ...]:
    """The metadata log's folder and those of the logs, each once."""
    return tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))


def format_folders(config: BrokerConfig, cluster_id: str, *, ignore_formatted: bool = False) -> list[str]:
    """Gives the folders that were formatted now; OttlaError if one already is, or is of another cluster or node."""
    _check_id(cluster_id)
    disk, now_ms = PosixDisk(), SystemClock().now_ms()
    blank = []
    for folder in folders(config):
        meta = _look(folder)
        if isinstance(meta, Exception):
            if ignore_formatted:
                continue  # a disk that does not answer: the node starts without it
            raise OttlaError(f"cannot format {folder}: {meta}") from meta
        if meta is None:
            blank.append(folder)
            continue
        _check_owner(folder, meta, cluster_id, config.node_id)
        if not ignore_formatted:
            raise OttlaError(f"{folder} is already formatted; --ignore-formatted leaves such folders as they are")
    source = SeededRandom(random.SystemRandom())
    try:
        for folder in blank:
            disk.make_dirs(folder)
            if folder == config.metadata_log_dir:
                bootstrap.store(disk, folder, bootstrap_records(), LATEST_METADATA_VERSION, now_ms)
            # the last file: a folder without it counts as blank, so a format that was cut off is done again
            meta = MetaProperties(cluster_id, config.node_id, random_uuid(source))
            meta_properties.store(disk, folder, meta, now_ms)
    except OSError as error:
        raise OttlaError(f"cannot format {folder}: {error.strerror}") from error
    return blank


def format_if_new(config: BrokerConfig) -> None:
    """For `ottla up`: a first start gets a cluster of its own, a new disk joins the one that is there."""
    found = (meta for folder in folders(config) if not isinstance(meta := _look(folder), Exception))
    cluster_id = next((meta.cluster_id for meta in found if meta is not None), None)
    format_folders(
        config, cluster_id or uuid_text(random_uuid(SeededRandom(random.SystemRandom()))), ignore_formatted=True
    )


def check_formatted(config: BrokerConfig, file: Path) -> None:
    for folder in folders(config):
        if _look(folder) is None:
            raise OttlaError(
                f"{folder} is not formatted. Once, before the first start: "
                f"ottla storage format -t $(ottla storage random-uuid) -c {file}"
            )


def _look(folder: str) -> MetaProperties | OSError | Damaged | None:
    """Whose a folder is; None if nobody's; an error if its disk does not say."""
    try:
        return meta_properties.load(PosixDisk(), folder)
    except (OSError, Damaged) as error:
        return error


def _check_owner(folder: str, meta: MetaProperties, cluster_id: str, node_id: int) -> None:
    if meta.cluster_id != cluster_id:
        raise OttlaError(f"{folder} belongs to cluster {meta.cluster_id}, not {cluster_id}; give an empty folder")
    if meta.node_id != node_id:
        raise OttlaError(f"{folder} belongs to node {meta.node_id}, but node.id is {node_id}; give an empty folder")


def _check_id(cluster_id: str) -> None:
    try:
        parse_uuid(cluster_id)
    except ValueError as error:
        raise OttlaError(f"{error}; `ottla storage random-uuid` makes one") from None
