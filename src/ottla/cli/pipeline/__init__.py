"""`ottla pipeline`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "check": ("ottla.cli.pipeline.check", "Say what is wrong with a spec, with line and column."),
    "plan": ("ottla.cli.pipeline.plan", "Draw what flows from where to where."),
    "test": ("ottla.cli.pipeline.test", "Run the tests that stand in a spec."),
    "run": ("ottla.cli.pipeline.run", "Run a pipeline here, until it is stopped."),
    "status": ("ottla.cli.pipeline.status", "Show how a pipeline is doing."),
    "stop": ("ottla.cli.pipeline.stop", "Stop a pipeline after the batch that is under way."),
    "replay": ("ottla.cli.pipeline.replay", "Let a pipeline begin anew, from an earlier place."),
    "deploy": ("ottla.cli.pipeline.deploy", "Give a pipeline to the workers."),
    "undeploy": ("ottla.cli.pipeline.undeploy", "Take a pipeline from the workers."),
    "list": ("ottla.cli.pipeline.list", "List deployed pipelines, and how they are doing."),
    "logs": ("ottla.cli.pipeline.logs", "Show what a deployed pipeline has said."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Build data pipelines on the log: a spec in YAML, run by Spark. Needs `pip install "ottla[pipelines]"`."""
