"""What a query's checkpoint depends on, in words that stay the same as long as it can go on with it.

Taken from Spark's own plan: the operators that keep state, what they group, join or compare by, and what they keep. A
change of a filter, of a watermark's delay or of a name that is given to a column changes nothing of it. A window of
another length does: what was counted for the windows of before would count for none of the new ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from ottla.pipeline.connectors.port import DataFrame, Shape
from ottla.pipeline.flow import SOURCE
from ottla.pipeline.spec import Spec

if TYPE_CHECKING:
    from ottla.pipeline.queries import Query

_ID: Final = re.compile(r"#\d+L?(?:-T\d+ms)?")  # with the watermark's delay
_ALIAS: Final = re.compile(r" AS `?\w+`?")
_EVERY: Final = re.compile(r"LongType\) - (\d+)\) % (\d+)\)")
_LENGTH: Final = re.compile(r"END\) - \d+\) \+ (\d+)\), LongType")
_GAP: Final = re.compile(r"named_struct\(start, precisetimestampconversion.*? \+ cast\((.+?) as interval\)")
"""What Spark has made of window(...) and session_window(...): its plan says no more which it was."""
_STATEFUL: Final = ("Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "GlobalLimit")


def parts(spec: Spec, query: Query) -> list[str]:
    plan = query.frame._jdf.queryExecution().analyzed()
    return [*_sources(spec, plan), *_state(plan), f"mode {query.mode}"]


def state(frame: DataFrame) -> list[str]:
    """What a frame keeps from one micro-batch to the next."""
    return list(_state(frame._jdf.queryExecution().analyzed()))


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
    if name in ("Project", "Expand"):
        yield from _windows(_ID.sub("", plan.simpleString(100_000)))
    joins_streams = name == "Join" and all(child.isStreaming() for child in below)
    if name in _STATEFUL or joins_streams or "State" in name:
        text = _ALIAS.sub("", _ID.sub("", plan.simpleString(100_000)))
        yield re.sub(r"\s+", " ", text).strip(" ~")


def _windows(made: str) -> Iterator[str]:
    every, length = _EVERY.search(made), _LENGTH.search(made)
    if every is not None and length is not None:
        first, step, long = (int(one) / 1e6 for one in (*every.groups(), length[1]))
        yield (
            f"windows of {long:g} s"
            + (f" every {step:g} s" if step != long else "")
            + (f" from {first:g} s on" if first else "")
        )
    if (gap := _GAP.search(made)) is not None:
        yield f"sessions that end after {gap[1]}"


def _children(plan: Any) -> list[Any]:
    children = plan.children()
    return [children.apply(number) for number in range(children.size())]
