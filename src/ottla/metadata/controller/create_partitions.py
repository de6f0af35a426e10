"""CreatePartitions. Each topic stands or falls alone; the records of all that stand are one batch."""

from collections import Counter
from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller import placement
from ottla.metadata.controller.assignments import has_active, nobody_could_lead, partition_record, wrong_with_replicas
from ottla.metadata.controller.requests import CreatePartitions, NewPartitions
from ottla.metadata.controller.result import MAX_RECORDS, NO_ERROR, ApiError, ControllerResult
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.metadata.records.base import MetadataRecord
from ottla.model.errors import ErrorCode
from ottla.model.names import REMOTE_METADATA_TOPIC

# Kafka too gives this code, but by accident: it has added the first ten thousand by then.
_TOO_MANY: Final = ApiError(
    ErrorCode.unknown_server_error, f"more than {MAX_RECORDS} new partitions in one request: ask for them in parts"
)
# Kafka adds them, and then finds no more what its brokers had copied.
_STAYS_AS_IT_IS: Final = ApiError(
    ErrorCode.invalid_partitions,
    f"Where something in the remote tier is told of follows from the number of partitions of {REMOTE_METADATA_TOPIC}: "
    "it stays as it is.",
)


def create_partitions(
    request: CreatePartitions, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[tuple[tuple[str, ApiError], ...]]:
    counts = Counter(topic.topic for topic in request.topics)
    duplicate = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
    replies = [(name, duplicate) for name, count in counts.items() if count > 1]
    records: list[MetadataRecord] = []
    for wanted in request.topics:
        breathe()
        if counts[wanted.topic] > 1:
            continue
        added = _added(wanted, MAX_RECORDS - len(records), image, settings)
        if isinstance(added, ApiError):
            replies.append((wanted.topic, added))
        else:
            records += added
            replies.append((wanted.topic, NO_ERROR))
    return ControllerResult(tuple(replies), () if request.validate_only else tuple(records))


def _added(
    wanted: NewPartitions, room: int, image: MetadataImage, settings: ControllerSettings
) -> list[MetadataRecord] | ApiError:
    topic = image.topic(wanted.topic)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition)
    now = len(topic.partitions)
    if wanted.count == now:
        return ApiError(ErrorCode.invalid_partitions, f"Topic already has {now} partition(s).")
    if wanted.count < now:
        message = f"The topic {topic.name} currently has {now} partition(s); {wanted.count} would not be an increase."
        return ApiError(ErrorCode.invalid_partitions, message)
    if topic.name == REMOTE_METADATA_TOPIC:
        return _STAYS_AS_IT_IS
    additional = wanted.count - now
    if wanted.assignments is not None and len(wanted.assignments) != additional:
        message = (
            f"Attempted to add {additional} additional partition(s), but only {len(wanted.assignments)} assignment(s) "
            "were specified."
        )
        return ApiError(ErrorCode.invalid_replica_assignment, message)
    if additional > room:
        return _TOO_MANY
    replicas = (
        _placed(topic, additional, image, settings)
        if wanted.assignments is None
        else _manual(topic, wanted.assignments, image)
    )
    if isinstance(replicas, ApiError):
        return replicas
    return [partition_record(topic.id, now + number, one, image) for number, one in enumerate(replicas)]


def _manual(
    topic: TopicImage, assignments: tuple[tuple[int, ...], ...], image: MetadataImage
) -> list[tuple[int, ...]] | ApiError:
    for number, replicas in enumerate(assignments, start=len(topic.partitions)):
        wrong = wrong_with_replicas(replicas, _factor(topic), image) or nobody_could_lead(number, replicas, image)
        if wrong is not None:
            return ApiError(ErrorCode.invalid_replica_assignment, wrong)
    return list(assignments)


def _placed(
    topic: TopicImage, additional: int, image: MetadataImage, settings: ControllerSettings
) -> list[tuple[int, ...]] | ApiError:
    factor = _factor(topic)
    try:
        placed = placement.place(image.brokers.values(), additional, factor, settings.random)
    except placement.PlacementError as error:
        return ApiError(ErrorCode.invalid_replication_factor, str(error))
    if all(has_active(replicas, image) for replicas in placed):
        return placed
    message = (
        f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or in controlled "
        "shutdown."
    )
    return ApiError(ErrorCode.invalid_replication_factor, message)


def _factor(topic: TopicImage) -> int:
    return len(next(iter(topic.partitions.values())).replicas)
