"""Sources and steps of a spec as Spark's DataFrames."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.pipeline import dead_letters, graph
from ottla.pipeline.connectors.port import DataFrame, Shape, SparkSession
from ottla.pipeline.connectors.topic_source import UNDECODABLE, TopicSource
from ottla.pipeline.row_functions import imported, mapping
from ottla.pipeline.spec import (
    DedupStep,
    MapStep,
    PythonStep,
    RequireStep,
    SourceEntry,
    Spec,
    SqlStep,
    StatefulStep,
    StepEntry,
    Watermark,
)

Frames = Callable[[SourceEntry, SparkSession], DataFrame]
Keep = Callable[[DataFrame], DataFrame]
SOURCE: Final = "__ottla_source_"
"""By names that begin so, sources are found in Spark's plans."""
_TIMES: Final = {"none": "None", "processing": "ProcessingTime", "event": "EventTime"}


@dataclass(slots=True)
class Flow:
    spec: Spec
    frames: Frames
    keep: Keep
    """Whatever more than one thing is made of goes through it."""
    sources: dict[str, DataFrame] = field(default_factory=dict)
    """As they are read, undecodable records included."""
    views: dict[str, DataFrame] = field(default_factory=dict)
    dead: dict[str, DataFrame] = field(default_factory=dict)
    """Dead letters, as records, by the source or step that makes them."""


def from_source(entry: SourceEntry, spark: SparkSession) -> DataFrame:
    return entry.source.stream(spark) if entry.shape is Shape.STREAM else entry.source.table(spark)


def build(
    spec: Spec,
    spark: SparkSession,
    frames: Frames = from_source,
    views: Collection[str] | None = None,
    keep: Keep = lambda frame: frame,
) -> Flow:
    """`views`: those that are wanted, with what they are made of; by default all that sinks name. OttlaError, with the
    step, for what Spark cannot do."""
    flow = Flow(spec, frames, keep)
    wanted = [sink.from_ for sink in spec.sinks.values()] if views is None else views
    used = {name for view in wanted for name in graph.upstream(spec, view)}
    for name, entry in spec.sources.items():
        if name not in used:
            continue
        if isinstance(entry.source, TopicSource):
            entry.source.keeps_undecodable = spec.errors.way != "fail" and entry.source.decodes
        frame = _told(spec, "sources", name, partial(frames, entry, spark)).alias(f"{SOURCE}{name}")
        flow.sources[name] = frame
        _add(flow, name, _source(flow, entry, frame), entry)
    for name, step in spec.steps.items():
        if name in used:
            made = _told(spec, "steps", name, partial(_step, flow, step, spark))
            _add(flow, name, made, step.step)
    return flow


def _add(flow: Flow, name: str, frame: DataFrame, entry: Any) -> None:
    mark: Watermark | None = getattr(entry, "watermark", None)
    if mark is not None:
        frame = _told(flow.spec, "", name, lambda: frame.withWatermark(mark.column, str(mark.delay)))
    flow.views[name] = frame
    frame.createOrReplaceTempView(name)


def _told(spec: Spec, part: str, name: str, make: Callable[[], Any]) -> Any:
    part = part or ("sources" if name in spec.sources else "steps")
    try:
        return make()
    except OttlaError as error:
        raise OttlaError(f"{spec.file}: {part}.{name}: {error}") from error
    except Exception as error:
        raise OttlaError(f"{spec.file}: {part}.{name}: {reason_of(error)}") from error


def _source(flow: Flow, entry: SourceEntry, frame: DataFrame) -> DataFrame:
    if UNDECODABLE not in frame.columns:
        return frame
    if flow.spec.errors.way == "dead-letter":
        flow.dead[entry.name] = dead_letters.of_undecodable(flow.spec, entry.name, frame)
    asked = frame if entry.source.given.headers else frame.drop("_headers")
    return asked.where(f"{UNDECODABLE} IS NULL").drop(UNDECODABLE)


