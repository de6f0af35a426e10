"""Reads the metrics that clients push: OpenTelemetry's protobuf (MetricsData), as much of it as clients send.

A reader of strangers' bytes: whatever is wrong with them is a ValueError. Unknown fields are passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Any, Final, NamedTuple

from ottla.record.compression import decompress
from ottla.record.records import BatchTooLarge, CorruptBatch

_DOUBLE: Final = Struct("<d")
_SIGNED: Final = Struct("<q")
_DELTA: Final = 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
MAX_POINTS: Final = 5000
MAX_TEXT: Final = 256

Attributes = tuple[tuple[str, str], ...]


class Point(NamedTuple):
    name: str
    attributes: Attributes
    value: float
    is_counter: bool  # only grows; otherwise a level
    is_delta: bool  # to be added to what came before


def read_pushed(payload: bytes, compression: int, limit: int) -> list[Point]:
    """The numbers in a push. ValueError if they cannot be read, BatchTooLarge if they are longer than the limit."""
    try:
        plain = decompress(compression, payload, limit=limit)
    except BatchTooLarge:
        raise
    except CorruptBatch as error:
        raise ValueError(f"the metrics cannot be decompressed: {error}") from error
    return read(memoryview(plain))


def read(data: memoryview) -> list[Point]:
    points: list[Point] = []
    for _, resource_metrics in _messages(data, 1):
        common: Attributes = ()
        for number, part in _messages(resource_metrics, 1, 2):
            if number == 1:
                common = tuple(_attributes(part, 1))
            else:
                for _, metric in _messages(part, 2):
                    points.extend(_points(metric, common))
                    if len(points) > MAX_POINTS:
                        raise ValueError(f"more than {MAX_POINTS} numbers")
    return points


def _points(metric: memoryview, common: Attributes) -> Iterator[Point]:
    name = ""
    for number, value in _fields(metric):
        if number == 1:
            name = _text(value)
        elif number in (5, 7) and isinstance(value, memoryview):  # a level, a sum
            is_sum = number == 7
            temporality = monotonic = 0
            for inner, flag in _fields(value):
                if inner == 2 and isinstance(flag, int):
                    temporality = flag
                elif inner == 3 and isinstance(flag, int):
                    monotonic = flag
            for _, point in _messages(value, 1):
                yield Point(
                    name,
                    common + tuple(_attributes(point, 7)),
                    _number(point),
                    is_counter=is_sum and bool(monotonic),
                    is_delta=is_sum and temporality == _DELTA,
                )


def _number(point: memoryview) -> float:
    for number, value in _fields(point):
        if number == 4 and isinstance(value, bytes):
            return float(_DOUBLE.unpack(value)[0])
        if number == 6 and isinstance(value, bytes):
            return int(_SIGNED.unpack(value)[0])
    return 0.0


def _attributes(message: memoryview, field: int) -> Iterator[tuple[str, str]]:
    for _, pair in _messages(message, field):
        key, text = "", ""
        for number, value in _fields(pair):
            if number == 1:
                key = _text(value)
            elif number == 2 and isinstance(value, memoryview):
                text = _any_value(value)
        yield key, text


def _any_value(message: memoryview) -> str:
    for number, value in _fields(message):
        if number == 1:
            return _text(value)
        if number == 2:
            return "true" if value else "false"
        if number == 3 and isinstance(value, int):
            return str(value - (1 << 64) if value >> 63 else value)
        if number == 4 and isinstance(value, bytes):
            return str(_DOUBLE.unpack(value)[0])
    return ""


# -- protobuf


def _messages(data: memoryview, *wanted: int) -> Iterator[tuple[int, memoryview]]:
    for number, value in _fields(data):
        if number in wanted:
            if not isinstance(value, memoryview):
                raise ValueError(f"field {number} should hold a message")
            yield number, value


def _fields(data: memoryview) -> Iterator[tuple[int, Any]]:
    """Numbers and values: an int of a varint, bytes of a fixed one, a memoryview of anything longer."""
    at, end = 0, len(data)
    while at < end:
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: int | bytes | memoryview
        if kind == _VARINT:
            value, at = _varint(data, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
            value, at = bytes(data[at : at + size]), at + size
        elif kind == _BYTES:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"wire type {kind} of field {number}")
        if at > end:
            raise ValueError("a field ends outside its message")
        yield number, value


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        if at >= len(data):
            raise ValueError("a number ends outside its message")
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise ValueError("a number of more than ten bytes")


def _text(value: object) -> str:
    if not isinstance(value, memoryview):
        raise ValueError("a text was expected")
    return str(value[:MAX_TEXT], "utf-8", "replace")
