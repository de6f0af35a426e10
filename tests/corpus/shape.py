"""A request as a tree of its encoded pieces, so that one piece can be exchanged for bytes that no client would send.

An encoder refuses what a schema forbids: null where there must be a name, a count without its items. That is just what
an edge case needs. So a message is encoded here a second time, by the same schema, into nodes that know where they are;
`test_generator.py` checks that the bytes are kio's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from datetime import timedelta
from types import NoneType, UnionType
from typing import Any, Final, get_args, get_origin
from uuid import UUID

from ottla.wire.varint import uvarint

WIDTHS: Final = {
    "bool": 1, "int8": 1, "uint8": 1, "int16": 2, "uint16": 2, "int32": 4, "uint32": 4, "int64": 8, "uint64": 8,
    "timedelta_i32": 4, "timedelta_i64": 8, "uuid": 16, "error_code": 2,
}  # fmt: skip
_LENGTH_WIDTHS: Final = {"string": 2, "bytes": 4, "records": 4}
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    path: str
    type: str
    flexible: bool
    data: bytes

    @property
    def is_text(self) -> bool:
        return self.type in _LENGTH_WIDTHS

    def prefixed(self, length: int, content: bytes = b"") -> bytes:
        """Content behind a length that may not be its own; -1 stands for null."""
        if self.flexible:
            return uvarint((length + 1) & 0xFFFFFFFF) + content
        width = _LENGTH_WIDTHS[self.type]
        return (length & (1 << 8 * width) - 1).to_bytes(width, "big") + content


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    path: str
    flexible: bool
    items: tuple[Node, ...] | None

    def counted(self, count: int, content: bytes = b"") -> bytes:
        if self.flexible:
            return uvarint((count + 1) & 0xFFFFFFFF) + content
        return (count & 0xFFFFFFFF).to_bytes(4, "big") + content


@dataclass(frozen=True, slots=True, eq=False)
class Tags:
    path: str
    fields: tuple[tuple[int, Node], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Struct:
    path: str
    children: tuple[Node, ...]


Node = Leaf | Array | Tags | Struct


def render(node: Node, changed: Node | None = None, instead: bytes = b"") -> bytes:
    """The bytes of a tree; one node may be exchanged."""
    if node is changed:
        return instead
    match node:
        case Leaf():
            return node.data
        case Array():
            if node.items is None:
                return node.counted(-1)
            return node.counted(len(node.items), b"".join(render(item, changed, instead) for item in node.items))
        case Tags():
            values = [(tag, render(value, changed, instead)) for tag, value in node.fields]
            return uvarint(len(values)) + b"".join(uvarint(tag) + uvarint(len(data)) + data for tag, data in values)
        case Struct():
            return b"".join(render(child, changed, instead) for child in node.children)


def nodes(node: Node) -> Iterator[Node]:
    """All nodes of a tree, a parent before its children."""
    yield node
    below: tuple[Node, ...] = ()
    match node:
        case Array():
            below = node.items or ()
        case Tags():
            below = tuple(value for _, value in node.fields)
        case Struct():
            below = node.children
    for child in below:
        yield from nodes(child)


def cuts(node: Node) -> list[int]:
    """Where pieces begin: lengths, counts and numbers stand there."""
    found: list[int] = []
    position = 0

    def walk(node: Node) -> None:
        nonlocal position
        found.append(position)
        match node:
            case Leaf():
                position += len(node.data)
            case Array():
                position += len(node.counted(len(node.items) if node.items is not None else -1))
                for item in node.items or ():
                    walk(item)
            case Tags():
                position += 1
                for tag, value in node.fields:
                    position += len(uvarint(tag)) + len(uvarint(len(render(value))))
                    walk(value)
            case Struct():
                for child in node.children:
                    walk(child)

    walk(node)
    return sorted(set(found))


def shape(entity: Any, path: str = "") -> Struct:
    """The tree of an entity of kio's."""
    flexible: bool = entity.__flexible__
    children: list[Node] = []
    tagged: list[tuple[int, Node]] = []
    for field in fields(entity):
        value = getattr(entity, field.name)
        tag = field.metadata.get("tag")
        if tag is not None and value == _default(field):
            continue
        node = _field(field, value, flexible, f"{path}.{field.name}" if path else field.name, tagged=tag is not None)
        if tag is None:
            children.append(node)
        else:
            tagged.append((tag, node))
    if flexible:
        children.append(Tags(f"{path}.tags" if path else "tags", tuple(sorted(tagged, key=lambda one: one[0]))))
    return Struct(path, tuple(children))


def _default(field: Field[Any]) -> Any:
    return None if field.default is MISSING else field.default


def _field(field: Field[Any], value: Any, flexible: bool, path: str, *, tagged: bool) -> Node:
    type_: Any = field.type
    nullable = get_origin(type_) is UnionType
    if nullable:
        (type_,) = (argument for argument in get_args(type_) if argument is not NoneType)
    kafka_type = field.metadata.get("kafka_type", "")
    if get_origin(type_) is tuple:
        if value is None:
            return Array(path, flexible, None)
        return Array(path, flexible, tuple(_item(item, kafka_type, flexible, path) for item in value))
    if is_dataclass(type_) and nullable and not tagged:
        mark = Leaf(f"{path}.is_there", "int8", flexible, b"\xff" if value is None else b"\x01")
        return Struct(path, (mark,) if value is None else (mark, shape(value, path)))
    return _item(value, kafka_type, flexible, path)


def _item(value: Any, kafka_type: str, flexible: bool, path: str) -> Node:
    if is_dataclass(value):
        return shape(value, path)
    if kafka_type == "uuid":
        data = value.bytes if isinstance(value, UUID) else bytes(16)
        return Leaf(path, kafka_type, flexible, data)
    if kafka_type in WIDTHS:
        number = value // _MS if isinstance(value, timedelta) else int(value)
        width = WIDTHS[kafka_type]
        return Leaf(path, kafka_type, flexible, (number & (1 << 8 * width) - 1).to_bytes(width, "big"))
    empty = Leaf(path, kafka_type, flexible, b"")
    if value is None:
        return Leaf(path, kafka_type, flexible, empty.prefixed(-1))
    content = value.encode() if isinstance(value, str) else bytes(value)
    return Leaf(path, kafka_type, flexible, empty.prefixed(len(content), content))
