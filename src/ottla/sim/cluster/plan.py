"""What a seed chooses: who is in the cluster, with which settings, and which topics."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final
from uuid import UUID

from ottla.raft.initial_voters import a_voter
from ottla.raft.voters import VoterSet
from ottla.sim.cluster.member import CONTROLLER_PORT, LOG_DIR, META, MORE, PORT, host_name
from ottla.sim.cluster.releases import NEWEST, RELEASES, Release

CONTROLLER: Final = "CONTROLLER"
_FIRST_DIRECTORY: Final = 4 << 76 | 2 << 62  # as a random UUID looks


@dataclass(frozen=True, slots=True)
class Shape:
    """Ids of the nodes by role; a node may have both."""

    brokers: tuple[int, ...]
    controllers: tuple[int, ...]
    first_voters: tuple[int, ...] = ()
    """Of a quorum that can change (KIP-853); else all controllers vote, now and ever."""

    @property
    def is_dynamic(self) -> bool:
        return bool(self.first_voters)

    def voters(self) -> VoterSet | None:
        """Those that a quorum which can change begins with, whose directories are known before there are any."""
        nodes = [
            a_voter(node, UUID(int=_FIRST_DIRECTORY + node), CONTROLLER, host_name(node), CONTROLLER_PORT)
            for node in self.first_voters
        ]
        return VoterSet.of(nodes) if nodes else None

    @property
    def nodes(self) -> tuple[int, ...]:
        return tuple(sorted({*self.brokers, *self.controllers}))


COMBINED: Final = Shape((1, 2, 3), (1, 2, 3))
APART: Final = Shape((1, 2, 3), (101, 102, 103))
_SHAPES: Final = (
    COMBINED, COMBINED, COMBINED, COMBINED,
    APART,
    Shape((1, 2, 3, 4), (1, 2, 3)),
    Shape((1, 2, 3), (101,)),
    Shape((1, 2, 3), (1, 2, 3), (1, 2, 3)),
    Shape((1, 2, 3), (101, 102, 103, 104), (101, 102, 103)),
    Shape((1, 2, 3, 4), (1, 2, 3, 4), (1, 2, 3)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TopicShape:
    name: str
    partitions: int
    replicas: int
    configs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Plan:
    shape: Shape
    settings: dict[str, str]
    topics: tuple[TopicShape, ...]
    release: Release = NEWEST
    """Whose software the nodes start with."""

    @classmethod
    def drawn(cls, random: Random) -> Plan:
        shape = random.choice(_SHAPES)
        settings, topics = _settings(random), _topics(random, len(shape.brokers))
        return cls(shape, settings, topics, random.choice(RELEASES) if random.random() < 0.3 else NEWEST)

    def node_settings(self, node: int) -> dict[str, str]:
        shape, host = self.shape, host_name(node)
        roles = [
            role for role, nodes in (("broker", shape.brokers), ("controller", shape.controllers)) if node in nodes
        ]
        listeners = {
            "broker": f"PLAINTEXT://{host}:{PORT}",
            "controller": f"{CONTROLLER}://{host}:{CONTROLLER_PORT}",
        }
        addresses = {each: f"{host_name(each)}:{CONTROLLER_PORT}" for each in shape.controllers}
        if shape.is_dynamic:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(addresses.values())}
        else:
            quorum = {"controller.quorum.voters": ",".join(f"{each}@{at}" for each, at in addresses.items())}
        return {
            "process.roles": ",".join(roles),
            "node.id": str(node),
            "listeners": ",".join(listeners[role] for role in roles),
            "controller.listener.names": CONTROLLER,
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{CONTROLLER}:PLAINTEXT",
            **quorum,
            **self.settings,
        }


_DISKS: Final[tuple[dict[str, str], ...]] = (
    {"log.dirs": LOG_DIR},
    {"log.dirs": LOG_DIR},
    {"log.dirs": f"{LOG_DIR},{MORE}", "metadata.log.dir": META},
)


def _settings(random: Random) -> dict[str, str]:
    """Everything that happens now and then happens often."""
    session_ms = random.choice((1_500, 3_000, 9_000))
    election_ms = random.choice((300, 1_000))
    return {
        **random.choice(_DISKS),
        "auto.create.topics.enable": "false",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
        "group.initial.rebalance.delay.ms": str(random.choice((0, 500))),
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "1000",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
        "broker.session.timeout.ms": str(session_ms),
        "broker.heartbeat.interval.ms": str(session_ms // random.choice((3, 5))),
        "controller.quorum.election.timeout.ms": str(election_ms),
        "controller.quorum.fetch.timeout.ms": str(2 * election_ms),
        "replica.lag.time.max.ms": str(random.choice((1_000, 3_000, 10_000))),
        "replica.fetch.wait.max.ms": str(random.choice((200, 500))),
        "replica.high.watermark.checkpoint.interval.ms": str(random.choice((400, 1_000, 5_000))),
        "log.flush.offset.checkpoint.interval.ms": str(random.choice((400, 1_000, 10_000))),
        "metadata.log.max.record.bytes.between.snapshots": str(random.choice((1_000, 4_000, 20_000_000))),
        "metadata.max.retention.bytes": str(random.choice((2_000, 20_000))),
        "internal.metadata.log.segment.bytes": str(random.choice((1_000, 5_000))),
        "controlled.shutdown.enable": "true",
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": str(random.choice((500, 3_000))),
        "log.cleaner.backoff.ms": str(random.choice((1_000, 5_000))),
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "log.cleaner.min.cleanable.ratio": str(random.choice((0.0, 0.3))),
        "log.segment.delete.delay.ms": str(random.choice((0, 500, 60_000))),
    }


def _topics(random: Random, brokers: int) -> tuple[TopicShape, ...]:
    def small() -> dict[str, str]:
        return {
            "internal.segment.bytes": str(random.choice((3_000, 12_000, 100_000))),
            "index.interval.bytes": str(random.choice((100, 4096))),
        }

    replicas = min(3, brokers)
    topics = [TopicShape("orders", random.choice((1, 2, 3)), replicas, small() | {"min.insync.replicas": "2"})]
    if random.random() < 0.5:
        synced = {"min.insync.replicas": "2", "flush.messages": "1"}
        topics.append(TopicShape("synced", 1, replicas, small() | synced))
    if random.random() < 0.5:
        topics.append(TopicShape("loose", 1, random.choice((2, replicas)), small() | {"min.insync.replicas": "1"}))
    return tuple(topics)
