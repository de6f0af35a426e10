"""Images, settings and requests that the tests of this folder start from."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from ottla.env.randomness import SeededRandom
from ottla.metadata.controller import controller
from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.features import LATEST_METADATA_VERSION, SUPPORTED, bootstrap_records
from ottla.metadata.controller.requests import (
    AlterPartition,
    BrokerHeartbeat,
    CreateTopics,
    HeartbeatReply,
    IsrMember,
    NewTopic,
    PartitionAlteration,
    RegisterBroker,
    Request,
    UnfenceBroker,
)
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage, PartitionImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.config_record import ConfigRecord
from ottla.model.errors import ErrorCode

R = TypeVar("R")
CLUSTER_ID = "vfI6n-2XTx6CG4P2zbgsTQ"


def settings(seed: int = 1, num_partitions: int = 4, replication_factor: int = 1) -> ControllerSettings:
    return ControllerSettings(
        CLUSTER_ID, SeededRandom(Random(seed)), config_rules(), num_partitions, replication_factor
    )


DEFAULT = settings()


def directory(broker_id: int) -> UUID:
    return UUID(int=1000 + broker_id)


def registration(broker_id: int = 1, incarnation: int = 1, rack: str | None = None) -> RegisterBroker:
    return RegisterBroker(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=UUID(int=incarnation),
        endpoints=(Endpoint("PLAINTEXT", "127.0.0.1", 9092 + broker_id, 0),),
        features=tuple(SUPPORTED.items()),
        log_dirs=(directory(broker_id),),
        rack=rack,
    )


def after(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(image)
    delta.replay_all(records)
    return delta.apply(image.offset + len(records), 1)


def accepted(result: ControllerResult[R] | Refused) -> ControllerResult[R]:
    assert isinstance(result, ControllerResult), result
    return result


def soft_state(image: MetadataImage, settings: ControllerSettings) -> SoftState:
    """Of a controller that has just become active."""
    return SoftState(image, settings, lambda: 0.0)


def handle(request: Request[R], image: MetadataImage, settings: ControllerSettings) -> ControllerResult[R] | Refused:
    return controller.handle(request, image, settings, soft_state(image, settings))


def decided(request: Request[R], image: MetadataImage) -> MetadataImage:
    """The image after a request that must succeed."""
    return after(image, *accepted(handle(request, image, settings())).records)


class Active:
    """An active controller: decides, appends, follows. Time stands still until it is told to go on."""

    def __init__(self, image: MetadataImage, settings: ControllerSettings | None = None) -> None:
        self.image = image
        self.settings = settings or DEFAULT
        self.now_ms = 0.0
        self.soft = SoftState(image, self.settings, lambda: self.now_ms)

    def submit(self, request: Request[R]) -> ControllerResult[R] | Refused:
        result = controller.handle(request, self.image, self.settings, self.soft)
        if isinstance(result, ControllerResult) and result.records:
            delta = MetadataDelta(self.image)
            delta.replay_all(result.records)
            self.image = delta.apply(self.image.offset + len(result.records), 1)
            self.soft.follow(delta, self.image)
        return result

    def reply(self, request: Request[R]) -> R:
        return accepted(self.submit(request)).reply

    def refusal(self, request: Request[Any]) -> ErrorCode:
        result = self.submit(request)
        assert isinstance(result, Refused)
        return result.error.code

    def after(self, ms: float) -> list[Request[Any]]:
        """Time goes on; what the controller then does by itself."""
        self.now_ms += ms
        requests = self.soft.due()
        for request in requests:
            self.submit(request)
        return requests

    def heartbeat(self, broker_id: int, **values: Any) -> HeartbeatReply:
        """Of a broker that is up to date, if it does not say otherwise."""
        values.setdefault("metadata_offset", self.image.offset)
        return self.reply(BrokerHeartbeat(broker_id, self.image.brokers[broker_id].epoch, **values))

    def partition(self, topic: str, number: int = 0) -> PartitionImage:
        found = self.image.topic(topic)
        assert found is not None
        return found.partitions[number]


def proposal(active: Active, topic: str, leader: int, members: Sequence[int], **others: Any) -> AlterPartition:
    """Of a leader that knows all there is to know, if nothing else is said."""
    partition = active.partition(topic)
    values: dict[str, Any] = {
        "leader_epoch": partition.leader_epoch,
        "partition_epoch": partition.partition_epoch,
        "isr": tuple(IsrMember(member, active.image.brokers[member].epoch) for member in members),
        **others,
    }
    alteration = PartitionAlteration(topic_id=active.image.topic_ids[topic], partition=0, **values)
    return AlterPartition(leader, active.image.brokers[leader].epoch, (alteration,))


def topic_config(topic: str, name: str, value: str) -> MetadataRecord:
    return ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value)


BEFORE_ELR = 25
"""A metadata.version with which clusters start without eligible leader replicas."""


def formatted(metadata_version: int = LATEST_METADATA_VERSION) -> MetadataImage:
    return after(EMPTY_IMAGE, *bootstrap_records(metadata_version))


def cluster(
    *broker_ids: int, racks: tuple[str | None, ...] = (), metadata_version: int = LATEST_METADATA_VERSION
) -> MetadataImage:
    """Registered and unfenced brokers."""
    image = formatted(metadata_version)
    for position, broker_id in enumerate(broker_ids or (1,)):
        rack = racks[position] if racks else None
        image = decided(registration(broker_id, rack=rack), image)
        image = decided(UnfenceBroker(broker_id, image.brokers[broker_id].epoch), image)
    return image


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    return decided(CreateTopics(topics), image)
