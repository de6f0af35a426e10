"""Who takes part in a run: the nodes, the clients, the oracle; where a workload finds what it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from random import Random

from ottla.env.ports import Env
from ottla.replica.partition import Partition
from ottla.sim.cluster.client import ClusterClient
from ottla.sim.cluster.member import PORT, Member, host_name
from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.plan import Plan
from ottla.sim.cluster.topics import create
from ottla.sim.host import Process
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import KnownTopic
from ottla.sim.world import World


class Cast:
    def __init__(self, world: World, oracle: Oracle, plan: Plan, members: Sequence[Member]) -> None:
        self.world = world
        self.oracle = oracle
        self.plan = plan
        self.members = members
        self.clients: list[ClusterClient] = []
        self.keeper = self.client("keeper")
        self.topics: dict[str, KnownTopic] = {}
        """Those of the plan, which nobody deletes."""

    def random(self, purpose: str) -> Random:
        return self.world.random(f"workload {purpose}")

    def client(self, name: str) -> ClusterClient:
        """On a host of its own, whose clock may be wrong."""
        host = self.world.host(name, skew_ms=self.random(f"{name}/clock").choice((0, 0, -3000, 3000)))
        bootstrap = [(host_name(broker), PORT) for broker in self.plan.shape.brokers]
        client = ClusterClient(name, host.env, self.world.random(f"client {name}"), self.oracle, bootstrap)
        self.clients.append(client)
        return client

    def start(self, client: ClusterClient, main: Callable[[], Awaitable[None]]) -> Process[None]:
        async def process(env: Env) -> None:
            await client.refresh()
            await main()

        return self.world.host(client.name).start(process)

    async def make_topics(self) -> None:
        for shape in self.plan.topics:
            self.topics[shape.name] = await create(self.keeper, shape)

    def leader(self, key: PartitionId) -> Partition | None:
        """The partition at its leader, if that is there."""
        story = self.oracle.partitions[key]
        for member in self.members:
            if member.id == story.leader and member.node is not None:
                return member.node.replicas.by_id.get(key)
        return None
