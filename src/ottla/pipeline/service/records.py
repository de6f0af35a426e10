"""What the service keeps in topics, by the name of the pipeline: what is to run, how it is doing, what it says."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.pipeline import cluster_questions
from ottla.pipeline.service.modules import beside
from ottla.pipeline.spec import PIPELINE_NAME, MapStep, PythonStep, Spec, StatefulStep

DEPLOYED: Final = "ottla-pipelines"
STATUS: Final = "ottla-pipelines-status"
LOGS: Final = "ottla-pipelines-logs"
GROUP: Final = "ottla-pipelines"
PARTITIONS: Final = 12
"""How many workers can have something to do; a pipeline belongs to the worker that has its partition."""
_WEEK_MS: Final = str(7 * 24 * 3600 * 1000)


@dataclass(frozen=True, slots=True)
class Deployed:
    name: str
    spec: str
    """The text of its file."""
    modules: Mapping[str, str] = field(default_factory=dict)
    """Python files beside it that its steps need, by their paths."""
    at: float = 0.0

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, slots=True)
class Told:
    """How a pipeline is doing, as its worker says."""

    name: str
    state: str
    """starting, running, waiting (to be started again), stopped."""
    worker: str
    at: float
    restarts: int = 0
    error: str | None = None
    queries: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()


def deployed(value: bytes) -> Deployed:
    """ValueError or TypeError if it is no such thing; its name becomes that of a folder."""
    found = Deployed(**json.loads(value))
    if not PIPELINE_NAME.fullmatch(found.name):
        raise ValueError(f"{found.name!r} is no name of a pipeline")
    return found


def told(value: bytes) -> Told:
    return Told(**json.loads(value))


def of_spec(spec: Spec, file: Path) -> Deployed:
    """With the Python files beside the spec that it needs."""
    names = [
        str(getattr(entry.step, entry.kind)).partition(":")[0]
        for entry in spec.steps.values()
        if isinstance(entry.step, PythonStep | MapStep | StatefulStep)
    ]
    return Deployed(spec.name, file.read_text(encoding="utf-8"), beside(spec.folder, names), time.time())


def unpack(one: Deployed, folder: Path) -> Path:
    """The file of the spec, in a folder with all that it needs."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in one.modules.items():
        target = (folder / path).resolve()
        if not target.is_relative_to(folder.resolve()):
            raise OttlaError(f"pipeline {one.name}: the file {path} would not be in its folder")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    file = folder / "pipeline.yaml"
    file.write_text(one.spec, encoding="utf-8")
    return file


def make_topics(bootstrap: str) -> None:
    for name, count, configs in (
        (DEPLOYED, PARTITIONS, {"cleanup_policy": "compact"}),
        (STATUS, 1, {"cleanup_policy": "compact"}),
        (LOGS, 1, {"retention_ms": _WEEK_MS}),
    ):
        if not cluster_questions.partitions(bootstrap, name):
            cluster_questions.create_topic(bootstrap, name, count, **configs)
