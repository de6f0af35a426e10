"""`ottla sim`: each command is a module here, imported when it is used."""

from __future__ import annotations

from typing import Final

import click

from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    "run": ("ottla.cli.sim.run", "Run many seeds, each a cluster in which everything breaks."),
    "replay": ("ottla.cli.sim.replay", "Run one seed again, and tell what happened."),
    "shrink": ("ottla.cli.sim.shrink", "Find out how little of a failing seed is needed for it to fail."),
    "coverage": ("ottla.cli.sim.coverage", "Run seeds, and count which of them saw what."),
    "speed": ("ottla.cli.sim.speed", "Measure how much faster than real time a cluster of three nodes runs."),
}


@click.command(cls=LazyGroup, commands=COMMANDS)
def command() -> None:
    """Simulate whole clusters: the real nodes, on virtual time, with everything that can go wrong."""
