"""Passes on what only the active controller can answer, when that is in another process (KIP-590).

The client's request travels as it came, in an Envelope that also says who asked, and from where. The answer that comes
back is the one for the client, correlation id included.
"""

from __future__ import annotations

import logging
from ipaddress import IPv6Address, ip_address
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ottla.env.metrics import Times
from ottla.model.errors import ErrorCode, KafkaError
from ottla.security.principal_codec import encode_principal
from ottla.wire.codec import decode_response, encode_body, request_header, response_body_position
from ottla.wire.reply import CloseConnection

if TYPE_CHECKING:
    from ottla.broker.context import Context
    from ottla.broker.controller_channel import ControllerChannel

_log = logging.getLogger("ottla.broker")
_WITHIN_S: Final = 60.0  # as long as Kafka tries
_SIZE: Final = Struct(">i")
_CORRELATION: Final = Struct(">i")


class Forwarding:
    def __init__(self, channel: ControllerChannel) -> None:
        self.waiting = 0
        """How many requests are under way."""
        self.times = Times()
        self._channel = channel

    async def pass_on(self, context: Context, request: bytes) -> bytes:
        """The frame to answer a request with; `request` is its header and body.

        KafkaError if there is no answer, CloseConnection if the controller does not know this version of the API,
        ControllerIsHere (controller_channel.py) if meanwhile this node's own controller can be asked.
        """
        answer = await self._answer(context, request)
        return _SIZE.pack(len(answer)) + answer

    async def ask(self, context: Context, entity: Any) -> Any:
        """As `pass_on`, for a request of the same API and version that was made of the client's."""
        key, version, correlation_id, client_id, _ = context.header
        header = request_header(key, version, correlation_id, client_id or "")
        answer = await self._answer(context, header + encode_body(entity))
        return decode_response(key, version, memoryview(answer)[response_body_position(key, version, answer) :])

    async def _answer(self, context: Context, request: bytes) -> bytes:
        self.waiting += 1
        began = context.node.env.loop.time()
        try:
            answer = await self._channel.call(_envelope(context, request), _WITHIN_S)
        finally:
            self.waiting -= 1
            self.times.note(context.node.env.loop.time() - began)
        code, data = answer.error_code, answer.response_data
        if code is ErrorCode.unsupported_version:
            # The controller has changed since the client learnt the versions: it is to ask for them again.
            raise CloseConnection(f"the active controller does not know version {context.version} of this API")
        if (
            code is not ErrorCode.none
            or data is None
            or _CORRELATION.unpack_from(data)[0] != context.header.correlation_id
        ):
            _log.warning(
                "the controller did not answer a request with key %d that was passed on to it: %s",
                *(context.header.key, code.name.upper()),
            )
            raise KafkaError(ErrorCode.unknown_server_error)
        return bytes(data)


def _envelope(context: Context, request: bytes) -> Any:
    from kio.schema.envelope.v0 import EnvelopeRequest

    return EnvelopeRequest(
        request_data=request,
        request_principal=encode_principal(context.principal),
        client_host_address=_packed(context.client_host),
    )


def _packed(host: str) -> bytes:
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:  # a connection that ended before it said where it came from
        return bytes(4)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.packed
    return address.packed
