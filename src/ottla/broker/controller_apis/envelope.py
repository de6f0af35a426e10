"""Envelope (key 58): a client's request that a broker passes on, with who asked and from where (KIP-590).

It is answered by the same code as one that comes directly, and its whole answer goes back inside. Errors of the
envelope are the broker's business: with NOT_CONTROLLER it looks for another controller, with UNSUPPORTED_VERSION it
closes the client's connection, others it tells the client as UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any, Final

from ottla.broker.context import Api, Context, settled
from ottla.broker.error_codes import errors_in
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.authorizer import CLUSTER_NAME, Operation, Principal, Resource
from ottla.security.principal_codec import UnreadablePrincipal, decode_principal
from ottla.wire.codec import MalformedRequest, RequestHeader, decode_request, parse_request_header, response_frame

_SIZE_BYTES: Final = 4  # of a frame, which an envelope does not have


async def handle(context: Context, request: Any) -> Any:
    if not context.allowed(Operation.CLUSTER_ACTION, Resource.CLUSTER, CLUSTER_NAME):
        return _failed(context, ErrorCode.cluster_authorization_failed)
    try:
        principal = _principal(request.request_principal)
        host = _host(request.client_host_address)
        header = _header(request.request_data)
        api = _api(context, header)
        entity = _entity(header, request.request_data)
    except KafkaError as error:
        return _failed(context, error.code)
    inner = context._replace(header=header, principal=principal, forwarded_host=host)
    answer = await settled(api.handle(inner, entity))
    if ErrorCode.not_controller in errors_in(answer):
        return _failed(context, ErrorCode.not_controller)
    data = response_frame(header.correlation_id, answer)[_SIZE_BYTES:]
    return context.respond(response_data=data, error_code=ErrorCode.none)


def _principal(data: bytes | None) -> Principal:
    try:
        return decode_principal(data or b"")
    except UnreadablePrincipal as error:
        raise KafkaError(ErrorCode.principal_deserialization_failure, str(error)) from None


def _host(address: bytes) -> str:
    try:
        return str(ip_address(address))
    except ValueError:
        message = f"{len(address)} bytes are not a client's address"
        raise KafkaError(ErrorCode.invalid_request, message) from None


def _header(data: bytes) -> RequestHeader:
    try:
        return parse_request_header(data)
    except MalformedRequest as error:
        raise KafkaError(ErrorCode.unsupported_version, str(error)) from None


def _api(context: Context, header: RequestHeader) -> Api:
    listener = context.node.controller_listener
    api = listener.dispatcher.apis.get(header.key) if listener is not None else None
    if api is None or not api.forwards:
        raise KafkaError(ErrorCode.invalid_request, f"an API with key {header.key} is not passed on")
    if not api.oldest <= header.version <= api.newest:
        raise KafkaError(ErrorCode.unsupported_version, f"{api.name} version {header.version}")
    return api


def _entity(header: RequestHeader, data: bytes) -> Any:
    try:
        return decode_request(header.key, header.version, memoryview(data)[header.body :])
    except MalformedRequest as error:
        raise KafkaError(ErrorCode.unsupported_version, str(error)) from None


def _failed(context: Context, code: ErrorCode) -> Any:
    return context.respond(response_data=None, error_code=code)
