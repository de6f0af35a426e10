"""All of them, by the request that they carry."""

from typing import Any, Final

from ottla.broker.controller_rpc import (
    allocate_producer_ids,
    alter_partition,
    alter_partition_reassignments,
    assign_replicas_to_dirs,
    broker_heartbeat,
    broker_registration,
    controller_registration,
    create_topics,
    elect_leaders,
)
from ottla.broker.controller_rpc.rpc import Rpc
from ottla.metadata.controller.requests import Request

BY_REQUEST: Final[dict[type[Request[Any]], Rpc]] = {
    file.RPC.request: file.RPC
    for file in (
        allocate_producer_ids,
        alter_partition,
        alter_partition_reassignments,
        assign_replicas_to_dirs,
        broker_heartbeat,
        broker_registration,
        controller_registration,
        create_topics,
        elect_leaders,
    )
}
