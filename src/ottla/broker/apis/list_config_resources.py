"""ListConfigResources (key 74): what has configs, by type (KIP-1142).

Versions: 0 was ListClientMetricsResources (KIP-1000) and knows these only; 1 tells types, and all of them if none is
asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Context
from ottla.metadata.image import MetadataImage, ResourceType
from ottla.model.errors import ErrorCode
from ottla.security.authorizer import CLUSTER_NAME, Operation, Resource


def _brokers(image: MetadataImage) -> Iterable[str]:
    return map(str, image.brokers)


def _with_configs(kind: ResourceType) -> Callable[[MetadataImage], Iterable[str]]:
    return lambda image: (resource.name for resource in image.configs if resource.type == kind)


_NAMES: Final[dict[int, Callable[[MetadataImage], Iterable[str]]]] = {
    ResourceType.GROUP: _with_configs(ResourceType.GROUP),
    ResourceType.CLIENT_METRICS: _with_configs(ResourceType.CLIENT_METRICS),
    ResourceType.BROKER_LOGGER: _brokers,
    ResourceType.BROKER: _brokers,
    ResourceType.TOPIC: lambda image: image.topic_ids,
}


def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, CLUSTER_NAME):
        return _answer(context, ErrorCode.cluster_authorization_failed)
    kinds = (request.resource_types or tuple(_NAMES)) if context.version >= 1 else (ResourceType.CLIENT_METRICS,)
    if any(kind not in _NAMES for kind in kinds):
        return _answer(context, ErrorCode.unsupported_version)
    image = context.node.image
    return _answer(
        context, ErrorCode.none, [(kind, name) for kind in dict.fromkeys(kinds) for name in _NAMES[kind](image)]
    )


def _answer(context: Context, code: ErrorCode, found: Iterable[tuple[int, str]] = ()) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=code,
        config_resources=[{"resource_name": name, "resource_type": kind} for kind, name in found],
    )
