"""Writes docs/reference/pipelines.md from what specs and connectors declare.

python tools/generate_pipeline_reference.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ottla.pipeline import options, spec
from ottla.pipeline.connectors import registry
from ottla.pipeline.options import Declared, Size, Span

TARGET = Path(__file__).resolve().parent.parent / "docs" / "reference" / "pipelines.md"
HEAD = """<!-- Written by tools/generate_pipeline_reference.py from src/ottla/pipeline: change that, then run it. -->
# Pipeline specs

Every entry of a pipeline's file. [Data pipelines](../how-to/pipelines.md) tells how to use it. Times are written like
`30s` or `10 minutes`, sizes like `512m` or `1g`. `${NAME}` is what the environment says.

"""


def render() -> str:
    return HEAD + "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "## The file\n"
    yield from _table(spec.TOP)
    yield "\n## Steps\n"
    for name, kind in spec.STEPS.items():
        yield f"### {name}\n\n{(kind.__doc__ or '').strip()}\n"
        yield from _table(kind)
        yield ""
    yield "## Sources\n\nEvery source may have:\n"
    yield from _table(spec.OfSources)
    yield ""
    for name in registry.SOURCES:
        source = registry.source(name)
        shapes = " or ".join(shape.value for shape in source.shapes)
        yield f"### {name}, as a {shapes}\n\n{source.doc}\n"
        yield from _table(source.options)
        yield ""
    yield "## Sinks\n\nEvery sink may have:\n"
    yield from _table(spec.OfSinks)
    for name in registry.SINKS:
        sink = registry.sink(name)
        yield f"\n### {name}\n\n{sink.doc}\n"
        yield from _table(sink.options)


def _table(kind: type) -> Iterator[str]:
    yield "| entry | what | type | default |\n|---|---|---|---|"
    for one in options.leaves(kind):
        yield f"| `{one.name}` | {_cell(one.doc)} | {_type(one)} | {_default(one)} |"


def _type(one: Declared) -> str:
    return " or ".join(f"`{word}`" for word in one.choices) if one.choices else _cell(options.kind_name(one.type))


def _default(one: Declared) -> str:
    if one.is_needed:
        return "must be there"
    is_part = dataclasses.is_dataclass(one.default) and not isinstance(one.default, Span | Size)
    if one.default is None or one.default == () or is_part:
        return ""
    return f"`{_plain(one.default)}`"


def _plain(value: Any) -> str:
    if isinstance(value, Span):
        return f"{value.seconds:g}s"
    if isinstance(value, Size):
        return f"{value.bytes >> 20}m"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    TARGET.write_text(render())
