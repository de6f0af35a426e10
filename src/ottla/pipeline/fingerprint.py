"""What a query's checkpoint depends on, in words that stay the same as long as it can go on with it.

Taken from Spark's own plan: the operators that keep state, what they group, join or compare by, and what they keep. A
change of a filter or of a name that is given to a column changes nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ottla.pipeline import graph, options
from ottla.pipeline.connectors.port import Shape
from ottla.pipeline.flow import Query
from ottla.pipeline.spec import Spec

_ID: Final = re.compile(r"#\d+L?")
_ALIAS: Final = re.compile(r" AS `?\w+`?")
_STATEFUL: Final = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit")


def parts(spec: Spec, query: Query) -> list[str]:
    return [*_sources(spec, query), *_state(query.frame._jdf.queryExecution().analyzed()), f"mode {query.mode}"]


def _sources(spec: Spec, query: Query) -> Iterator[str]:
    for name in graph.upstream(spec, query.view):
        if name in spec.sources and spec.sources[name].shape is Shape.STREAM:
            entry = spec.sources[name]
            main = options.declared(entry.source.options)[0]
            yield f"source {entry.connector} {getattr(entry.source.given, main.field)}"


def _state(plan: Any) -> Iterator[str]:
    children = plan.children()
    below = [children.apply(number) for number in range(children.size())]
    for child in below:
        yield from _state(child)
    name = plan.nodeName()
    if not plan.isStreaming():
        return
    joins_streams = name == "Join" and all(child.isStreaming() for child in below)
    if name in _STATEFUL or joins_streams or "State" in name:
        text = _ALIAS.sub("", _ID.sub("", plan.simpleString(100_000)))
        yield re.sub(r"\s+", " ", text).strip(" ~")
