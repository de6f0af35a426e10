"""Kafka's messages to and from bytes: headers by hand, bodies through kio.

kio has one class for each version of each message and imports them one by one; here they are loaded when a message of
that key and version first comes by. Results are typed `Any`: every version is a class of its own, and the API files
know which fields theirs have.
"""

from __future__ import annotations

from io import BytesIO
from struct import Struct
from struct import error as StructError
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.env.ports import Buffer
from ottla.wire.build import with_rows
from ottla.wire.varint import Malformed, skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[bytes | memoryview, int], tuple[Any, int]]
    Writer = Callable[[BytesIO, Any], None]

API_VERSIONS: Final = 18

# The first version of each request with tagged fields, in which header and body change together. None: no version.
# Here and not taken from kio, because a header must be read before it is known whether the version is one we have.
FIRST_FLEXIBLE: Final[dict[int, int | None]] = {
    0: 9, 1: 12, 2: 6, 3: 9, 8: 8, 9: 6, 10: 3, 11: 6, 12: 4, 13: 4, 14: 4, 15: 5, 16: 3, 17: None, 18: 3, 19: 5,
    20: 4, 21: 2, 22: 2, 23: 4, 24: 3, 25: 3, 26: 3, 27: 1, 28: 3, 29: 2, 30: 2, 31: 2, 32: 4, 33: 2, 34: 2, 35: 2,
    36: 2, 37: 2, 38: 2, 39: 2, 40: 2, 41: 2, 42: 2, 43: 2, 44: 1, 45: 0, 46: 0, 47: None, 48: 1, 49: 1, 50: 0, 51: 0,
    52: 0, 53: 1, 54: 1, 55: 0, 56: 2, 57: 0, 58: 0, 59: 0, 60: 0, 61: 0, 62: 0, 63: 0, 64: 0, 65: 0, 66: 0, 67: 0,
    68: 0, 69: 0, 70: 0, 71: 0, 72: 0, 73: 0, 74: 0, 75: 0, 76: 1, 77: 1, 78: 1, 79: 1, 80: 0, 81: 0, 82: 0, 83: 0,
    84: 0, 85: 0, 86: 0, 87: 0, 88: 0, 89: 0, 90: 0, 91: 0, 92: 0,
}  # fmt: skip

_REQUEST_HEADER: Final = Struct(">hhih")  # key, version, correlation id, length of the client id
_SIZE_AND_CORRELATION: Final = Struct(">ii")
_CORRELATION: Final = Struct(">i")


class MalformedRequest(Exception):
    """A message that cannot be read. The connection it came on is closed: what follows it cannot be trusted."""


class UnsupportedVersion(MalformedRequest):
    """No schema for this key and version."""


class RequestHeader(NamedTuple):
    key: int
    version: int
    correlation_id: int
    client_id: str | None
    body: int  # where the body begins


def is_flexible(key: int, version: int) -> bool:
    first = FIRST_FLEXIBLE.get(key)
    return first is not None and version >= first


def parse_request_header(frame: Buffer) -> RequestHeader:
    """The header at the start of a frame (without the frame's own size)."""
    try:
        key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(frame)
    except StructError:
        raise MalformedRequest(f"{len(frame)} bytes are too few for a request header") from None
    if key not in FIRST_FLEXIBLE:
        raise UnsupportedVersion(f"request with key {key}, which no API has")
    position = 10
    client_id = None
    if length >= 0:
        position += length
        if position > len(frame):
            raise MalformedRequest(f"client id says {length} bytes, the request ends before")
        client_id = str(frame[10:position], "utf-8", "replace")
    if is_flexible(key, version):
        position = _body_after_tags(frame, position)
    return RequestHeader(key, version, correlation_id, client_id, position)


def _body_after_tags(data: Buffer, position: int) -> int:
    try:
        return skip_tags(data, position)
    except Malformed as error:
        raise MalformedRequest(f"tagged fields of a header cannot be read: {error}") from None


