"""Schemas as Spark writes them: `id BIGINT, lines ARRAY<STRUCT<item: STRING>>`."""

from __future__ import annotations

import re
from typing import Final

_COLUMN: Final = re.compile(r"\s*(?:`([^`]+)`|([A-Za-z_]\w*))\s*:?\s+(.+?)\s*", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z_]+")
_TYPES: Final = frozenset(
    {
        "boolean", "tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long", "float", "real",
        "double", "date", "time", "timestamp", "timestamp_ntz", "timestamp_ltz", "string", "varchar", "char", "binary",
        "decimal", "dec", "numeric", "array", "map", "struct", "variant",
    }
)  # fmt: skip


def columns_of(text: str) -> dict[str, str] | None:
    """By name their types; None if it is no such schema."""
    found: dict[str, str] = {}
    for part in _split(text):
        matched = _COLUMN.fullmatch(part)
        if matched is None:
            return None
        name, kind = matched[1] or matched[2], matched[3]
        word = _WORD.match(kind)
        if name in found or word is None or word[0].lower() not in _TYPES or kind.count("<") != kind.count(">"):
            return None
        found[name] = kind
    return found or None


def _split(text: str) -> list[str]:
    """At the commas that are within no brackets."""
    parts, depth, begin = [], 0, 0
    for place, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    return [*parts, text[begin:]]
