"""`ottla up` with several nodes: what the data folder has, ports, formatting, and the supervisor over it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.cli.output import count, note
from ottla.cli.supervise import layout as layouts
from ottla.cli.supervise.layout import Layout
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.cli.pid_file import PidFile
    from ottla.model.config import BrokerConfig


class Prepared(NamedTuple):
    layout: Layout
    configs: dict[int, BrokerConfig]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{node.port}" for node in self.layout.brokers)


def chosen_layout(folder: Path, brokers: int | None, controllers: int | None) -> Layout | None:
    """What the folder has, grown if that is asked for, or a new one; None for a single node as ever."""
    there = layouts.load(folder)
    if there is None:
        if brokers is None:
            if controllers is not None:
                raise OttlaError("--controllers needs --brokers: how many brokers shall there be?")
            return None
        if (folder / "meta.properties").exists():
            raise OttlaError(
                f"{folder} holds a single node, which keeps its metadata alone. `ottla up` without --brokers starts "
                "it; for a cluster give another --data"
            )
        return layouts.new_layout(_new_cluster_id(), brokers, controllers)
    if controllers is not None and controllers != there.own_controllers:
        raise OttlaError(
            f"this cluster has {count(there.own_controllers, 'controller')} of their own, and {controllers} were asked "
            "for: which nodes are voters was settled when it was made"
        )
    return there if brokers is None else there.with_brokers(brokers)


def prepare(
    folder: Path, layout: Layout, first_port: int, metrics_port: int | None, given: Mapping[str, str], host: str
) -> Prepared:
    """Ports that are free, configs that are right; and all of it written down."""
    from ottla.cli.up import warn_unknown
    from ottla.model.config import broker_config

    if refused := sorted(_OWN & given.keys()):
        raise OttlaError(f"--set {refused[0]}: each node of a cluster has its own, which is chosen for it")
    layout, told = layouts.ports(layout, first_port, host)
    for line in told:
        note(line)
    where = {name: f"--set {name}" for name in given}
    configs = {}
    for number, node in enumerate(layout.nodes):
        values = layouts.settings(layout, node, folder, host)
        if metrics_port is not None:
            values["ottla.metrics.listener"] = f"{host}:{metrics_port and metrics_port + number}"
        configs[node.id] = broker_config(values | dict(given), where)
    warn_unknown(configs[layout.nodes[0].id], where)
    layouts.store(folder, layout)
    return Prepared(layout, configs)


_OWN: Final = {"node.id", "broker.id", "process.roles", "listeners", "controller.quorum.voters", "log.dirs", "log.dir"}


def supervise(folder: Path, prepared: Prepared, pid_file: PidFile, on_started: Callable[[], None]) -> None:
    """Returns when all nodes have stopped. Must be called before anything has started a thread or an event loop."""
    import ottla.broker.run  # noqa: F401  # so that all nodes have it from the start
    from ottla.cli.format_dirs import format_folders
    from ottla.cli.supervise.screen import Screen
    from ottla.cli.supervise.supervisor import Supervisor

    screen = Screen()

    def started() -> None:
        on_started()
        screen.is_live = True

    def format_if_new(config: BrokerConfig) -> None:
        """Also of a node whose folder was lost or taken away while the others ran."""
        format_folders(config, prepared.layout.cluster_id, ignore_formatted=True)

    Supervisor(folder, prepared.layout, prepared.configs, screen.show, pid_file.close, format_if_new).run(started)


def _new_cluster_id() -> str:
    import random

    from ottla.env.randomness import SeededRandom
    from ottla.model.ids import random_uuid, uuid_text

    return uuid_text(random_uuid(SeededRandom(random.SystemRandom())))
