"""Images, settings and requests that the tests of this folder start from."""

from random import Random
from typing import TypeVar
from uuid import UUID

from ottla.env.randomness import SeededRandom
from ottla.metadata.controller.config_rules import config_rules
from ottla.metadata.controller.controller import handle
from ottla.metadata.controller.features import SUPPORTED, bootstrap_records
from ottla.metadata.controller.requests import CreateTopics, NewTopic, RegisterBroker, Request, UnfenceBroker
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, Endpoint, MetadataImage
from ottla.metadata.records.base import MetadataRecord

R = TypeVar("R")
CLUSTER_ID = "vfI6n-2XTx6CG4P2zbgsTQ"


def settings(seed: int = 1, num_partitions: int = 4, replication_factor: int = 1) -> ControllerSettings:
    return ControllerSettings(
        CLUSTER_ID, SeededRandom(Random(seed)), config_rules(), num_partitions, replication_factor
    )


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


def decided(request: Request[R], image: MetadataImage) -> MetadataImage:
    """The image after a request that must succeed."""
    return after(image, *accepted(handle(request, image, settings())).records)


def formatted() -> MetadataImage:
    return after(EMPTY_IMAGE, *bootstrap_records())


def cluster(*broker_ids: int, racks: tuple[str | None, ...] = ()) -> MetadataImage:
    """Registered and unfenced brokers."""
    image = formatted()
    for position, broker_id in enumerate(broker_ids or (1,)):
        rack = racks[position] if racks else None
        image = decided(registration(broker_id, rack=rack), image)
        image = decided(UnfenceBroker(broker_id, image.brokers[broker_id].epoch), image)
    return image


def with_topics(image: MetadataImage, *topics: NewTopic) -> MetadataImage:
    return decided(CreateTopics(topics), image)
