"""Which nodes a data folder has, with which roles and ports; kept in its file `cluster.json`.

Brokers are nodes 1 to N. Without controllers of their own the first three of them (the first alone of one or two) are
the quorum's voters too, for good: a broker that is added later is none. Controllers of their own are nodes 101, 102 ...
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from ottla.model.errors import OttlaError

FILE_NAME: Final = "cluster.json"
FIRST_CONTROLLER: Final = 101
MOST_BROKERS: Final = FIRST_CONTROLLER - 1
CONTROLLER_PORTS_AFTER: Final = 100
"""A controller listens so many ports above where the broker of its place does."""


@dataclass(frozen=True, slots=True)
class Place:
    """A node: what it does and where."""

    id: int
    is_broker: bool
    is_voter: bool
    port: int = 0
    controller_port: int = 0

    @property
    def roles(self) -> tuple[str, ...]:
        return (*(("broker",) if self.is_broker else ()), *(("controller",) if self.is_voter else ()))

    @property
    def folder_name(self) -> str:
        return f"node-{self.id}"


@dataclass(frozen=True, slots=True)
class Layout:
    cluster_id: str
    nodes: tuple[Place, ...]

    @property
    def brokers(self) -> tuple[Place, ...]:
        return tuple(node for node in self.nodes if node.is_broker)

    @property
    def voters(self) -> tuple[Place, ...]:
        return tuple(node for node in self.nodes if node.is_voter)

    @property
    def own_controllers(self) -> int:
        return sum(not node.is_broker for node in self.nodes)

    def node(self, number: int) -> Place:
        found = next((node for node in self.nodes if node.id == number), None)
        if found is None:
            raise OttlaError(f"there is no node {number}; there are {', '.join(str(node.id) for node in self.nodes)}")
        return found

    def with_brokers(self, number: int) -> Layout:
        """As many or more; fewer are refused, as one of them may hold the only copy of something."""
        there = len(self.brokers)
        if number < there:
            last = there
            raise OttlaError(
                f"this is a cluster of {there} brokers, and {number} were asked for. A broker is not just left out: it "
                f"may hold the only copy of a partition. Start all {there}, move everything away from it (`ottla "
                f"reassign plan --remove-broker {last} -f plan.json`, then `ottla reassign run plan.json`), and stop "
                f"it: `ottla node stop {last}`"
            )
        added = tuple(Place(each, is_broker=True, is_voter=False) for each in range(there + 1, number + 1))
        return replace(self, nodes=(*self.brokers, *added, *(node for node in self.nodes if not node.is_broker)))


def new_layout(cluster_id: str, brokers: int, controllers: int | None) -> Layout:
    voters = 0 if controllers else 1 if brokers < 3 else 3
    nodes = [Place(number, is_broker=True, is_voter=number <= voters) for number in range(1, brokers + 1)]
    nodes += [
        Place(FIRST_CONTROLLER + number, is_broker=False, is_voter=True) for number in range(controllers or 0)
    ]  # fmt: skip
    return Layout(cluster_id, tuple(nodes))


def load(folder: Path) -> Layout | None:
    file = folder / FILE_NAME
    try:
        content: Any = json.loads(file.read_text())
        return Layout(content["cluster_id"], tuple(Place(**node) for node in content["nodes"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OttlaError(f"cannot read {file}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError) as error:
        raise OttlaError(f"{file} cannot be read ({error}): it says which nodes the cluster has") from None


def store(folder: Path, layout: Layout) -> None:
    file = folder / FILE_NAME
    written = file.with_name(f"{FILE_NAME}.{os.getpid()}")
    content = {"cluster_id": layout.cluster_id, "nodes": [asdict(node) for node in layout.nodes]}
    try:
        written.write_text(json.dumps(content, indent=2) + "\n")
        written.replace(file)
    except OSError as error:
        raise OttlaError(f"cannot write {file}: {error.strerror}") from None


def copies(brokers: int) -> tuple[int, int]:
    """Replicas of internal and of new topics, and how many must be in sync for acks=all."""
    return min(brokers, 3), 2 if brokers >= 3 else 1


def settings(layout: Layout, node: Place, folder: Path, host: str) -> dict[str, str]:
    """The configs of a node."""
    replicas, in_sync = copies(len(layout.brokers))
    listeners = []
    if node.is_broker:
        listeners.append(f"PLAINTEXT://{host}:{node.port}")
    if node.is_voter:
        listeners.append(f"CONTROLLER://{host}:{node.controller_port}")
    return {
        "process.roles": ",".join(node.roles),
        "node.id": str(node.id),
        "listeners": ",".join(listeners),
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": ",".join(f"{each.id}@{host}:{each.controller_port}" for each in layout.voters),
        "log.dirs": str(folder / node.folder_name),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }


def ports(layout: Layout, first: int, host: str) -> tuple[Layout, list[str]]:
    """Every node with ports that are free now: those that it had, else the next; and what is to be told of it."""
    from ottla.cli.ports import free_port

    told: list[str] = []
    used: set[int] = set()

    def take(wanted: int, had: int, what: str) -> int:
        asked = had or wanted
        port = free_port(host, asked, used) if asked else free_port(host, 0, used)
        if asked and port != asked:
            told.append(f"Port {asked} is taken, so {what} uses {port}.")
        used.add(port)
        return port

    nodes = []
    for place, node in enumerate(layout.nodes):
        port = take(first + place if first else 0, node.port, f"node {node.id}") if node.is_broker else 0
        above = first + CONTROLLER_PORTS_AFTER + place if first else 0
        controller = take(above, node.controller_port, f"the controller of node {node.id}") if node.is_voter else 0
        nodes.append(replace(node, port=port, controller_port=controller))
    return replace(layout, nodes=tuple(nodes)), told
