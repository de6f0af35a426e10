"""AssignReplicasToDirs (key 73): in which of its log dirs a broker has put its replicas (KIP-858)."""

from __future__ import annotations

from datetime import timedelta
from itertools import groupby
from typing import Any

from ottla.broker.context import Context
from ottla.broker.controller_apis.broker_calls import ask_controller
from ottla.metadata.controller.requests import AssignReplicasToDirs, ReplicaDirectory
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import DIRECTORY_MIGRATING
from ottla.model.errors import ErrorCode
from ottla.model.names import NO_TOPIC_ID


async def handle(context: Context, request: Any) -> Any:
    assignments = tuple(
        ReplicaDirectory(topic.topic_id or NO_TOPIC_ID, row.partition_index, directory.id_ or DIRECTORY_MIGRATING)
        for directory in request.directories
        for topic in directory.topics
        for row in topic.partitions
    )
    outcome = await ask_controller(context, AssignReplicasToDirs(request.broker_id, request.broker_epoch, assignments))
    if isinstance(outcome, ApiError):
        return context.respond(throttle_time=timedelta(0), error_code=outcome.code, directories=[])
    directories = [
        {
            "id_": directory,
            "topics": [
                {
                    "topic_id": topic_id,
                    "partitions": [
                        {"partition_index": placed.partition, "error_code": error.code} for placed, error in of_topic
                    ],
                }
                for topic_id, of_topic in groupby(of_directory, key=lambda row: row[0].topic_id)
            ],
        }
        for directory, of_directory in groupby(outcome, key=lambda row: row[0].directory)
    ]
    return context.respond(throttle_time=timedelta(0), error_code=ErrorCode.none, directories=directories)
