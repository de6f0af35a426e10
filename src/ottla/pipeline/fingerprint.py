"""What a query's checkpoint depends on, in words that stay the same as long as it can go on with it.

Taken from Spark's own plan: the operators that keep state, what they group, join or compare by, and what they keep. A
change of a filter or of a name that is given to a column changes nothing of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from ottla.pipeline.connectors.port import Shape
from ottla.pipeline.flow import SOURCE, Query
from ottla.pipeline.spec import Spec

_ID: Final = re.compile(r"#\d+L?")
_ALIAS: Final = re.compile(r" AS `?\w+`?")
_STATEFUL: Final = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit")


def parts(spec: Spec, query: Query) -> list[str]:
    plan = query.frame._jdf.queryExecution().analyzed()
    return [*_sources(spec, plan), *_state(plan), f"mode {query.mode}"]


def _sources(spec: Spec, plan: Any) -> Iterator[str]:
    """In the order of the plan: Spark keeps offsets by their places in it, not by what they belong to."""
    name = plan.simpleString(1000).lstrip("~").removeprefix(f"SubqueryAlias {SOURCE}")
    if name in spec.sources:
        if spec.sources[name].shape is Shape.STREAM:
            entry = spec.sources[name]
            yield f"source {entry.connector} {entry.source.what}"
        return
    for child in _children(plan):
        yield from _sources(spec, child)


def _state(plan: Any) -> Iterator[str]:
    below = _children(plan)
    for child in below:
        yield from _state(child)
    name = plan.nodeName()
    if not plan.isStreaming():
        return
    joins_streams = name == "Join" and all(child.isStreaming() for child in below)
    if name in _STATEFUL or joins_streams or "State" in name:
        text = _ALIAS.sub("", _ID.sub("", plan.simpleString(100_000)))
        yield re.sub(r"\s+", " ", text).strip(" ~")


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]
