"""What the metadata log adds up to at one offset. Immutable: under a request that uses one image nothing changes.

The mappings are dicts, large ones LargeMaps, that nobody writes to once they are in an image; delta.py copies those it
changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.metadata.records.base import MetadataRecord
from ottla.model import ids
from ottla.model.names import ResourceType as ResourceType

NO_LEADER: Final = -1
METADATA_VERSION: Final = "metadata.version"

# KIP-858: instead of a log directory's id, what is known about the directory of a replica.
DIRECTORY_MIGRATING: Final = UUID(int=0)
DIRECTORY_UNASSIGNED: Final = UUID(int=1)
DIRECTORY_LOST: Final = UUID(int=2)
RESERVED_DIRECTORIES: Final = ids.RESERVED


class LeaderRecoveryState(IntEnum):
    RECOVERED = 0
    RECOVERING = 1  # elected uncleanly, and has not yet said that it is done with the consequences


class ConfigResource(NamedTuple):
    type: int
    name: str  # a broker id, or empty for the defaults of all brokers


class VersionRange(NamedTuple):
    low: int
    high: int


class Endpoint(NamedTuple):
    name: str
    host: str
    port: int
    security_protocol: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    id: int
    epoch: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    directories: tuple[UUID, ...]
    cordoned_directories: tuple[UUID, ...] | None = None

    @property
    def active(self) -> bool:
        """Whether it may lead partitions and be in an ISR."""
        return not self.fenced and not self.in_controlled_shutdown

    def endpoint(self, listener: str) -> Endpoint | None:
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint
        return None

    def has_online(self, directory: UUID) -> bool:
        """Whether a replica that lies in this directory can be used. A broker may have told of none at all."""
        if directory in self.directories or directory in (DIRECTORY_UNASSIGNED, DIRECTORY_MIGRATING):
            return True
        return not self.directories and directory != DIRECTORY_LOST


@dataclass(frozen=True, slots=True)
class ControllerImage:
    id: int
    incarnation_id: UUID
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, VersionRange]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]  # one for each replica, in the same order
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> UUID:
        return self.directories[self.replicas.index(broker_id)]


@dataclass(frozen=True, slots=True)
class TopicImage:
    id: UUID
    name: str
    partitions: Mapping[int, PartitionImage]


@dataclass(frozen=True, slots=True)
class MetadataImage:
    offset: int = -1  # of the last record, control records included
    epoch: int = 0
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    controllers: Mapping[int, ControllerImage] = field(default_factory=dict)
    topics: Mapping[UUID, TopicImage] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    configs: Mapping[ConfigResource, Mapping[str, str]] = field(default_factory=dict)
    next_producer_id: int = 0
    held: Mapping[Hashable, MetadataRecord] = field(default_factory=dict)
    """Records of what is not implemented yet (ACLs, SCRAM, quotas, tokens), the last of each key: not to be lost."""

    @property
    def metadata_version(self) -> int:
        return self.features.get(METADATA_VERSION, 0)

    @property
    def is_empty(self) -> bool:
        """Whether no record has been replayed that says anything: a log that is still to be bootstrapped."""
        return not self.features

    def topic(self, name: str) -> TopicImage | None:
        topic_id = self.topic_ids.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def partition(self, topic_id: UUID, partition: int) -> PartitionImage | None:
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def config(self, resource: ConfigResource) -> Mapping[str, str]:
        return self.configs.get(resource, _NO_CONFIG)

    def topic_config(self, name: str) -> Mapping[str, str]:
        return self.configs.get(ConfigResource(ResourceType.TOPIC, name), _NO_CONFIG)


_NO_CONFIG: Final[Mapping[str, str]] = {}
EMPTY_IMAGE: Final = MetadataImage()
