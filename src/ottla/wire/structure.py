"""Checks a message's structure against its schema before kio's decoder sees it, and takes out what kio cannot read.

Three reasons, all found by trying. kio reserves memory for as many array items as a length field claims, and a claim of
four thousand million ends the process: nine bytes from anyone would stop a node. It raises on a tagged field that it
does not know, where the protocol says to skip it (KIP-482). And it raises on error codes newer than itself and on
durations or dates that Python has no room for, which are legal.

What is malformed, and what is merely odd, is decided as Kafka's own readers decide it: any negative length means null,
where null may be; a text that is not UTF-8 has replacement characters; a boolean is true unless it is 0; of a tagged
field that is known the size is not looked at.

A plan is made once for each schema class, from the dataclass metadata that kio generates: nested functions, each of
which walks over one field. Fields of fixed width that stand side by side are one step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin

from kio.schema.errors import ErrorCode

from ottla.env.slices import breathe, take_on
from ottla.wire.varint import Malformed, read_length, read_signed, uvarint

Data = bytes | memoryview
# Gives the position after the field. Copies the field to `out`, if there is one, in a form that kio can read.
Step = Callable[[Data, int, "bytearray | None"], int]


class NeedsRewrite(Exception):
    """The bytes are legal, but kio would refuse them as they are."""


def check(entity_type: type[Any], data: Data) -> Data:
    """The data itself, or a copy that kio can read; Malformed if a field does not fit into the bytes.

    Bytes after the message are left alone: Apache Kafka does not look at them either.
    """
    try:
        _plan(entity_type)(data, 0, None)  # type: ignore[arg-type]  # a class is hashable
        return data
    except NeedsRewrite:
        return rewrite(entity_type, data)


def rewrite(entity_type: type[Any], data: Data) -> bytes:
    """A copy that kio can read. Texts and booleans, which `check` does not look into, are put right too."""
    out = bytearray()
    _plan(entity_type)(data, 0, out)  # type: ignore[arg-type]
    return bytes(out)


@cache
def _plan(entity_type: type[Any]) -> Step:
    flexible: bool = entity_type.__flexible__
    steps: list[Step] = []
    tagged: dict[int, Step] = {}
    nullable_tags: set[int] = set()
    width = 0
    booleans: list[int] = []
    for field in fields(entity_type):
        tag = field.metadata.get("tag")
        kafka_type = field.metadata.get("kafka_type", "")
        type_, nullable = _without_none(field.type)
        if tag is None and kafka_type in _WIDTHS and get_origin(type_) is not tuple:
            if kafka_type == "bool":
                booleans.append(width)
            width += _WIDTHS[kafka_type]
            continue
        step = _field_step(type_, kafka_type, flexible, nullable, tagged=tag is not None)
        if tag is not None:
            tagged[tag] = step
            if nullable and kafka_type in _BYTES_LENGTH_WIDTH:
                nullable_tags.add(tag)
            continue
        if width:
            steps.append(_fixed(width, booleans))
            width, booleans = 0, []
        steps.append(step)
    if width:
        steps.append(_fixed(width, booleans))
    if flexible:
        not_yet = _TAGS_OF_LATER_VERSIONS.get(entity_type.__name__, frozenset()) - tagged.keys()
        steps.append(_tagged_fields(tagged, nullable_tags, not_yet))
    return _sequence(steps)


def _without_none(type_: Any) -> tuple[Any, bool]:
    if get_origin(type_) is not UnionType:
        return type_, False
    (inner,) = (argument for argument in get_args(type_) if argument is not NoneType)
    return inner, True


def _field_step(type_: Any, kafka_type: str, flexible: bool, nullable: bool, *, tagged: bool) -> Step:
    if get_origin(type_) is tuple:
        return _array(_item_step(get_args(type_)[0], kafka_type, flexible, nullable=False), flexible, nullable)
    step = _item_step(type_, kafka_type, flexible, nullable)
    return _nullable_struct(step) if nullable and not tagged and is_dataclass(type_) else step


def _item_step(type_: Any, kafka_type: str, flexible: bool, nullable: bool) -> Step:
    if is_dataclass(type_):
        return _plan(type_)  # type: ignore[arg-type]
    if kafka_type in _WIDTHS:
        return _fixed(_WIDTHS[kafka_type], [0] if kafka_type == "bool" else [])
    if kafka_type in _RANGES:
        low, high = _RANGES[kafka_type]
        return _ranged(0 if kafka_type == _DATE and not nullable else low, high)
    if kafka_type == "error_code":
        return _error_code
    if kafka_type not in _BYTES_LENGTH_WIDTH:
        raise NotImplementedError(f"kio schemas have a type that is not known here: {kafka_type}")
    if flexible:
        return _compact_bytes(kafka_type == "string", nullable)
    return _legacy_bytes(_BYTES_LENGTH_WIDTH[kafka_type], kafka_type == "string", nullable)


_WIDTHS: Final = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "timedelta_i32": 4,
    "int64": 8, "uint64": 8, "float64": 8, "uuid": 16,
}  # fmt: skip
_BYTES_LENGTH_WIDTH: Final = {"string": 2, "bytes": 4, "records": 4}
_TAGS_OF_LATER_VERSIONS: Final = {
    "FetchRequest": frozenset({0, 1}),
    "FetchPartition": frozenset({0, 1}),
    "PartitionSnapshot": frozenset({0}),
    "BrokerHeartbeatRequest": frozenset({0, 1}),
}
_LONGEST_TEXT: Final = 0x7FFF
_DATE: Final = "datetime_i64"  # -1 stands for none where there may be none; elsewhere kio knows nothing before 1970
_RANGES: Final = {  # in milliseconds: kio counts durations in 64 bits of microseconds, and dates end with year 9999
    "timedelta_i64": (-(2**63 // 1000), 2**63 // 1000),
    _DATE: (-(2**63), 253_402_300_799_000),
}
_UNKNOWN_ERROR: Final = ErrorCode.unknown_server_error.value.to_bytes(2, "big", signed=True)


def _take(data: Data, position: int, end: int, out: bytearray | None) -> int:
    if end > len(data):
        raise Malformed(f"a field at byte {position} ends at {end}, the message at {len(data)}")
    if out is not None:
        out += data[position:end]
    return end


def _fixed(width: int, booleans: list[int]) -> Step:
    """`booleans` are places among the fields that stand side by side here."""

    def step(data: Data, position: int, out: bytearray | None) -> int:
        end = _take(data, position, position + width, out)
        if out is not None:
            for place in booleans:
                at = len(out) - width + place
                out[at] = out[at] != 0
        return end

    return step


def _ranged(low: int, high: int) -> Step:
    def step(data: Data, position: int, out: bytearray | None) -> int:
        end = _take(data, position, position + 8, None)
        value = int.from_bytes(data[position:end], "big", signed=True)
        if out is None:
            if not low <= value <= high:
                raise NeedsRewrite
        else:
            out += min(max(value, low), high).to_bytes(8, "big", signed=True)
        return end

    return step


def _error_code(data: Data, position: int, out: bytearray | None) -> int:
    end = _take(data, position, position + 2, None)
    known = int.from_bytes(data[position:end], "big", signed=True) in _known_errors()
    if out is None:
        if not known:
            raise NeedsRewrite
    else:
        out += data[position:end] if known else _UNKNOWN_ERROR
    return end


@cache
def _known_errors() -> frozenset[int]:
    return frozenset(code.value for code in ErrorCode)


def _compact_bytes(is_text: bool, nullable: bool) -> Step:
    longest = _LONGEST_TEXT if is_text else 1 << 31

    def step(data: Data, position: int, out: bytearray | None) -> int:
        length, start = read_length(data, position)
        if length < 0:
            if not nullable:
                raise Malformed(f"a field at byte {position} is null and must not be")
            if length < -1 and out is None:
                raise NeedsRewrite
            if out is not None:
                out.append(0)
            return start
        if length > longest:
            raise Malformed(f"a text at byte {position} says {length} bytes, {_LONGEST_TEXT} are allowed")
        if out is None:
            return _take(data, position, start + length, None)
        end = _take(data, start, start + length, None)
        content = _text(data[start:end]) if is_text else data[start:end]
        out += uvarint(len(content) + 1)
        out += content
        return end

    return step


def _legacy_bytes(length_width: int, is_text: bool, nullable: bool) -> Step:
    null = (-1).to_bytes(length_width, "big", signed=True)

    def step(data: Data, position: int, out: bytearray | None) -> int:
        start = _take(data, position, position + length_width, None)
        length = int.from_bytes(data[position:start], "big", signed=True)
        if length < 0:
            if not nullable:
                raise Malformed(f"a field at byte {position} is null and must not be")
            if length < -1 and out is None:
                raise NeedsRewrite
            if out is not None:
                out += null
            return start
        if out is None:
            return _take(data, position, start + length, None)
        end = _take(data, start, start + length, None)
        content = _text(data[start:end]) if is_text else data[start:end]
        if is_text and len(content) > _LONGEST_TEXT:
            raise Malformed(f"a text at byte {position} is not UTF-8, and too long to be put right")
        out += len(content).to_bytes(length_width, "big")
        out += content
        return end

    return step


def _text(data: Data) -> bytes:
    return str(data, "utf-8", "replace").encode()


def _array(item: Step, flexible: bool, nullable: bool) -> Step:
    null = b"\x00" if flexible else b"\xff\xff\xff\xff"

    def step(data: Data, position: int, out: bytearray | None) -> int:
        if flexible:
            count, start = read_length(data, position)
        else:
            start = _take(data, position, position + 4, None)
            count = int.from_bytes(data[position:start], "big", signed=True)
        if count < 0:
            if not nullable:  # kio reads any array as null, and whoever goes through it falls over the None
                raise Malformed(f"an array at byte {position} says {count} items")
            if count < -1 and out is None:
                raise NeedsRewrite
            if out is not None:
                out += null
            return start
        if count > len(data) - start:
            raise Malformed(f"an array at byte {position} says {count} items, {len(data) - start} bytes follow")
        take_on(count)
        if out is not None:
            out += data[position:start]
        position = start
        for number in range(count):
            if number & 63 == 63:
                breathe()
            position = item(data, position, out)
        return position

    return step


def _nullable_struct(struct: Step) -> Step:
    def step(data: Data, position: int, out: bytearray | None) -> int:
        start = _take(data, position, position + 1, None)
        mark = data[position]
        is_null = mark >= 0x80  # -1 stands for null (KIP-893), and so does any other negative number
        if out is not None:
            out += b"\xff" if is_null else b"\x01"
        elif is_null and mark != 0xFF:
            raise NeedsRewrite
        return start if is_null else struct(data, start, out)

    return step


def _tagged_fields(known: dict[int, Step], nullable: set[int], not_yet: frozenset[int]) -> Step:
    """`not_yet` are tags that later versions of the same message have: no client sends them in this one."""

    def step(data: Data, position: int, out: bytearray | None) -> int:
        if position < len(data) and not data[position]:
            if out is not None:
                out.append(0)
            return position + 1
        count, position = read_signed(data, position)
        if count < 0 and out is None:
            raise NeedsRewrite
        kept: dict[int, bytes] = {}
        for _ in range(count):
            tag, position = read_signed(data, position)
            size, position = read_signed(data, position)
            if tag in known:
                if out is None and tag in kept:
                    raise NeedsRewrite  # the last one counts
                value = None if out is None else bytearray()
                end = known[tag](data, position, value)
                if (
                    value is not None and bytes(value) == b"\x00" and tag in nullable
                ):  # null, which kio takes only from a field that is not there
                    kept.pop(tag, None)
                else:
                    kept[tag] = b"" if value is None else bytes(value)
                if out is None and end != position + size:
                    raise NeedsRewrite
                position = end
                continue
            if tag in not_yet:
                raise Malformed(f"tag {tag} at byte {position} is of a later version")
            if size < 0:
                raise Malformed(f"a tagged field at byte {position} says {size} bytes")
            position = _take(data, position, position + size, None)
            if out is None:
                raise NeedsRewrite
        if out is not None:
            out += uvarint(len(kept))
            out += b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in kept.items())
        return position

    return step


def _sequence(steps: list[Step]) -> Step:
    if len(steps) == 1:
        return steps[0]

    def run(data: Data, position: int, out: bytearray | None) -> int:
        for step in steps:
            position = step(data, position, out)
        return position

    return run
