"""A picture of a pipeline: what flows from where to where, for a terminal or as Mermaid."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ottla.pipeline import graph, sql
from ottla.pipeline.spec import SinkEntry, SourceEntry, Spec, SqlStep, StepEntry

_STATEFUL = ("dedup", "stateful")


def lines(spec: Spec) -> Iterator[str]:
    """Each source, step and sink in a line, with what it is made of; from top to bottom as rows flow."""
    known = [*spec.sources, *spec.steps]
    width = max(len(name) for name in (*known, *spec.sinks))
    letters = spec.errors.dead_letters if spec.errors.way == "dead-letter" else None
    yield f"{spec.name}"
    for source in spec.sources.values():
        yield f"  ○ {source.name:{width}}  {_of_source(source)}"
    for step in spec.steps.values():
        came = ", ".join(graph.inputs(step, known))
        yield f"  │ {step.name:{width}}  {came} → {_of_step(spec, step)}"
    for sink in spec.sinks.values():
        yield f"  ● {sink.name:{width}}  {sink.from_} → {_of_sink(sink)}"
    if letters is not None:
        topics = [name for name, source in spec.sources.items() if source.connector == "topic"]
        rejecting = [step.name for step in spec.steps.values() if step.kind in ("map", "require")]
        yield f"  ✗ {'':{width}}  {', '.join([*topics, *rejecting])} → dead letters: topic {letters}"


def rows(spec: Spec) -> list[dict[str, Any]]:
    """For programs."""
    known = [*spec.sources, *spec.steps]
    found: list[dict[str, Any]] = []
    for source in spec.sources.values():
        found.append({"part": "source", "name": source.name, "from": [], "what": _of_source(source)})
    for step in spec.steps.values():
        came = list(graph.inputs(step, known))
        found.append({"part": "step", "name": step.name, "from": came, "what": _of_step(spec, step)})
    for sink in spec.sinks.values():
        found.append({"part": "sink", "name": sink.name, "from": [sink.from_], "what": _of_sink(sink)})
    return found


def mermaid(spec: Spec) -> Iterator[str]:
    """For pages that draw it: `flowchart LR`."""
    known = [*spec.sources, *spec.steps]
    yield "flowchart LR"
    for source in spec.sources.values():
        yield f'  {source.name}[("{source.name}: {_quoted(_of_source(source))}")]'
    for step in spec.steps.values():
        yield f'  {step.name}["{step.name}: {_quoted(_of_step(spec, step))}"]'
        yield from (f"  {one} --> {step.name}" for one in graph.inputs(step, known))
    for sink in spec.sinks.values():
        yield f'  sink_{sink.name}[/"{sink.name}: {_quoted(_of_sink(sink))}"/]'
        yield f"  {sink.from_} --> sink_{sink.name}"


def _of_source(entry: SourceEntry) -> str:
    late = "" if entry.watermark is None else f", up to {entry.watermark.delay.seconds:g} s late"
    return f"{entry.connector} {entry.source.what} ({entry.shape.value}{late})"


def _of_step(spec: Spec, entry: StepEntry) -> str:
    step = entry.step
    if isinstance(step, SqlStep):
        joins = [name for name in graph.inputs(entry, [*spec.sources, *spec.steps]) if graph.is_stream(spec, name)]
        return "SQL, with state" if sql.understood(step.sql).groups or len(joins) > 1 else "SQL"
    said = getattr(step, entry.kind)
    text = ", ".join(said) if isinstance(said, tuple | dict) else str(said)
    return f"{entry.kind} {text}" + (", with state" if entry.kind in _STATEFUL else "")


def _of_sink(entry: SinkEntry) -> str:
    return f"{entry.connector} {entry.sink.what}" + ("" if entry.mode == "append" else f", {entry.mode}")


def _quoted(text: str) -> str:
    return text.replace('"', "&quot;")
