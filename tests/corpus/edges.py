"""Bodies at the edges of what a schema allows, and just beyond: one piece of a right body is exchanged at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tests.corpus.shape import WIDTHS, Array, Leaf, Node, Struct, Tags, nodes, render

from ottla.wire.varint import uvarint

_TEXTS: Final = {
    "empty": b"",
    "a dot": b".",
    "a space": b"two words",
    "letters beyond ASCII": "žluťoučký".encode(),
    "not UTF-8": b"\xff\xfe\x80",
    "a zero byte": b"a\x00b",
    "too long for a name": b"x" * 250,
    "very long": b"y" * 32767,
}
_UNKNOWN_TAG: Final = 9999


def edges(trees: Sequence[Struct]) -> Iterator[tuple[str, bytes]]:
    """Named bodies, made from the first tree; from the others only pieces that those before them do not have."""
    right = render(trees[0])
    yield "bytes after the end", right + b"\x00\x01\x02\x03"
    yield "the body twice", right + right
    if right:
        yield "a byte too few", right[:-1]
        yield "no body", b""
    done: set[str] = set()
    for tree in trees:
        for node in nodes(tree):
            if isinstance(node, Struct) or node.path in done:  # of the items of an array the first will do
                continue
            done.add(node.path)
            for name, instead in _instead(node):
                yield f"{node.path}: {name}", render(tree, node, instead)


def _instead(node: Node) -> Iterator[tuple[str, bytes]]:
    match node:
        case Leaf(type="bool"):
            for value in (0, 1, 2, 255):
                yield f"{value}", bytes((value,))
        case Leaf(type="uuid"):
            yield "zero", bytes(16)
            yield "one", bytes(15) + b"\x01"  # Kafka's reserved id of the metadata topic
            yield "all ones", b"\xff" * 16
        case Leaf() if node.is_text:
            yield "null", node.prefixed(-1)
            yield "length -2", node.prefixed(-2)
            yield "length 3 of nothing", node.prefixed(3)
            yield "the longest length", node.prefixed(0x7FFF)
            for name, text in _TEXTS.items():
                yield name, node.prefixed(len(text), text)
        case Leaf():
            bits = 8 * WIDTHS[node.type]
            for value in (0, 1, 2, -1, -2, -3, 100, -(1 << bits - 1), (1 << bits - 1) - 1):
                yield f"{value}", (value & (1 << bits) - 1).to_bytes(bits // 8, "big")
        case Array():
            items = [render(item) for item in node.items or ()]
            yield "null", node.counted(-1)
            yield "empty", node.counted(0)
            yield "-2 items", node.counted(-2, b"".join(items))
            yield "more items than bytes", node.counted(0x7FFFFFFF, b"".join(items))
            yield "an item too many", node.counted(len(items) + 1, b"".join(items))
            if items:
                yield "the first item twice", node.counted(len(items) + 1, items[0] + b"".join(items))
                yield "the first item 30 times", node.counted(30, items[0] * 30)
        case Tags():
            known = [uvarint(tag) + uvarint(len(data)) + data for tag, data in _rendered(node)]
            unknown = uvarint(_UNKNOWN_TAG) + b"\x03abc"
            yield "an unknown tag", uvarint(len(known) + 1) + b"".join(known) + unknown
            yield "an unknown tag twice", uvarint(len(known) + 2) + b"".join(known) + unknown * 2
            yield "an unknown tag without value", uvarint(1) + uvarint(_UNKNOWN_TAG) + b"\x00"
            yield "an unknown tag that does not end", uvarint(1) + uvarint(_UNKNOWN_TAG) + b"\x7f"
            yield "a tag too many", uvarint(len(known) + 1) + b"".join(known)
            yield "-1 tags", uvarint(0xFFFFFFFF)
            yield "tag 0 without value", b"\x01\x00\x00"
            yield "tag 0 of one byte", b"\x01\x00\x01\x00"
            if known:
                yield "no tags", b"\x00"
                yield "a known tag twice", uvarint(len(known) + 1) + known[0] + b"".join(known)
                tag, data = next(iter(_rendered(node)))
                yield "a known tag of size 0", b"\x01" + uvarint(tag) + b"\x00" + data
                yield "a known tag of a large size", b"\x01" + uvarint(tag) + b"\x7f" + data


def _rendered(node: Tags) -> Iterator[tuple[int, bytes]]:
    for tag, value in node.fields:
        yield tag, render(value)
