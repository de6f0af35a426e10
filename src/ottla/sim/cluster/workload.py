"""How a kind of clients takes part in a simulated cluster, and how what it was promised is judged.

To add one: a subclass of Workload in a module of `workloads/` (or a package of its own), and a line in
`workloads/__init__.py` that says how many of the seeds draw it. A workload draws its own random numbers
(`cast.random(purpose)`), so that it does not change what others draw. It complains to `cast.oracle` when it
sees a promise broken, and counts there what it went through.

    class Echoes(Workload):
        async def prepare(self) -> None:            # before anything goes wrong: topics of its own
        def start(self) -> None:                    # clients begin
        async def finish(self) -> None:             # all is healed: end in time, with everything brought home
        def verdict(self, logs) -> Iterator[str]:   # all replicas are in sync: a last look at their logs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import ClassVar

from ottla.sim.cluster.cast import Cast
from ottla.sim.cluster.logs import ReplicaLogs


class Workload:
    name: ClassVar[str]
    has_store: ClassVar[bool] = False
    """Whether it uses the object store, in which things go wrong then too."""

    @classmethod
    def settings(cls, random: Random) -> Mapping[str, str]:
        """What it needs of the nodes' configs."""
        return {}

    def __init__(self, cast: Cast) -> None:
        self.cast = cast

    async def prepare(self) -> None:
        """Makes what it needs. Nothing goes wrong yet, but nodes may still be starting."""

    def start(self) -> None:
        """Lets its clients begin."""

    async def storm_is_over(self) -> None:
        """Nothing goes wrong from here on: ends what it has broken itself. Its clients go on."""

    async def finish(self) -> None:
        """When everything works again: ends what is under way. The run fails if this takes longer than healing may."""

    def more_s(self) -> float:
        """How much longer than others it may take for that, by what has gathered."""
        return 0.0

    def unfinished(self) -> list[str]:
        """Who is not done, for a person who reads that nothing went on."""
        return []

    def verdict(self, logs: ReplicaLogs) -> Iterator[str]:
        """What is wrong, now that nobody sends any more and all replicas are in sync."""
        return iter(())