def _step(flow: Flow, entry: StepEntry, spark: SparkSession) -> DataFrame:
    match entry.step:
        case SqlStep() as step:
            return spark.sql(step.sql)
        case PythonStep() as step:
            function = imported(step.python, flow.spec.folder)
            made = function(*(flow.views[name] for name in step.from_), **(step.arguments or {}))
            if not hasattr(made, "createOrReplaceTempView"):
                raise OttlaError(f"{step.python} must return a DataFrame, not {type(made).__name__}")
            return made
        case MapStep() as step:
            return _mapped(flow, entry.name, step, flow.views[step.from_])
        case RequireStep() as step:
            return _required(flow, entry.name, step, flow.views[step.from_])
        case DedupStep() as step:
            frame = flow.views[step.from_]
            columns = list(step.dedup)
            has_watermark = any(_has_watermark(flow.spec, name) for name in graph.upstream(flow.spec, step.from_))
            return frame.dropDuplicatesWithinWatermark(columns) if has_watermark else frame.dropDuplicates(columns)
        case StatefulStep() as step:
            processor = imported(step.stateful, flow.spec.folder)
            return (
                flow.views[step.from_]
                .groupBy(*step.by)
                .transformWithStateInPandas(processor(), step.schema, "Append", _TIMES[step.time])
            )


def _has_watermark(spec: Spec, name: str) -> bool:
    entry = spec.sources[name] if name in spec.sources else spec.steps[name].step
    return getattr(entry, "watermark", None) is not None


def _mapped(flow: Flow, name: str, step: MapStep, frame: DataFrame) -> DataFrame:
    from pyspark.sql.types import StructType

    way = flow.spec.errors.way
    schema = StructType.fromDDL(step.schema)
    if way != "fail":
        schema = StructType.fromDDL(f"{step.schema}, {dead_letters.REJECTED} {dead_letters.REJECTED_TYPE}")
    function = imported(step.map, flow.spec.folder)
    mapped = frame.mapInArrow(mapping(function, step.map, schema.json(), fails=way == "fail"), schema)
    if way == "fail":
        return mapped
    mapped = flow.keep(mapped)  # what it rejects now and then must be in one of the two, and in one only
    if way == "dead-letter":
        flow.dead[name] = dead_letters.of_rejected(flow.spec, name, mapped)
    return mapped.where(f"{dead_letters.REJECTED} IS NULL").drop(dead_letters.REJECTED)


def _required(flow: Flow, name: str, step: RequireStep, frame: DataFrame) -> DataFrame:
    from pyspark.sql.functions import coalesce, concat, expr, lit, raise_error, to_json, when
    from pyspark.sql.functions import struct as row_of

    holds = {
        reason: coalesce(expr(f"({condition})").cast("boolean"), lit(False))
        for reason, condition in step.require.items()
    }
    every = reduce(lambda one, other: one & other, holds.values())
    way = flow.spec.errors.way
    if way == "fail":
        whole = to_json(row_of(*(f"`{column}`" for column in frame.columns)))
        checked = [
            when(hold, lit(True)).otherwise(
                raise_error(concat(lit(f"step {name} rejects a row, as it is not so that {reason}: "), whole)).cast(
                    "boolean"
                )
            )
            for reason, hold in holds.items()
        ]
        return frame.where(reduce(lambda one, other: one & other, checked))
    if way == "dead-letter":
        reason = coalesce(*(when(~hold, lit(text)) for text, hold in holds.items()))
        flow.dead[name] = dead_letters.of_refused(flow.spec, name, frame.where(~every), reason)
    return frame.where(every)


def reason_of(error: BaseException) -> str:
    """What Spark or Python means, without the hundred lines around it."""
    import re

    text = str(error)
    for pattern in (r"ottla\.model\.errors\.OttlaError: (.+)", r"\[USER_RAISED_EXCEPTION\] (.+?)(?: SQLSTATE|\n|$)"):
        if found := re.findall(pattern, text):
            return str(found[-1]).strip()
    for pattern in (r"^\w*(?:Error|Exception): .+$",):
        if "Traceback" in text and (found := re.findall(pattern, text, re.MULTILINE)):
            return str(found[-1]).strip()
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("at ", "JVM stack"))]
    kept = []
    for line in lines[:8]:
        if line.startswith(("'", "+-", "==")):
            break
        kept.append(line.strip())
    return " ".join(kept) or type(error).__name__
