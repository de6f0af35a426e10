"""Finding a port to listen on."""

from __future__ import annotations

import socket
from collections.abc import Collection
from typing import Final

NEIGHBOURS: Final = 50


def is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the node will: TIME_WAIT does not count
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
        return True


def free_port(host: str, wanted: int, but: Collection[int] = ()) -> int:
    """The wanted port, else one of the next, else any; 0 wants any. None of those in `but`."""
    for port in range(wanted, min(wanted + NEIGHBOURS, 65536)) if wanted else ():
        if port not in but and is_free(host, port):
            return port
    while True:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.bind((host, 0))
            port = int(probe.getsockname()[1])
            if port not in but:
                return port
