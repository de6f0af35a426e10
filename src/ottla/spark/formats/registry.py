"""The formats that there are. One more is a file beside this one, and a line in FORMATS.

A format says which column it makes of a schema, and gives functions over whole Arrow arrays; nobody calls anything for
a single record. A format that asks a registry of schemas would look at the first bytes of values and keep what it was
told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

Convert = Callable[["pa.Array"], "pa.Array"]


class Format(NamedTuple):
    """Functions are made when they are needed: their modules import pyarrow, without which a query can be planned."""

    wants_schema: bool
    column: Callable[[str | None], str]
    """The column's type in Spark's words, of the schema that the user gave."""
    decoding: Callable[[Any], Convert]
    """For an Arrow type: binary to that type; ValueError (as of pyarrow) if one value is not of the format."""
    encoding: Callable[[Any], Convert]
    """For an Arrow type: that type to binary."""
    not_decoded: Callable[[str], str | None]
    not_encoded: Callable[[str], str | None]
    """Why a column of a type, in Spark's words, cannot be."""


def format_named(option: str, name: str) -> Format:
    found = FORMATS.get(name.strip().lower())
    if found is None:
        raise OttlaError(f"{option} is {' or '.join(FORMATS)}, not {name!r}{did_you_mean(name.lower(), FORMATS)}")
    return found


def _decode_text(to: Any) -> Convert:
    from ottla.spark.formats import text

    return text.decode


def _encode_text(of: Any) -> Convert:
    from ottla.spark.formats import text

    return text.encode


def _decode_json(to: Any) -> Convert:
    from ottla.spark.formats import json_in

    return json_in.decoding(to)


def _encode_json(of: Any) -> Convert:
    from ottla.spark.formats import json_out

    return json_out.encode


def _no_text(kind: str) -> str | None:
    nested = kind.startswith(("struct", "array", "map", "variant"))
    return "it has parts; encode=json writes them" if nested else None


def _not_in_json(*words: str) -> Callable[[str], str | None]:
    def refusal(kind: str) -> str | None:
        found = next((word for word in words if word in kind), None)
        return None if found is None else f"there is no way from or to JSON for {found}"

    return refusal


FORMATS: Final = {
    "string": Format(False, lambda _: "STRING", _decode_text, _encode_text, lambda _: None, _no_text),
    "json": Format(
        True,
        lambda schema: f"STRUCT<{schema}>",
        _decode_json,
        _encode_json,
        _not_in_json("map", "binary", "interval", "variant"),
        _not_in_json("binary", "interval", "variant"),
    ),
}
