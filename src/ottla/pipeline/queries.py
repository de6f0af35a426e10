"""What is written from a flow: a streaming query of Spark for each view that sinks name, with the dead letters that
come up on its way.

Where nothing keeps state, the query is its source alone, and rows and dead letters are made of each micro-batch, which
is kept meanwhile. Then a topic is read once, a function is called once for a row, and dead letters can be asked for
later without beginning anew. Where there is state Spark must have the whole plan: rows and dead letters are then
branches of it, each of which reads the source by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.pipeline import dead_letters, fingerprint, graph
from ottla.pipeline.connectors.port import DataFrame, Shape, SparkSession
from ottla.pipeline.flow import Flow, build, reason_of
from ottla.pipeline.spec import PythonStep, SinkEntry, SourceEntry, Spec

_ROW: Final = "row"
_DEAD: Final = "dead"


class Parts(NamedTuple):
    """Of a micro-batch."""

    rows: DataFrame
    dead: DataFrame | None
    """Records; None where there can be none."""


@dataclass(frozen=True, slots=True)
class Query:
    view: str
    sinks: tuple[SinkEntry, ...]
    frame: DataFrame
    """What Spark is to run."""
    parts: Callable[[DataFrame], AbstractContextManager[Parts]]
    """Of what comes out of it."""

    @property
    def mode(self) -> str:
        return self.sinks[0].mode


def queries(flow: Flow) -> list[Query]:
    """A dead letter belongs to the first on whose way it is."""
    spec, found = flow.spec, []
    left = set(flow.dead)
    for view in dict.fromkeys(sink.from_ for sink in spec.sinks.values()):
        sinks = tuple(sink for sink in spec.sinks.values() if sink.from_ == view)
        frame = flow.views[view]
        problems = [one.below(("sinks", sink.name)) for sink in sinks for one in sink.sink.check_rows(frame.schema)]
        if problems:
            raise OttlaError("\n".join(spec.told(problems)))
        own = [name for name in graph.upstream(spec, view) if name in left]
        left.difference_update(own)
        found.append(_query(flow, view, sinks, own))
    return found


def _query(flow: Flow, view: str, sinks: tuple[SinkEntry, ...], own: Sequence[str]) -> Query:
    frame, is_used_again = flow.views[view], len(sinks) > 1
    if not own:
        return Query(view, sinks, frame, lambda batch: _as_it_is(batch, is_used_again))
    source = _source_without_state(flow, view)
    if source is None:
        return Query(view, sinks, _with_dead(frame, [flow.dead[name] for name in own]), _taken_apart)
    _check_as_a_stream(flow.spec, view, frame, sinks[0].mode)
    return Query(view, sinks, flow.sources[source], lambda batch: _made_of(flow, batch, view, own, is_used_again))


@contextmanager
def _as_it_is(batch: DataFrame, is_used_again: bool) -> Iterator[Parts]:
    if is_used_again:
        batch.persist()
    try:
        yield Parts(batch, None)
    finally:
        if is_used_again:
            batch.unpersist()


# -- without state


def _source_without_state(flow: Flow, view: str) -> str | None:
    """The one stream that a view is made of, row by row; None if there is more to it. A `python` step is called once,
    with a stream, as it may take long to make ready what it does."""
    spec, names = flow.spec, graph.upstream(flow.spec, view)
    streams = [name for name in names if name in spec.sources and spec.sources[name].shape is Shape.STREAM]
    if len(streams) != 1 or any(name in spec.steps and isinstance(spec.steps[name].step, PythonStep) for name in names):
        return None
    return None if fingerprint.state(flow.views[view]) else streams[0]


def _check_as_a_stream(spec: Spec, view: str, frame: DataFrame, mode: str) -> None:
    """Spark would find by itself what cannot be done with a stream, if it were one."""
    java: Any = frame.sparkSession._jvm
    modes = java.org.apache.spark.sql.streaming.OutputMode
    checker = java.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(frame._jdf.queryExecution().analyzed(), getattr(modes, mode.capitalize())())
    except Exception as error:
        raise OttlaError(f"{spec.file}: {view} cannot run: {reason_of(error)}") from error


@contextmanager
def _made_of(whole: Flow, batch: DataFrame, view: str, own: Sequence[str], is_used_again: bool) -> Iterator[Parts]:
    kept: list[DataFrame] = []

    def keep(frame: DataFrame) -> DataFrame:
        kept.append(frame.persist())
        return frame

    def read(entry: SourceEntry, spark: SparkSession) -> DataFrame:
        return keep(batch) if entry.shape is Shape.STREAM else whole.frames(entry, spark)

    try:
        flow = build(whole.spec, batch.sparkSession, read, [view], keep)
        rows = keep(flow.views[view]) if is_used_again else flow.views[view]
        yield Parts(rows, reduce(lambda one, other: one.unionByName(other), (flow.dead[name] for name in own)))
    finally:
        for frame in reversed(kept):
            frame.unpersist()


# -- with state


def _with_dead(frame: DataFrame, dead: list[DataFrame]) -> DataFrame:
    """Two columns, of which each row has one."""
    from pyspark.sql.functions import lit, struct

    kind = frame.schema.simpleString()
    rows = frame.select(
        struct(*(f"`{name}`" for name in frame.columns)).alias(_ROW),
        lit(None).cast(dead_letters.RECORD_TYPE).alias(_DEAD),
    )
    for one in dead:
        letters = one.select(
            lit(None).cast(kind).alias(_ROW), struct(*one.columns).cast(dead_letters.RECORD_TYPE).alias(_DEAD)
        )
        rows = rows.unionByName(letters)
    return rows


@contextmanager
def _taken_apart(batch: DataFrame) -> Iterator[Parts]:
    batch.persist()
    try:
        rows = batch.where(f"{_DEAD} IS NULL").select(f"{_ROW}.*")
        yield Parts(rows, batch.where(f"{_DEAD} IS NOT NULL").select(f"{_DEAD}.*"))
    finally:
        batch.unpersist()