def response_header(key: int, version: int, correlation_id: int) -> bytes:
    # ApiVersions always answers with the old header: a client asks before it knows what the broker can do (KIP-511)
    if key != API_VERSIONS and is_flexible(key, version):
        return _CORRELATION.pack(correlation_id) + b"\x00"
    return _CORRELATION.pack(correlation_id)


def response_body_position(key: int, version: int, frame: Buffer) -> int:
    """Where the body begins in an answer; the correlation id is in the first four bytes."""
    if len(frame) < 4:
        raise MalformedRequest(f"{len(frame)} bytes are too few for a response header")
    return _body_after_tags(frame, 4) if key != API_VERSIONS and is_flexible(key, version) else 4


def request_header(key: int, version: int, correlation_id: int, client_id: str) -> bytes:
    encoded = client_id.encode()
    head = _REQUEST_HEADER.pack(key, version, correlation_id, len(encoded)) + encoded
    return head + b"\x00" if is_flexible(key, version) else head


def decode_request(key: int, version: int, body: Buffer) -> Any:
    """The request as kio's entity. MalformedRequest, and nothing else, for bytes that are not one."""
    return with_rows(_decode(_request_types, key, version, body))


def decode_response(key: int, version: int, body: Buffer) -> Any:
    return _decode(_response_types, key, version, body)


def encode_body(entity: Any) -> bytes:
    """A request or an answer without its header."""
    entity_type = type(entity)
    writer = _writers.get(entity_type) or _load_writer(entity_type)
    out = BytesIO()
    writer(out, entity)
    return out.getvalue()


def response_frame(correlation_id: int, entity: Any) -> bytes:
    """The whole answer: size, header, body."""
    body = encode_body(entity)
    if entity.__api_key__ != API_VERSIONS and entity.__flexible__:
        return _SIZE_AND_CORRELATION.pack(len(body) + 5, correlation_id) + b"\x00" + body
    return _SIZE_AND_CORRELATION.pack(len(body) + 4, correlation_id) + body


class _Loaded(NamedTuple):
    entity_type: type[Any]
    check: Callable[[type[Any], bytes | memoryview], bytes | memoryview]
    rewrite: Callable[[type[Any], bytes | memoryview], bytes]
    read: Reader


Types = dict[tuple[int, int], _Loaded]
_request_types: Final[Types] = {}
_response_types: Final[Types] = {}
_writers: Final[dict[type[Any], Writer]] = {}


def _decode(types: Types, key: int, version: int, body: Buffer) -> Any:
    entity_type, check, rewrite, read = types.get((key, version)) or _load(types, key, version)
    data = body if isinstance(body, bytes) else memoryview(body).toreadonly()
    try:
        checked = check(entity_type, data)
        try:
            entity, _ = read(checked, 0)
        except Exception:  # kio raises its own errors, ValueError, KeyError, OverflowError
            entity, _ = read(rewrite(entity_type, data), 0)  # Kafka puts up with more than kio does
    except Exception as error:
        raise MalformedRequest(f"{entity_type.__name__} version {version} cannot be read: {error}") from error
    return entity


def _load(types: Types, key: int, version: int) -> _Loaded:
    from kio.index import KioIndexError, load_request_schema, load_response_schema
    from kio.serial import entity_reader

    from ottla.wire.structure import check, rewrite

    load = load_request_schema if types is _request_types else load_response_schema
    try:
        entity_type = load(key, version)
    except KioIndexError:
        raise UnsupportedVersion(f"no schema for request key {key} version {version}") from None
    loaded = types[key, version] = _Loaded(entity_type, check, rewrite, entity_reader(entity_type))
    return loaded


def _load_writer(entity_type: type[Any]) -> Writer:
    from kio.serial import entity_writer

    writer: Writer = entity_writer(entity_type)
    _writers[entity_type] = writer
    return writer
