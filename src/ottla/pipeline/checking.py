"""`ottla pipeline check`: a spec against the real topics, and if wanted against Spark."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.port import Sink, Source, SparkSession
from ottla.pipeline.flow import build
from ottla.pipeline.problems import Problem
from ottla.pipeline.queries import queries
from ottla.pipeline.spec import MapStep as MapStep
from ottla.pipeline.spec import PythonStep, Spec, StatefulStep


def problems(spec: Spec, *, ask: bool = True) -> list[Problem]:
    """Without Spark. `ask`: whether the cluster and other systems are asked."""
    found = [*spec.doubts, *_functions(spec)]
    if ask:
        there: list[tuple[str, str, Source | Sink]] = [
            *(("sources", name, entry.source) for name, entry in spec.sources.items()),
            *(("sinks", name, entry.sink) for name, entry in spec.sinks.items()),
        ]
        with ThreadPoolExecutor(
            max_workers=len(there)
        ) as threads:  # so that one that does not answer is waited for once
            for told in threads.map(lambda one: _asked(*one), there):
                found.extend(told)
    return found


def _asked(part: str, name: str, connector: Source | Sink) -> list[Problem]:
    try:
        return [one.below((part, name)) for one in connector.check_there()]
    except OttlaError as error:
        return [Problem((part, name), str(error), at_name=True)]


def _functions(spec: Spec) -> list[Problem]:
    """Whether modules are there; they are not imported, which could take long or do something."""
    import sys
    from importlib.util import find_spec

    found = []
    for name, entry in spec.steps.items():
        if isinstance(entry.step, PythonStep | MapStep | StatefulStep):
            module = str(getattr(entry.step, entry.kind)).partition(":")[0]
            sys.path.insert(0, str(spec.folder))
            try:
                there = find_spec(module) is not None
            except (ImportError, ValueError):
                there = False
            finally:
                sys.path.remove(str(spec.folder))
            if not there:
                message = f"there is no module {module}; modules beside the spec are found, and installed ones"
                found.append(Problem(("steps", name, entry.kind), message))
    return found


def with_spark(spec: Spec, spark: SparkSession) -> None:
    """OttlaError for what Spark cannot do."""
    queries(build(spec, spark))
