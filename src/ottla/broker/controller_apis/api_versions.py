"""ApiVersions (key 18) of a controller: apis/api_versions.py, with what the controller's listener offers."""

from __future__ import annotations

from typing import Any

from ottla.broker.apis import api_versions
from ottla.broker.context import Context


def handle(context: Context, request: Any) -> Any:
    listener = context.node.controller_listener
    assert listener is not None
    return api_versions.answer(context, request, listener.dispatcher.apis)
