"""A network for each node of a cluster, on Linux: addresses of their own, and cables that can be pulled.

with Namespaces(3) as network, running_processes(tmp_path, 3, network=network) as cluster:
    network.cut_off(2)                # no packet to or from node 2, and nobody is told
    network.cut(1, 3)                 # what node 1 sends to node 3 is lost; the other way round it arrives
    network.mend()

Each node runs in a network namespace that a bridge joins with the others and with this process. Nothing is refused or
reset when a way is cut, as when a switch dies; a proxy cannot do that, since the kernel behind it lives. It needs root
and `ip` of iproute2: `is_possible` says whether they are there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Final

_NOBODY: Final = "02:00:00:00:00:01"  # a hardware address that no one has
_INSIDE: Final = "eth0"
_OURS: Final = 254


def is_possible() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    try:
        with Namespaces(1):
            return True
    except subprocess.CalledProcessError:
        return False


class Namespaces:
    def __init__(self, size: int) -> None:
        self._ids = tuple(range(1, size + 1))
        self._name = f"ot{os.getpid() % 0xFFFFF:x}"  # names of devices are short
        self._net = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"
        self._cut: set[tuple[int, int]] = set()
        self._cut_off: set[int] = set()

    def __enter__(self) -> Namespaces:
        try:
            _ip("link", "add", self._name, "type", "bridge")
            _ip("addr", "add", f"{self._net}.{_OURS}/24", "dev", self._name)
            _ip("link", "set", self._name, "up")
            for i in self._ids:
                self._add(i)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for i in self._ids:
            _ip("netns", "del", self._space(i), check=False)
            _ip("link", "del", self._cable(i), check=False)
        _ip("link", "del", self._name, check=False)

    def host(self, i: int) -> str:
        return f"{self._net}.{i}"

    def within(self, i: int, command: list[str]) -> list[str]:
        return ["ip", "netns", "exec", self._space(i), *command]

    def cut_off(self, i: int) -> None:
        """From everybody, clients too."""
        _ip("link", "set", self._cable(i), "nomaster")
        self._cut_off.add(i)

    def cut(self, source: int, target: int) -> None:
        """What the one sends to the other."""
        way = ("neigh", "replace", self.host(target), "lladdr", _NOBODY, "dev", _INSIDE, "nud", "permanent")
        _ip("-n", self._space(source), *way)
        self._cut.add((source, target))

    def mend(self) -> None:
        for i in self._cut_off:
            _ip("link", "set", self._cable(i), "master", self._name)
        for source, target in self._cut:
            _ip("-n", self._space(source), "neigh", "del", self.host(target), "dev", _INSIDE)
        self._cut_off.clear()
        self._cut.clear()

    def _add(self, i: int) -> None:
        space, cable = self._space(i), self._cable(i)
        _ip("netns", "add", space)
        _ip("link", "add", cable, "type", "veth", "peer", "name", _INSIDE, "netns", space)
        _ip("link", "set", cable, "master", self._name)
        _ip("link", "set", cable, "up")
        _ip("-n", space, "addr", "add", f"{self.host(i)}/24", "dev", _INSIDE)
        for device in (_INSIDE, "lo"):
            _ip("-n", space, "link", "set", device, "up")

    def _space(self, i: int) -> str:
        return f"{self._name}-{i}"

    def _cable(self, i: int) -> str:
        return f"{self._name}v{i}"


def _ip(*arguments: str, check: bool = True) -> None:
    subprocess.run(["ip", *arguments], check=check, capture_output=True)
