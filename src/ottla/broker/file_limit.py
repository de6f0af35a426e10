"""How many files a node may come to have open, against how many it may."""

from __future__ import annotations

import resource
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.broker.node import Node

_OWN: Final = 100  # the loop, listeners, locks, workers, small files that are being written
_CONNECTIONS: Final = 1000  # where max.connections sets no limit
_NO_LIMIT: Final = 2**31 - 1


def raise_file_limit() -> None:
    """Up to what the system allows: every segment in use and every connection takes a descriptor."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def what_is_wrong_with(node: Node) -> str | None:
    """A warning with advice if the limit may be too low for what is there already."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    connections = node.config.get_int("max.connections")
    segments = sum(len(log.segments) for log in node.logs.all_logs()) if node.broker is not None else 0
    return too_low(limit, segments, _CONNECTIONS if connections >= _NO_LIMIT else connections)


def too_low(limit: int, segments: int, connections: int) -> str | None:
    """Each segment takes one while it is written to or read; a new log begins with one."""
    need = segments + connections + _OWN
    if limit in (resource.RLIM_INFINITY, -1) or need <= limit:
        return None
    advised = max(100_000, 1 << (2 * need).bit_length())
    return (
        f"This process may have {limit} files open, but {segments} segments and {connections} connections may need "
        f"{need}. When they run out, connections are refused, and who writes or reads gets KAFKA_STORAGE_ERROR. Raise "
        f"the limit, e.g. to {advised}: `ulimit -n {advised}` in the shell that starts the node, "
        f"LimitNOFILE={advised} in a systemd unit, `--ulimit nofile={advised}` for a container; or have fewer "
        "partitions, larger segments (segment.bytes), or a lower max.connections."
    )
