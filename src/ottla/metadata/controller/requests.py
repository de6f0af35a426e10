"""What can be asked of the controller. Each request names the type of its reply; API files translate from the wire."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.image import ConfigResource, Endpoint, VersionRange
from ottla.model.names import NO_TOPIC_ID

R = TypeVar("R")
USE_DEFAULT: Final = -1


class Request(Generic[R]):
    """R is what the reply is."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NewTopic:
    name: str
    num_partitions: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignments: tuple[tuple[int, tuple[int, ...]], ...] = ()  # partition, its replicas
    configs: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicCreated:
    """The answer for one topic: with an error, all but the name is as empty as Kafka leaves it."""

    name: str
    error: ApiError = NO_ERROR
    topic_id: UUID = NO_TOPIC_ID
    num_partitions: int = -1
    replication_factor: int = -1


@dataclass(frozen=True, slots=True)
class CreateTopics(Request[tuple[TopicCreated, ...]]):
    topics: tuple[NewTopic, ...]
    validate_only: bool = False


class TopicRef(NamedTuple):
    """A topic by name or by id; both or none is the asker's mistake."""

    name: str | None = None
    topic_id: UUID | None = None


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    name: str | None
    topic_id: UUID | None
    error: ApiError = NO_ERROR


@dataclass(frozen=True, slots=True)
class DeleteTopics(Request[tuple[TopicDeleted, ...]]):
    topics: tuple[TopicRef, ...]


@dataclass(frozen=True, slots=True)
class NewPartitions:
    topic: str
    count: int  # of all partitions, those that are there included
    assignments: tuple[tuple[int, ...], ...] | None = None  # the replicas of each new one


@dataclass(frozen=True, slots=True)
class CreatePartitions(Request[tuple[tuple[str, ApiError], ...]]):
    topics: tuple[NewPartitions, ...]
    validate_only: bool = False


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class PartitionsOf:
    topic: str
    partitions: tuple[int, ...]


PartitionErrors = tuple[tuple[str, tuple[tuple[int, ApiError], ...]], ...]


@dataclass(frozen=True, slots=True)
class ElectLeaders(Request[PartitionErrors]):
    """Without partitions: all there are; those that need no election are then left out of the reply."""

    type: ElectionType
    partitions: tuple[PartitionsOf, ...] | None


@dataclass(frozen=True, slots=True)
class Reassignment:
    partition: int
    replicas: tuple[int, ...] | None  # None calls one off


@dataclass(frozen=True, slots=True)
class AlterPartitionReassignments(Request[PartitionErrors]):
    topics: tuple[tuple[str, tuple[Reassignment, ...]], ...]
    may_change_factor: bool = True


@dataclass(frozen=True, slots=True)
class UnregisterBroker(Request[None]):
    broker_id: int


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    type: UpgradeType


@dataclass(frozen=True, slots=True)
class UpdateFeatures(Request[None]):
    """All of them or none."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False


@dataclass(frozen=True, slots=True)
class RegisterBroker(Request[int]):
    """The reply is the broker epoch."""

    broker_id: int
    cluster_id: str
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[tuple[str, VersionRange], ...]
    log_dirs: tuple[UUID, ...]
    rack: str | None = None
    previous_broker_epoch: int = -1
    """Of the incarnation that ended well and left a word of it beside its logs. Any other is taken to lack records."""
    is_remote: bool = False
    """It came over the network: while an earlier incarnation has a session, only that one may register. From within the
    controller's own process there can be no earlier one alive; what it led must not go to others that may be dead."""


@dataclass(frozen=True, slots=True)
class UnfenceBroker(Request[None]):
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class FenceBroker(Request[None]):
    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class FenceDeadBrokers(Request[int | None]):
    """Their processes are gone, before their sessions are over: these registrations (id and epoch) are fenced at once.

    `alive` are those of which there was a sign of life since. If a partition of the dead would be led, or is led, by
    any other, nobody is fenced and the reply is that broker: it may have died before them, and lack what they have.
    """

    incarnations: tuple[tuple[int, int], ...]
    alive: frozenset[int]


