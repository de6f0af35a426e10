"""Runs specs in tests, as `ottla pipeline run --once` does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.spark.topics import messages

from ottla.pipeline.checkpoint import Checkpoint
from ottla.pipeline.running import Run
from ottla.pipeline.spec import Spec, load, understood
from ottla.testing.node import RunningNode

EXAMPLES = Path(__file__).parents[3] / "examples" / "pipelines"


def spec_of(text: str, node: RunningNode, folder: Path) -> Spec:
    return understood(text, "pipeline.yaml", folder, node.address)


def example(name: str, node: RunningNode) -> Spec:
    return load(EXAMPLES / name / "pipeline.yaml", node.address)


def run_once(spec: Spec, spark: Any, folder: Path) -> list[str]:
    """What it said."""
    said: list[str] = []
    checkpoint = Checkpoint(folder)
    with checkpoint.held():
        Run(spec, spark, checkpoint, lambda now: said.append(now.line())).until_done(once=True)
    return said


def values(node: RunningNode, topic: str) -> list[Any]:
    """What a consumer with read_committed finds, as JSON; None for tombstones."""
    found = messages(node, topic, "read_committed")
    return [None if message.value() is None else json.loads(message.value()) for message in found]
