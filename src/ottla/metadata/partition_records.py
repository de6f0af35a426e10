"""From partition records to the image of a partition."""

from typing import Any, Final
from uuid import UUID

from ottla.metadata.image import DIRECTORY_MIGRATING, LeaderRecoveryState, PartitionImage

NO_LEADER_CHANGE: Final = -2
NO_RECOVERY_CHANGE: Final = -1


def created(record: Any) -> PartitionImage:
    """From a PartitionRecord."""
    return PartitionImage(
        replicas=record.replicas,
        directories=directories(record.directories, record.replicas),
        isr=record.isr,
        leader=record.leader,
        leader_epoch=record.leader_epoch,
        partition_epoch=record.partition_epoch,
        leader_recovery_state=LeaderRecoveryState(record.leader_recovery_state),
        removing_replicas=record.removing_replicas,
        adding_replicas=record.adding_replicas,
        elr=record.eligible_leader_replicas or (),
        last_known_elr=record.last_known_elr or (),
    )


def merged(before: PartitionImage, record: Any) -> PartitionImage:
    """A PartitionChangeRecord on top. Naming a leader bumps the leader epoch, even if it led already."""
    leads_anew = record.leader != NO_LEADER_CHANGE
    replicas = before.replicas if record.replicas is None else record.replicas
    if record.directories is not None:
        new_directories = directories(record.directories, replicas)
    elif len(before.directories) == len(replicas):
        new_directories = before.directories
    else:
        new_directories = directories((), replicas)
    recovery = record.leader_recovery_state
    return PartitionImage(
        replicas=replicas,
        directories=new_directories,
        isr=before.isr if record.isr is None else record.isr,
        leader=record.leader if leads_anew else before.leader,
        leader_epoch=before.leader_epoch + leads_anew,
        partition_epoch=before.partition_epoch + 1,
        leader_recovery_state=(
            before.leader_recovery_state if recovery == NO_RECOVERY_CHANGE else LeaderRecoveryState(recovery)
        ),
        removing_replicas=before.removing_replicas if record.removing_replicas is None else record.removing_replicas,
        adding_replicas=before.adding_replicas if record.adding_replicas is None else record.adding_replicas,
        elr=before.elr if record.eligible_leader_replicas is None else record.eligible_leader_replicas,
        last_known_elr=before.last_known_elr if record.last_known_elr is None else record.last_known_elr,
    )


def directories(given: tuple[UUID | None, ...], replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """Records before metadata.version 17 have none; kio gives None for the zero id."""
    if not given:
        return (DIRECTORY_MIGRATING,) * len(replicas)
    return tuple(directory or DIRECTORY_MIGRATING for directory in given)
