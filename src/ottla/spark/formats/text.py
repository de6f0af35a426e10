"""Text in UTF-8."""

from __future__ import annotations

import pyarrow as pa


def decode(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def encode(values: pa.Array) -> pa.Array:
    """Of numbers, times and the like what Arrow writes for them."""
    return values.cast(pa.string()).cast(pa.binary())
