"""Prepares the folders of a simulated node, as `ottla storage format --ignore-formatted` does those of a real one."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from ottla.env.ports import Env
from ottla.metadata import bootstrap, meta_properties
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, bootstrap_records
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.meta_properties import MetaProperties
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.model.config import BrokerConfig
from ottla.raft import initial_voters
from ottla.raft.voters import VoterSet


def format_folders(
    env: Env,
    config: BrokerConfig,
    cluster_id: str | None = None,
    voters: VoterSet | None = None,
    features: Mapping[str, int] | None = None,
) -> None:
    """Before a first start, after one that was cut off, or with a new disk. Without an id, a cluster of its own.

    `voters` are those that a quorum which can change begins with, `features` the levels if not the newest.
    """
    folder, disk, now_ms = config.metadata_log_dir, env.disk, env.clock.now_ms()
    meta = meta_properties.load(disk, folder)
    if meta is None:
        disk.make_dirs(folder)
        records = bootstrap_records()
        if features is not None:
            records = tuple(FeatureLevelRecord(name=name, feature_level=level) for name, level in features.items())
        bootstrap.store(disk, folder, records, (features or {}).get(METADATA_VERSION, LATEST_METADATA_VERSION), now_ms)
        directory_id = meta_properties.random_uuid(env.random)
        if voters is not None:
            initial_voters.store(disk, folder, voters, now_ms)
            me = voters.nodes.get(config.node_id)
            directory_id = me.key.directory_id if me is not None else directory_id
        cluster_id = cluster_id or meta_properties.uuid_text(meta_properties.random_uuid(env.random))
        meta = MetaProperties(cluster_id, config.node_id, directory_id)
        meta_properties.store(disk, folder, meta, now_ms)
    for other in config.log_dirs:
        with suppress(OSError):  # a disk that does not answer: the node starts without it
            if other != folder and meta_properties.load(disk, other) is None:
                disk.make_dirs(other)
                theirs = MetaProperties(meta.cluster_id, config.node_id, meta_properties.random_uuid(env.random))
                meta_properties.store(disk, other, theirs, now_ms)