@dataclass(frozen=True, slots=True)
class BeginControlledShutdown(Request[None]):
    """Moves leadership away as far as that is possible; the broker is fenced when it is ready to go."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True)
class BalanceLeaders(Request[bool]):
    """Leaderships go back to preferred replicas, as many as a round may move; the reply is whether there may be more.

    From the controller to itself, like the next.
    """


@dataclass(frozen=True, slots=True)
class ElectUncleanLeaders(Request[bool]):
    """Where nobody leads and the topic would rather lose records; the reply is whether there may be more."""


class HeartbeatReply(NamedTuple):
    is_caught_up: bool
    """Whether the broker has applied its own registration."""
    is_fenced: bool
    should_shut_down: bool
    """Nothing is led by it any more, or everybody goes: it may end."""


@dataclass(frozen=True, slots=True)
class BrokerHeartbeat(Request[HeartbeatReply]):
    broker_id: int
    broker_epoch: int
    metadata_offset: int
    """How far the broker has applied the metadata."""
    want_fence: bool = False
    want_shut_down: bool = False
    offline_directories: tuple[UUID, ...] = ()
    cordoned_directories: tuple[UUID, ...] | None = None


class IsrMember(NamedTuple):
    broker_id: int
    broker_epoch: int = -1  # -1: not known, and not looked at


@dataclass(frozen=True, slots=True)
class PartitionAlteration:
    """What a leader proposes: its ISR to be, given what it knows of the partition."""

    topic_id: UUID
    partition: int
    leader_epoch: int
    isr: tuple[IsrMember, ...]
    partition_epoch: int
    leader_recovery_state: int = 0


@dataclass(frozen=True, slots=True)
class AlteredPartition:
    """With an error, all but the first three say nothing."""

    topic_id: UUID
    partition: int
    error: ApiError = NO_ERROR
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = 0
    partition_epoch: int = -1


@dataclass(frozen=True, slots=True)
class AlterPartition(Request[tuple[AlteredPartition, ...]]):
    """From the leaders of partitions, many at once."""

    broker_id: int
    broker_epoch: int
    partitions: tuple[PartitionAlteration, ...]


class ReplicaDirectory(NamedTuple):
    """Where a broker has its replica of a partition."""

    topic_id: UUID
    partition: int
    directory: UUID


@dataclass(frozen=True, slots=True)
class AssignReplicasToDirs(Request[tuple[tuple[ReplicaDirectory, ApiError], ...]]):
    """A broker with several directories has chosen (KIP-858)."""

    broker_id: int
    broker_epoch: int
    assignments: tuple[ReplicaDirectory, ...]


@dataclass(frozen=True, slots=True)
class RegisterController(Request[None]):
    controller_id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: tuple[tuple[str, VersionRange], ...]


class ProducerIdBlock(NamedTuple):
    first: int
    size: int


@dataclass(frozen=True, slots=True)
class AllocateProducerIds(Request[ProducerIdBlock]):
    broker_id: int
    broker_epoch: int


class AlterOp(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigChange(NamedTuple):
    name: str
    op: AlterOp
    value: str | None = None


@dataclass(frozen=True, slots=True)
class IncrementalAlterConfigs(Request[tuple[tuple[ConfigResource, ApiError], ...]]):
    changes: tuple[tuple[ConfigResource, tuple[ConfigChange, ...]], ...]
    validate_only: bool = False
    is_looked_at: bool = True
    """By the broker whose configs they are. False: a client asks the controller directly."""


@dataclass(frozen=True, slots=True)
class AlterConfigs(Request[tuple[tuple[ConfigResource, ApiError], ...]]):
    """The old way: what is not named goes back to its default."""

    configs: tuple[tuple[ConfigResource, tuple[tuple[str, str | None], ...]], ...]
    validate_only: bool = False
    is_looked_at: bool = True
