"""AlterPartitionReassignments, as far as one broker goes: the checks, a new order of the replicas, nothing to call off.

To move replicas to other brokers these must fetch, which is still to come; so is a reassignment that is under way.
"""

from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller.assignments import nobody_could_lead, wrong_with_replicas
from ottla.metadata.controller.requests import AlterPartitionReassignments, PartitionErrors, Reassignment
from ottla.metadata.controller.result import NO_ERROR, ApiError, ControllerResult
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

_NOTHING_TO_CALL_OFF: Final = ApiError(ErrorCode.no_reassignment_in_progress)


def alter_reassignments(
    request: AlterPartitionReassignments, image: MetadataImage
) -> ControllerResult[PartitionErrors]:
    records: list[PartitionChangeRecord] = []
    replies = []
    for name, wanted in request.topics:
        outcomes = []
        for one in wanted:
            breathe()
            outcome = _reassigned(name, one, request.may_change_factor, image)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
                outcome = NO_ERROR
            outcomes.append((one.partition, outcome))
        replies.append((name, tuple(outcomes)))
    return ControllerResult(tuple(replies), tuple(records))


def _reassigned(
    name: str, wanted: Reassignment, may_change_factor: bool, image: MetadataImage
) -> PartitionChangeRecord | ApiError:
    topic = image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition)
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{wanted.partition}.")
    if wanted.replicas is None:
        return _NOTHING_TO_CALL_OFF
    wrong = wrong_with_replicas(wanted.replicas, None, image)
    if wrong is None:
        wrong = nobody_could_lead(wanted.partition, wanted.replicas, image)
    if wrong is not None:
        return ApiError(ErrorCode.invalid_replica_assignment, wrong)
    if len(wanted.replicas) != len(partition.replicas) and not may_change_factor:
        message = f"the partition has {len(partition.replicas)} replica(s), and that is not to change"
        return ApiError(ErrorCode.invalid_replication_factor, message)
    if wanted.replicas == partition.replicas:
        return NO_ERROR
    if sorted(wanted.replicas) != sorted(partition.replicas):
        return ApiError(ErrorCode.invalid_replica_assignment, "replicas cannot be moved between brokers yet")
    directories = tuple(partition.directory_of(broker_id) for broker_id in wanted.replicas)
    return PartitionChangeRecord(
        partition_id=wanted.partition, topic_id=topic.id, replicas=wanted.replicas, directories=directories
    )
