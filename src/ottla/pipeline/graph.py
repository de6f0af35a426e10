"""Which step is made of which: what a pipeline looks like, and whether it can be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.model.near_miss import did_you_mean
from ottla.pipeline import sql
from ottla.pipeline.connectors.port import Shape
from ottla.pipeline.problems import Problem

if TYPE_CHECKING:
    from ottla.pipeline.spec import SinkEntry, SourceEntry, Spec, StepEntry


def inputs(step: StepEntry, known: Iterable[str]) -> tuple[str, ...]:
    """The sources and steps that a step reads, in the order of the spec."""
    from ottla.pipeline.spec import PythonStep, SqlStep

    match step.step:
        case SqlStep():
            return sql.tables(step.step.sql, known)
        case PythonStep():
            return step.step.from_
        case other:
            return (other.from_,)


def upstream(spec: Spec, view: str) -> tuple[str, ...]:
    """All sources and steps that a view is made of, itself included, in the order of the spec."""
    known = [*spec.sources, *spec.steps]
    wanted, found = [view], set[str]()
    while wanted:
        name = wanted.pop()
        if name not in found:
            found.add(name)
            if name in spec.steps:
                wanted.extend(inputs(spec.steps[name], known))
    return tuple(name for name in known if name in found)


def is_stream(spec: Spec, view: str) -> bool:
    return any(name in spec.sources and spec.sources[name].shape is Shape.STREAM for name in upstream(spec, view))


def problems(
    sources: Mapping[str, SourceEntry], steps: Mapping[str, StepEntry], sinks: Mapping[str, SinkEntry]
) -> Iterable[Problem]:
    unknown = list(_names(sources, steps, sinks))
    yield from unknown
    if all(one.is_doubt for one in unknown):
        yield from _columns(sources, steps)
        yield from _streams(sources, steps, sinks)
    yield from _modes(sinks)


def _names(
    sources: Mapping[str, SourceEntry], steps: Mapping[str, StepEntry], sinks: Mapping[str, SinkEntry]
) -> Iterable[Problem]:
    from ottla.pipeline.spec import SqlStep

    everything = [*sources, *steps]
    above = list(sources)
    for name, step in steps.items():
        if isinstance(step.step, SqlStep):
            query = sql.understood(step.step.sql)
            yield from (in_sql(step, one) for one in query.problems)
            named = sorted(query.tables)
            path: tuple[str | int, ...] = ("steps", name, "sql")
        else:
            named = list(inputs(step, everything))
            path = ("steps", name, "from")
        for one in named:
            if one == name:
                yield Problem(path, f"{name} cannot be made of itself")
            elif one in steps and one not in above:
                yield Problem(path, f"{one} comes after {name}; put it before, since a step sees those above it")
            elif one not in above:
                yield Problem(path, f"there is no source or step {one}{did_you_mean(one, above)}")
        above.append(name)
    for name, sink in sinks.items():
        if sink.from_ not in everything:
            hint = did_you_mean(sink.from_, everything)
            yield Problem(("sinks", name, "from"), f"there is no source or step {sink.from_}{hint}")


def in_sql(step: StepEntry, problem: sql.SqlProblem) -> Problem:
    place = (problem.line, problem.column)
    return Problem(("steps", step.name, "sql"), problem.message, is_doubt=True, inside=place)


def _columns(sources: Mapping[str, SourceEntry], steps: Mapping[str, StepEntry]) -> Iterable[Problem]:
    from ottla.pipeline.spec import DedupStep, RequireStep, SqlStep

    known: dict[str, tuple[str, ...] | None] = {}
    for name, source in sources.items():
        found = source.source.columns()
        known[name] = None if found is None else tuple(found)
        mark = source.watermark
        if mark is not None and found is not None and mark.column not in found:
            hint = did_you_mean(mark.column, found)
            yield Problem(("sources", name, "watermark"), f"{name} has no column {mark.column}{hint}")
    for name, step in steps.items():
        known[name] = None
        match step.step:
            case SqlStep() as one:
                told = sql.columns(sql.understood(one.sql), known)
                yield from (in_sql(step, problem) for problem in told.problems)
                known[name] = told.names
            case DedupStep() as dedup:
                known[name] = known.get(dedup.from_)
                for column in dedup.dedup:
                    if (there := known.get(dedup.from_)) is not None and column not in there:
                        hint = did_you_mean(column, there)
                        yield Problem(("steps", name, "dedup"), f"{dedup.from_} has no column {column}{hint}")
            case RequireStep() as require:
                known[name] = known.get(require.from_)
                for reason, condition in require.require.items():
                    query = sql.understood(f"SELECT * FROM {require.from_} WHERE ({condition})")
                    for problem in (*query.problems, *sql.columns(query, known).problems):
                        yield Problem(("steps", name, "require", reason), problem.message, is_doubt=True)


def _streams(
    sources: Mapping[str, SourceEntry], steps: Mapping[str, StepEntry], sinks: Mapping[str, SinkEntry]
) -> Iterable[Problem]:
    streams = {name for name, source in sources.items() if source.shape is Shape.STREAM}
    known = [*sources, *steps]
    for name, step in steps.items():
        if streams.intersection(inputs(step, known)):
            streams.add(name)
    for name, sink in sinks.items():
        if sink.from_ in known and sink.from_ not in streams:
            message = (
                f"{sink.from_} is made of tables alone, so nothing would ever begin a batch; read one of them as a "
                "stream (`as: stream`, or `topic` instead of `table`)"
            )
            yield Problem(("sinks", name, "from"), message)


def _modes(sinks: Mapping[str, SinkEntry]) -> Iterable[Problem]:
    """Sinks of one step are written by one query, which has one mode."""
    first: dict[str, SinkEntry] = {}
    for name, sink in sinks.items():
        other = first.setdefault(sink.from_, sink)
        if other.mode != sink.mode:
            message = f"{other.name} writes {sink.from_} with mode {other.mode}, and all sinks of a step have the same"
            yield Problem(("sinks", name, "mode"), message)
