"""What is done to a node: it is killed, paused, cut off, stopped, or its disk is filled. Each ends with `heal`."""

from __future__ import annotations

import os
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

from ottla.testing.namespaces import Namespaces
from ottla.testing.process_cluster import ProcessCluster

_FULL_WITHIN_S: Final = 20.0


class Scene:
    """The cluster, and what this machine allows to be done to it."""

    def __init__(self, cluster: ProcessCluster, network: Namespaces | None, small_disk_of: int | None) -> None:
        self.cluster = cluster
        self.network = network
        self.small_disk_of = small_disk_of


class Fault(ABC):
    NAME: ClassVar[str]

    def __init__(self, scene: Scene, node: int, dice: random.Random) -> None:
        self.cluster = scene.cluster
        self.scene = scene
        self.node = node
        self.dice = dice

    def __str__(self) -> str:
        return f"{self.NAME} {self.node}"

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def heal(self) -> None:
        """The process runs again when this returns; it need not serve yet."""


class Kill(Fault):
    NAME = "kill"

    def begin(self) -> None:
        self.cluster.kill(self.node)

    def heal(self) -> None:
        self.cluster.begin(self.node)
        if self.dice.random() < 0.2:  # and once more while it starts
            time.sleep(self.dice.uniform(0.1, 1.0))
            self.cluster.kill(self.node)
            self.cluster.begin(self.node)


class Stop(Fault):
    """A clean stop, while others may be away; one that nobody lets go is killed in the end."""

    NAME = "stop"

    def begin(self) -> None:
        self.cluster.stop(self.node)

    def heal(self) -> None:
        self.cluster.begin(self.node)


class Pause(Fault):
    NAME = "pause"

    def begin(self) -> None:
        self.cluster.pause(self.node)

    def heal(self) -> None:
        self.cluster.go_on(self.node)


class CutOff(Fault):
    NAME = "cut off"

    def begin(self) -> None:
        assert self.scene.network is not None
        self.scene.network.cut_off(self.node)

    def heal(self) -> None:
        assert self.scene.network is not None
        self.scene.network.mend()


class CutOneWay(Fault):
    """What it sends to one other, or to all others, is lost. Clients notice nothing."""

    NAME = "mute"

    def begin(self) -> None:
        assert self.scene.network is not None
        others = [i for i in self.cluster.ids if i != self.node]
        for other in self.dice.sample(others, self.dice.randint(1, len(others))):
            self.scene.network.cut(self.node, other)

    def heal(self) -> None:
        assert self.scene.network is not None
        self.scene.network.mend()


class FillDisk(Fault):
    """A node whose only disk is full ends, as Kafka's does; with room again it starts and has what it had."""

    NAME = "fill disk of"

    def begin(self) -> None:
        ballast = self._ballast()
        free = os.statvfs(ballast.parent)
        with suppress(OSError), ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, free.f_bavail * free.f_frsize * 9 // 10)
            file.seek(0, os.SEEK_END)
            while True:  # the node takes some of it too
                file.write(bytes(1 << 16))
                file.flush()
        deadline = time.monotonic() + _FULL_WITHIN_S
        while self.cluster.is_running(self.node) and time.monotonic() < deadline:
            time.sleep(0.05)

    def heal(self) -> None:
        self._ballast().unlink()
        if self.cluster.is_running(self.node):
            self.cluster.kill(self.node)
        self.cluster.begin(self.node)

    def _ballast(self) -> Path:
        return self.cluster.data(self.node) / "ballast"


def choose(scene: Scene, dice: random.Random) -> list[Fault]:
    """Of one node mostly, of two now and then, and sometimes of all at once."""
    ids = scene.cluster.ids
    count = dice.choices((1, 2, len(ids)), (6, 3, 1))[0]
    if count == len(ids) and dice.random() < 0.7:
        return [Kill(scene, node, dice) for node in ids]
    kinds: Sequence[type[Fault]] = (Kill, Kill, Kill, Pause, Pause, Stop)
    if scene.network is not None:
        kinds = (*kinds, CutOff, CutOneWay)
    faults = [dice.choice(kinds)(scene, node, dice) for node in dice.sample(ids, count)]
    if scene.small_disk_of is not None and dice.random() < 0.1:
        faults = [each for each in faults if each.node != scene.small_disk_of]
        faults.append(FillDisk(scene, scene.small_disk_of, dice))
    return faults
