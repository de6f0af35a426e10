"""A machine with many cores runs several nodes of one config: what each of them has of its own.

Node k (0, 1 ... N-1) of a file is the file's own, except:

| config | node k has |
|---|---|
| node.id | the file's + k |
| listeners, advertised.listeners, ottla.metrics.listener | each port + k; a port of 0 stays 0 |
| log.dirs, log.dir, metadata.log.dir | the folder `core-k` in each |
| process.roles | those of the file for node 0, only `broker` for the others: a quorum does not grow with the cores |

So the files of several machines leave N ids apart. All N advertise the same host, by which the controller knows that
they share a machine (`ottla.host` says so where they do not), and puts no two replicas of a partition on it while
others are free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.model.errors import OttlaError

PORTS: Final = ("listeners", "advertised.listeners", "ottla.metrics.listener")
FOLDERS: Final = ("log.dirs", "log.dir", "metadata.log.dir")
_DEFAULT_FOLDER: Final = "/tmp/kafka-logs"


def for_core(values: Mapping[str, str], core: int) -> dict[str, str]:
    """The configs of one of the nodes."""
    derived = dict(values)
    name = "node.id" if "node.id" in values else "broker.id"
    if name not in values:
        raise OttlaError("--cores needs node.id in the file: the other nodes count on from it")
    derived[name] = str(_number(name, values[name]) + core)
    for each in FOLDERS:
        if each in values:
            derived[each] = ",".join(f"{folder.strip().rstrip('/')}/core-{core}" for folder in values[each].split(","))
    if not any(each in values for each in FOLDERS[:2]):
        derived["log.dirs"] = f"{_DEFAULT_FOLDER}/core-{core}"
    if core:
        _leave_quorum(derived)
        for each in PORTS:
            if each in derived:
                derived[each] = ",".join(_with_port(each, address, core) for address in derived[each].split(","))
    return derived


def check_addresses(values: Mapping[str, str], cores: int) -> None:
    """OttlaError if two of the nodes would listen at the same place."""
    taken: set[str] = set()
    for core in range(cores):
        derived = for_core(values, core)
        for entry in ",".join(derived.get(name, "") for name in (PORTS[0], PORTS[2])).split(","):
            address = entry.strip().rpartition("://")[2]
            if address in taken:
                raise OttlaError(
                    f"with --cores {cores} two nodes would listen at {address}: their ports count on from those of the "
                    f"file, so leave {cores} between any two in listeners and ottla.metrics.listener"
                )
            if address and not address.endswith(":0"):
                taken.add(address)


def _leave_quorum(derived: dict[str, str]) -> None:
    roles = [role.strip() for role in derived.get("process.roles", "").split(",")]
    if "broker" not in roles:
        raise OttlaError("--cores is for brokers: a controller needs no more than one core")
    if "controller" not in roles:
        return
    if not derived.get("controller.quorum.voters") and not derived.get("controller.quorum.bootstrap.servers"):
        raise OttlaError(
            "--cores needs controller.quorum.voters or controller.quorum.bootstrap.servers in the file, and a listener "
            "of the controller: the other nodes must find it"
        )
    derived["process.roles"] = "broker"
    controllers = {name.strip() for name in derived.get("controller.listener.names", "").split(",")}
    for each in PORTS[:2]:
        if each in derived:
            kept = [entry for entry in derived[each].split(",") if entry.strip().partition("://")[0] not in controllers]
            derived[each] = ",".join(kept)


def _with_port(name: str, address: str, core: int) -> str:
    host, _, port = address.strip().rpartition(":")
    number = _number(name, port)
    return f"{host}:{number + core if number else 0}"


def _number(name: str, text: str) -> int:
    if not text.strip().isdecimal():
        raise OttlaError(f"--cores cannot count on from {name}={text}: a number is needed there")
    return int(text)
