"""CreateTopics. Each topic stands or falls alone; the records of all that stand are one batch.

The order of the checks is Kafka's, since a client sees only the first that fails: duplicates, name, existence, configs,
then the assignment.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller import configs, topic_names
from ottla.metadata.controller.assignments import has_active, nobody_could_lead, partition_record, wrong_with_replicas
from ottla.metadata.controller.placement import PlacementError, Placer
from ottla.metadata.controller.requests import USE_DEFAULT, CreateTopics, NewTopic, TopicCreated
from ottla.metadata.controller.result import MAX_RECORDS, ApiError, ControllerResult
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.image import ConfigResource, MetadataImage, ResourceType
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.partition_record import PartitionRecord
from ottla.metadata.records.topic_record import TopicRecord
from ottla.model.errors import ErrorCode
from ottla.model.names import METADATA_TOPIC

MAX_PARTITIONS: Final = 10_000


def create_topics(
    request: CreateTopics, image: MetadataImage, settings: ControllerSettings
) -> ControllerResult[tuple[TopicCreated, ...]]:
    counts = Counter(topic.name for topic in request.topics)
    wanted = [topic for topic in request.topics if counts[topic.name] == 1 and topic.name != METADATA_TOPIC]
    records: list[MetadataRecord] = []
    replies: list[TopicCreated] = []
    if _partitions_asked(wanted, settings) > MAX_PARTITIONS:
        return _all_refused(counts, "Excessively large number of partitions per request.")
    collisions: dict[str, str] | None = None
    placer = Placer(image.brokers.values(), settings.random)
    for topic in wanted:
        breathe()
        if collisions is None and topic_names.has_collision_chars(topic.name):
            collisions = topic_names.colliding(image.topic_ids)
        outcome = _create(topic, image, settings, collisions or {}, placer)
        if isinstance(outcome, ApiError):
            replies.append(TopicCreated(topic.name, outcome))
        else:
            records += outcome
            replies.append(_created(topic.name, outcome))
    if len(records) > MAX_RECORDS:
        return _all_refused(counts, "Unable to perform excessively large batch operation.")
    replies += (
        TopicCreated(name, ApiError(ErrorCode.invalid_request, "Duplicate topic name."))
        for name, count in counts.items()
        if count > 1
    )
    if counts[METADATA_TOPIC] == 1:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        replies.append(TopicCreated(METADATA_TOPIC, ApiError(ErrorCode.invalid_request, message)))
    return ControllerResult(tuple(replies), () if request.validate_only else tuple(records))


def _partitions_asked(topics: list[NewTopic], settings: ControllerSettings) -> int:
    return sum(
        len(topic.assignments)
        or (settings.default_num_partitions if topic.num_partitions == -1 else max(topic.num_partitions, 0))
        for topic in topics
    )


def _all_refused(names: Iterable[str], message: str) -> ControllerResult[tuple[TopicCreated, ...]]:
    """The whole request, so also names that were given twice."""
    error = ApiError(ErrorCode.policy_violation, message)
    return ControllerResult(tuple(TopicCreated(name, error) for name in names))


def _created(name: str, records: list[MetadataRecord]) -> TopicCreated:
    partitions = [record for record in records if isinstance(record, PartitionRecord)]
    return TopicCreated(
        name,
        topic_id=partitions[0].topic_id,
        num_partitions=len(partitions),
        replication_factor=len(partitions[0].replicas),
    )


def _create(
    topic: NewTopic, image: MetadataImage, settings: ControllerSettings, collisions: dict[str, str], placer: Placer
) -> list[MetadataRecord] | ApiError:
    if error := _check_name(topic.name, image, collisions):
        return error
    if nulls := [name for name, value in topic.configs if value is None]:
        message = f"Null value not supported for topic configs: {','.join(nulls)}"
        return ApiError(ErrorCode.invalid_config, message)
    resource = ConfigResource(ResourceType.TOPIC, topic.name)
    values = {name: value for name, value in topic.configs if value is not None}
    if values and (wrong := configs.too_long(values.values()) or settings.configs.check(resource, values)) is not None:
        return wrong
    replicas = _manual(topic, image) if topic.assignments else _placed(topic, image, settings, placer)
    if isinstance(replicas, ApiError):
        return replicas
    topic_id = settings.random.uuid()
    return [
        TopicRecord(name=topic.name, topic_id=topic_id),
        # Kafka's order: whoever replays the partitions knows the configs already
        *(configs.record(resource, name, value) for name, value in sorted(values.items())),
        *(partition_record(topic_id, number, one, image) for number, one in enumerate(replicas)),
    ]


def _check_name(name: str, image: MetadataImage, collisions: dict[str, str]) -> ApiError | None:
    if name in image.topic_ids:
        return ApiError(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if wrong := topic_names.what_is_wrong(name):
        return ApiError(ErrorCode.invalid_topic_exception, wrong)
    if topic_names.has_collision_chars(name) and (other := collisions.get(topic_names.collision_key(name))):
        return ApiError(ErrorCode.invalid_topic_exception, f"Topic '{name}' collides with existing topic: {other}")
    return None


def _manual(topic: NewTopic, image: MetadataImage) -> list[tuple[int, ...]] | ApiError:
    if topic.replication_factor != USE_DEFAULT or topic.num_partitions != USE_DEFAULT:
        what = "replication factor" if topic.replication_factor != USE_DEFAULT else "numPartitions"
        message = f"A manual partition assignment was specified, but {what} was not set to -1."
        return ApiError(ErrorCode.invalid_request, message)
    assigned: dict[int, tuple[int, ...]] = {}
    for partition, replicas in topic.assignments:
        breathe()
        if wrong := _wrong_with_assignment(partition, replicas, assigned, image):
            return ApiError(ErrorCode.invalid_replica_assignment, wrong)
        assigned[partition] = replicas
    if sorted(assigned) != list(range(len(assigned))):
        message = "partitions should be a consecutive 0-based integer sequence"
        return ApiError(ErrorCode.invalid_replica_assignment, message)
    return [assigned[partition] for partition in range(len(assigned))]


def _wrong_with_assignment(
    partition: int, replicas: tuple[int, ...], before: dict[int, tuple[int, ...]], image: MetadataImage
) -> str | None:
    if partition in before:
        return f"Found multiple manual partition assignments for partition {partition}"
    factor = len(next(iter(before.values()), replicas))
    return wrong_with_replicas(replicas, factor, image) or nobody_could_lead(partition, replicas, image)


def _placed(
    topic: NewTopic, image: MetadataImage, settings: ControllerSettings, placer: Placer
) -> list[tuple[int, ...]] | ApiError:
    if topic.replication_factor < USE_DEFAULT or topic.replication_factor == 0:
        message = "Replication factor must be larger than 0, or -1 to use the default value."
        return ApiError(ErrorCode.invalid_replication_factor, message)
    if topic.num_partitions < USE_DEFAULT or topic.num_partitions == 0:
        message = "Number of partitions was set to an invalid non-positive value."
        return ApiError(ErrorCode.invalid_partitions, message)
    use_default = topic.replication_factor == USE_DEFAULT
    factor = settings.default_replication_factor if use_default else topic.replication_factor
    count = settings.default_num_partitions if topic.num_partitions == USE_DEFAULT else topic.num_partitions
    reason = "All brokers are currently fenced or in controlled shutdown."
    try:
        placed = placer.place(count, factor)
    except PlacementError as error:
        reason = str(error)
    else:
        if all(has_active(replicas, image) for replicas in placed):
            return placed
    message = f"Unable to replicate the partition {factor} time(s): {reason}"
    return ApiError(ErrorCode.invalid_replication_factor, message)
