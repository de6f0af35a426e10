"""Messages made up from kio's schemas, and an encoder of its own that can add tagged fields nobody knows."""

from __future__ import annotations

import io
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Any, get_args, get_origin
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.serial._serialize import get_writer

from ottla.wire.varint import uvarint

ALL_KEYS = sorted(api_key_map)


def versions(key: int) -> list[int]:
    return sorted(schema_name_map[api_key_map[key]])


@cache
def schemas(key: int) -> list[type[Any]]:
    """Every version of a request and of its answer."""
    return [load(key, version) for version in versions(key) for load in (load_request_schema, load_response_schema)]


def unwrapped(type_: Any) -> tuple[Any, bool]:
    if get_origin(type_) is UnionType:
        return next(inner for inner in get_args(type_) if inner is not NoneType), True
    return type_, False


def sample(entity_type: type[Any], random: Random) -> Any:
    return entity_type(**{field.name: _value(field, random) for field in fields(entity_type)})


def _value(field: Field[Any], random: Random) -> Any:
    type_, nullable = unwrapped(field.type)
    if "tag" in field.metadata and random.random() < 0.5 and field.default is not MISSING:
        return field.default
    if nullable and "tag" not in field.metadata and random.random() < 0.3:
        return None
    if get_origin(type_) is tuple:
        return tuple(_item(get_args(type_)[0], field, random) for _ in range(random.randrange(4)))
    return _item(type_, field, random)


def _item(type_: Any, field: Field[Any], random: Random) -> Any:
    if is_dataclass(type_):
        return sample(type_, random)  # type: ignore[arg-type]
    bits = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
    match field.metadata["kafka_type"]:
        case "int8" | "int16" | "int32" | "int64" as kind:
            return random.getrandbits(bits[kind]) - (1 << (bits[kind] - 1))
        case "uint16":
            return random.getrandbits(16)
        case "bool":
            return random.random() < 0.5
        case "float64":
            return random.random()
        case "string":
            return "".join(random.choice("aé☃/-") for _ in range(random.choice([0, 1, 5, 200])))
        case "bytes" | "records":
            return random.randbytes(random.choice([0, 1, 200]))
        case "uuid":
            return UUID(int=random.getrandbits(128) | 1)
        case "error_code":
            return random.choice(list(ErrorCode))
        case "timedelta_i32" | "timedelta_i64":
            return timedelta(milliseconds=random.getrandbits(31))
        case "datetime_i64":
            return datetime.fromtimestamp(random.getrandbits(31), UTC)
    raise NotImplementedError(field)


def encode_with_unknown_tags(entity: Any, random: Random | None) -> bytes:
    """As kio encodes; given randomness, every struct gets one to three tagged fields with tags nobody uses."""
    out = io.BytesIO()
    tagged: list[tuple[int, bytes]] = []
    for field in fields(entity):
        value = getattr(entity, field.name)
        tag = field.metadata.get("tag")
        if tag is None:
            out.write(_encode_field(field, value, entity.__flexible__, False, random))
        elif field.default is MISSING or value != field.default:
            tagged.append((tag, _encode_field(field, value, True, True, random)))
    if entity.__flexible__:
        if random is not None:
            for _ in range(random.randint(1, 3)):
                tagged.append((random.randrange(100, 2**20), random.randbytes(random.choice([0, 1, 300]))))
        out.write(uvarint(len(tagged)))
        for tag, payload in sorted(tagged):
            out.write(uvarint(tag) + uvarint(len(payload)) + payload)
    return out.getvalue()


def _encode_field(field: Field[Any], value: Any, flexible: bool, is_tag: bool, random: Random | None) -> bytes:
    type_, nullable = unwrapped(field.type)
    if get_origin(type_) is tuple:
        count = -1 if value is None else len(value)
        prefix = uvarint(count + 1) if flexible else count.to_bytes(4, "big", signed=True)
        inner = get_args(type_)[0]
        return prefix + b"".join(_encode_item(inner, field, item, flexible, False, random) for item in value or ())
    if is_dataclass(type_) and nullable and not is_tag:
        if value is None:
            return b"\xff"
        return b"\x01" + _encode_item(type_, field, value, flexible, False, random)
    return _encode_item(type_, field, value, flexible, nullable and not is_tag, random)


def _encode_item(
    type_: Any, field: Field[Any], value: Any, flexible: bool, nullable: bool, random: Random | None
) -> bytes:
    if is_dataclass(type_):
        return encode_with_unknown_tags(value, random)
    out = io.BytesIO()
    get_writer(field.metadata["kafka_type"], flexible, nullable)(out, value)
    return out.getvalue()
