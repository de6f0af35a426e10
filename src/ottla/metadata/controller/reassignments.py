"""AlterPartitionReassignments: other brokers for a partition's replicas, or calling such a move off.

A move has two steps. First the new replicas are added, those that are to go are marked, and nobody leaves. When all new
ones are in sync (partition_change.py), those marked leave. A mere change of order is done at once.
"""

from __future__ import annotations

from typing import Final

from ottla.env.slices import breathe
from ottla.metadata.controller.assignments import wrong_with_replicas
from ottla.metadata.controller.partition_changes import PartitionChanges
from ottla.metadata.controller.requests import AlterPartitionReassignments, PartitionErrors, Reassignment
from ottla.metadata.controller.result import MAX_RECORDS, NO_ERROR, ApiError, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.records.partition_change_record import PartitionChangeRecord
from ottla.model.errors import ErrorCode

_NOTHING_TO_CALL_OFF: Final = ApiError(ErrorCode.no_reassignment_in_progress)


def alter_reassignments(
    request: AlterPartitionReassignments, image: MetadataImage, settings: ControllerSettings, soft: SoftState
) -> ControllerResult[PartitionErrors] | Refused:
    changes = PartitionChanges(image, settings, soft)
    records: list[PartitionChangeRecord] = []
    replies = []
    for name, wanted in request.topics:
        outcomes = []
        for one in wanted:
            breathe()
            outcome = _reassigned(name, one, request.may_change_factor, image, changes)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
                outcome = NO_ERROR
            outcomes.append((one.partition, outcome))
        replies.append((name, tuple(outcomes)))
    if len(records) > MAX_RECORDS:
        message = f"more than {MAX_RECORDS} partitions in one request: reassign them in parts"
        return Refused(ApiError(ErrorCode.policy_violation, message))
    return ControllerResult(tuple(replies), tuple(records))


def _reassigned(
    name: str, wanted: Reassignment, may_change_factor: bool, image: MetadataImage, changes: PartitionChanges
) -> PartitionChangeRecord | ApiError:
    topic = image.topic(name)
    if topic is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find a topic named {name}.")
    partition = topic.partitions.get(wanted.partition)
    if partition is None:
        return ApiError(ErrorCode.unknown_topic_or_partition, f"Unable to find partition {name}:{wanted.partition}.")
    if wanted.replicas is None:
        return _called_off(topic, wanted.partition, partition, changes)
    if (wrong := wrong_with_replicas(wanted.replicas, None, image)) is not None:
        return ApiError(ErrorCode.invalid_replica_assignment, wrong)
    factor = len(set(partition.replicas).difference(partition.removing_replicas))
    if len(wanted.replicas) != factor and not may_change_factor:
        message = f"The replication factor is changed from {factor} to {len(wanted.replicas)}"
        return ApiError(ErrorCode.invalid_replication_factor, message)
    change = changes.change(topic, wanted.partition, partition)
    removing = tuple(sorted(set(partition.replicas).difference(wanted.replicas)))
    adding = tuple(sorted(set(wanted.replicas).difference(partition.replicas)))
    change.replicas = wanted.replicas + removing
    change.removing = removing or change.removing
    change.adding = adding or change.adding
    return change.record() or NO_ERROR


def _called_off(
    topic: TopicImage, number: int, partition: PartitionImage, changes: PartitionChanges
) -> PartitionChangeRecord | ApiError:
    """Without those that were to be added, with those that were to go."""
    if not partition.is_reassigning:
        return _NOTHING_TO_CALL_OFF
    replicas = tuple(broker_id for broker_id in partition.replicas if broker_id not in partition.adding_replicas)
    isr = tuple(broker_id for broker_id in partition.isr if broker_id not in partition.adding_replicas)
    if not replicas:
        message = "Invalid replica assignment: addingReplicas contains all replicas."
        return ApiError(ErrorCode.invalid_replica_assignment, message)
    if not isr and not changes.of_topics.may_be_unclean(topic.name):
        message = (
            f"Unable to revert partition assignment for {topic.name}:{number} because it would require an unclean "
            "leader election."
        )
        return ApiError(ErrorCode.invalid_replica_assignment, message)
    change = changes.change(topic, number, partition, may_be_unclean=True)
    change.replicas = replicas
    change.isr = isr or replicas[:1]
    change.removing = change.adding = ()
    return change.record() or NO_ERROR
