"""Formatting the folders of a node: `meta.properties` in each, `bootstrap.checkpoint` beside the metadata log."""

from __future__ import annotations

import random
from glob import glob
from os.path import isfile
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
from ottla.raft import initial_voters
from ottla.raft.initial_voters import a_voter, parse_initial_voters
from ottla.raft.quorum_config import listener_name
from ottla.raft.voters import VoterSet


def folders(config: BrokerConfig) -> tuple[str, ...]:
    """The metadata log's folder and those of the logs, each once."""
    return tuple(dict.fromkeys((config.metadata_log_dir, *config.log_dirs)))


def format_folders(
    config: BrokerConfig, cluster_id: str, *, voters: VoterSet | None = None, ignore_formatted: bool = False
) -> list[str]:
    """Gives the folders that were formatted now; OttlaError if one already is, or is of another cluster or node.

    `voters` are those of a quorum that can change (KIP-853); each of them knows the directory ids of all.
    """
    _check_id(cluster_id)
    _check_apart(config)
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
            directory_id = random_uuid(source)
            if folder == config.metadata_log_dir:
                bootstrap.store(disk, folder, bootstrap_records(), LATEST_METADATA_VERSION, now_ms)
                if voters is not None:
                    initial_voters.store(disk, folder, voters, now_ms)
                    me = voters.nodes.get(config.node_id)
                    directory_id = me.key.directory_id if me is not None else directory_id
            # the last file: a folder without it counts as blank, so a format that was cut off is done again
            meta = MetaProperties(cluster_id, config.node_id, directory_id)
            meta_properties.store(disk, folder, meta, now_ms)
    except OSError as error:
        raise OttlaError(f"cannot format {folder}: {error.strerror}") from error
    return blank


def chosen_voters(
    config: BrokerConfig, *, standalone: bool, none_initially: bool, initial: str | None
) -> VoterSet | None:
    """As Kafka's tool understands its options. None: static voters, or ones that this node will learn of."""
    chosen = [
        name
        for name, given in (
            ("--standalone", standalone),
            ("--no-initial-controllers", none_initially),
            ("--initial-controllers", initial is not None),
        )
        if given
    ]
    if len(chosen) > 1:
        raise OttlaError(f"{' and '.join(chosen)} exclude each other: give one")
    if config.controller_quorum_voters and (standalone or initial is not None):
        raise OttlaError(
            f"{chosen[0]} is for a quorum whose voters are in its log, and controller.quorum.voters names others. Take "
            "that line out, and set controller.quorum.bootstrap.servers instead."
        )
    if initial is not None:
        return parse_initial_voters(initial, listener_name(config))
    if standalone and not config.is_controller:
        raise OttlaError("--standalone is for a controller, and process.roles says that this is none")
    if standalone and config.listeners.controller:
        source = SeededRandom(random.SystemRandom())
        end = config.listeners.advertise_controller({}, lambda: "localhost")[0]
        if end.port == 0:
            raise OttlaError("--standalone is for a controller whose listener has a port of its own (see listeners)")
        return VoterSet.of((a_voter(config.node_id, random_uuid(source), end.name, end.host, end.port),))
    learns = bool(config.get("controller.quorum.bootstrap.servers")) and not config.controller_quorum_voters
    if config.is_controller and learns and not chosen:
        raise OttlaError(
            "controller.quorum.voters is not set on this controller, so say which voters the quorum begins with: "
            "--standalone, --initial-controllers, or --no-initial-controllers"
        )
    return None


def format_if_new(config: BrokerConfig) -> None:
    """For `ottla up`: a first start gets a cluster of its own, a new disk joins the one that is there."""
    found = (meta for folder in folders(config) if not isinstance(meta := _look(folder), Exception))
    cluster_id = next((meta.cluster_id for meta in found if meta is not None), None)
    format_folders(
        config, cluster_id or uuid_text(random_uuid(SeededRandom(random.SystemRandom()))), ignore_formatted=True
    )


def check_formatted(config: BrokerConfig, file: Path, cores: int = 1) -> None:
    _check_apart(config)
    for folder in folders(config):
        if _look(folder) is None:
            raise OttlaError(
                f"{folder} is not formatted. Once, before the first start: "
                f"ottla storage format -t $(ottla storage random-uuid) -c {file}"
                f"{f' --cores {cores}' if cores > 1 else ''}"
            )


def _look(folder: str) -> MetaProperties | OSError | Damaged | None:
    """Whose a folder is; None if nobody's; an error if its disk does not say."""
    try:
        return meta_properties.load(PosixDisk(), folder)
    except (OSError, Damaged) as error:
        return error


def _check_apart(config: BrokerConfig) -> None:
    """A folder `core-0` or `node-1` of another node inside this one's would be taken for a partition of no topic."""
    own = {Path(folder) for folder in folders(config)}
    for folder in own:
        # neither raises for a disk that has failed: the node starts without it
        others = {folder / Path(found).parent for found in glob(f"*-*/{meta_properties.FILE_NAME}", root_dir=folder)}
        if "-" in folder.name and isfile(folder.parent / meta_properties.FILE_NAME):
            others.add(folder.parent)
        for other in sorted(others - own):
            raise OttlaError(
                f"{folder} is for a node, and so is {other}: one must not be inside the other. If nodes were run here "
                "with --cores, give that again, and otherwise not; or choose another folder. Nothing was changed."
            )


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
