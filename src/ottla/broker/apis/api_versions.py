"""ApiVersions (key 18): which APIs this node answers, in which versions, and which features the cluster has.

Versions: 1 adds the throttle time, 3 is flexible, names the client's software (KIP-511) and tells features (KIP-584), 4
tells also features whose lowest level is 0 (KIP-1022). The answer's header is always the old one. A version that is not
known is answered in version 0 with UNSUPPORTED_VERSION and this API alone, so that a newer client can step down.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from ottla.broker.context import Api, Context
from ottla.broker.features import finalized_features, supported_features
from ottla.model.errors import ErrorCode
from ottla.wire.client import VersionRange
from ottla.wire.codec import API_VERSIONS

_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(context: Context, request: Any) -> Any:
    return answer(context, request, context.node.dispatcher.apis, context.node.controller.versions)


def answer(
    context: Context, request: Any, apis: Mapping[int, Api], controller: Mapping[int, VersionRange] | None = None
) -> Any:
    """`apis` are those of the listener. What is passed on to a controller is offered only as far as that one can it."""
    if request is None:
        return _answer(context, ErrorCode.unsupported_version, [apis[API_VERSIONS]])
    if context.version >= 3 and not (
        _SOFTWARE.fullmatch(request.client_software_name) and _SOFTWARE.fullmatch(request.client_software_version)
    ):
        return _answer(context, ErrorCode.invalid_request, [])
    node = context.node
    image = node.image
    if context.version >= 3:
        context.connection.software = request.client_software_name, request.client_software_version
    return _answer(
        context,
        ErrorCode.none,
        [api for api in _known_to(controller, apis.values()) if api.is_offered is None or api.is_offered(node)],
        supported_features=supported_features(context.node.software.features, with_level_zero=context.version >= 4),
        finalized_features=finalized_features(image, node.raft.kraft_version),
        finalized_features_epoch=image.offset,
    )


def _known_to(controller: Mapping[int, VersionRange] | None, apis: Iterable[Api]) -> Iterator[Api]:
    for api in apis:
        if controller is None or not api.forwards:
            yield api
        elif (offered := controller.get(api.key)) is not None:
            oldest, newest = max(api.oldest, offered.oldest), min(api.newest, offered.newest)
            if oldest <= newest:
                yield replace(api, oldest=oldest, newest=newest)


def _answer(context: Context, code: ErrorCode, apis: list[Api], **features: Any) -> Any:
    return context.respond(
        throttle_time=timedelta(0),
        error_code=code,
        api_keys=[
            {
                "api_key": api.key,
                "min_version": api.oldest if api.advertise_from is None else api.advertise_from,
                "max_version": api.newest,
            }
            for api in sorted(apis, key=lambda api: api.key)
        ],
        **features,
    )
