"""What AlterConfigs and IncrementalAlterConfigs have in common.

The broker looks at a resource first: what is wrong by its form, and whether this node could take a config of its own.
The rest goes to the controller, which knows the other rules; where that is in another process, as a request of the same
kind with the rows that are left. Answers come in the order of the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.broker.controller_call import call_controller
from ottla.broker.controller_channel import ControllerIsHere
from ottla.env.breath import Breath
from ottla.env.slices import breathe
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import NO_ERROR, ApiError
from ottla.metadata.image import ConfigResource, ResourceType
from ottla.model.config import ConfigError
from ottla.model.config.definition import whole_number
from ottla.model.config.dynamic import checked_dynamic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource

Outcomes = tuple[tuple[ConfigResource, ApiError], ...]
Check = Callable[[Context, Any], bool]
"""KafkaError for what is wrong with a resource; whether nothing is left for the controller to do."""

_STORED: Final = (ResourceType.TOPIC, ResourceType.BROKER, ResourceType.CLIENT_METRICS, ResourceType.GROUP)
_GUARDS: Final = {
    ResourceType.TOPIC: (Resource.TOPIC, ErrorCode.topic_authorization_failed),
    ResourceType.GROUP: (Resource.GROUP, ErrorCode.group_authorization_failed),
}


def resource_of(row: Any) -> ConfigResource:
    return ConfigResource(row.resource_type, row.resource_name)


async def alter(
    context: Context,
    request: Any,
    check: Check,
    request_for: Callable[[list[Any]], Request[Outcomes]],
    *,
    passes_on: bool = False,
) -> Any:
    """`passes_on` in a broker: a controller that is asked directly answers itself, active or not."""
    rows = request.resources
    outcomes = await _look_at(context, rows, check)
    left = [row for row, outcome in zip(rows, outcomes, strict=True) if outcome is None]
    told: Mapping[ConfigResource, ApiError] = {}
    if left and passes_on and not context.node.local_controller.is_active:
        told = await _passed_on(context, replace(request, resources=tuple(left)), request_for)
    elif left:
        told = await _decided_here(context, left, request_for)
    return context.respond(
        throttle_time=timedelta(0),
        responses=[
            _answer(row, told[resource_of(row)] if outcome is None else outcome)
            for row, outcome in zip(rows, outcomes, strict=True)
        ],
    )


async def _look_at(context: Context, rows: Sequence[Any], check: Check) -> list[ApiError | None]:
    """A broker's configs are checked all together, which takes a while: others get the loop in between."""
    counts = Counter(map(resource_of, rows))
    outcomes: list[ApiError | None] = []
    breath = Breath(context.node.env.clock)
    for row in rows:
        await breath.take()
        try:
            if counts[resource_of(row)] > 1:
                raise KafkaError(ErrorCode.invalid_request, "Each resource must appear at most once.")
            if len({config.name for config in row.configs}) != len(row.configs):
                raise KafkaError(ErrorCode.invalid_request, "Error due to duplicate config keys")
            outcomes.append(NO_ERROR if check(context, row) else None)
        except KafkaError as error:
            outcomes.append(ApiError(error.code, error.message))
    return outcomes


async def _passed_on(
    context: Context, request: Any, request_for: Callable[[list[Any]], Request[Outcomes]]
) -> Mapping[ConfigResource, ApiError]:
    try:
        answer = await context.node.forwarding.ask(context, request)
    except ControllerIsHere:
        return await _decided_here(context, request.resources, request_for)
    except KafkaError as error:
        return dict.fromkeys(map(resource_of, request.resources), ApiError(error.code, error.message))
    return {resource_of(row): ApiError(row.error_code, row.error_message) for row in answer.responses}


async def _decided_here(
    context: Context, rows: Sequence[Any], request_for: Callable[[list[Any]], Request[Outcomes]]
) -> Mapping[ConfigResource, ApiError]:
    told: dict[ConfigResource, ApiError] = {}
    allowed = []
    for row in rows:
        breathe()
        refusal = _refusal(context, resource_of(row))
        if refusal is None:
            allowed.append(row)
        else:
            told[resource_of(row)] = refusal
    if allowed:
        told.update(await _by_the_controller(context, allowed, request_for))
    return told


async def _by_the_controller(
    context: Context, rows: list[Any], request_for: Callable[[list[Any]], Request[Outcomes]]
) -> Mapping[ConfigResource, ApiError]:
    try:
        request = request_for(rows)
    except KafkaError as error:  # one that cannot even be asked spoils them all, as in Kafka
        return dict.fromkeys(map(resource_of, rows), ApiError(error.code, error.message))
    within = timedelta(milliseconds=context.node.config.request_timeout_ms)
    outcome = await call_controller(context, request, within)
    if isinstance(outcome, ApiError):
        return dict.fromkeys(map(resource_of, rows), outcome)
    return dict(outcome)


def _refusal(context: Context, resource: ConfigResource) -> ApiError | None:
    guard, code = _GUARDS.get(ResourceType(resource.type), (Resource.CLUSTER, ErrorCode.cluster_authorization_failed))
    name = CLUSTER_NAME if guard is Resource.CLUSTER else resource.name
    return None if context.allowed(Operation.ALTER_CONFIGS, guard, name) else ApiError(code)


def _answer(row: Any, outcome: ApiError) -> dict[str, Any]:
    breathe()
    return {
        "error_code": outcome.code,
        "error_message": outcome.message,
        "resource_type": row.resource_type,
        "resource_name": row.resource_name,
    }


# -- checks


def demand_values(names_of_nulls: Sequence[str]) -> None:
    if names_of_nulls:
        raise KafkaError(ErrorCode.invalid_request, f"Null value not supported for : {', '.join(names_of_nulls)}")


def demand_stored_type(row: Any) -> None:
    if row.resource_type not in _STORED:
        raise KafkaError(ErrorCode.invalid_request, f"Unknown resource type {row.resource_type}")


def demand_this_node(
    context: Context, name: str, otherwise: str = "Unexpected broker id, expected {}, but received {}"
) -> None:
    own = context.node.config.node_id
    number = whole_number(name)
    if number is None:
        raise KafkaError(ErrorCode.invalid_request, f"Node id must be an integer, but it is: {name}")
    if number != own:
        raise KafkaError(ErrorCode.invalid_request, otherwise.format(own, name))


def demand_possible(context: Context, name: str, values: Mapping[str, str]) -> None:
    """Whether this node could run with these values for it, or for all brokers if there is no name."""
    try:
        checked_dynamic(context.node.config, values, per_broker=bool(name))
    except ConfigError as error:
        # KAFKA-13609: INVALID_CONFIG would say it better, but clients know this one
        raise KafkaError(ErrorCode.invalid_request, str(error)) from None
