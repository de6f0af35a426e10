"""`ottla pipeline stop`."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.output import outcome_option, print_outcome
from ottla.cli.pipeline.spec_argument import checkpoint_of, checkpoint_option, loaded, spec_argument
from ottla.cli.times import Seconds
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.pipeline.checkpoint import Checkpoint


@click.command()
@spec_argument
@checkpoint_option
@click.option(
    "--timeout", type=Seconds(), default=90.0, show_default=True, help="Seconds to wait until it has stopped."
)
@outcome_option
def command(file: Path, checkpoint: str | None, timeout: float, output: str | None) -> None:
    """Stop a pipeline after the micro-batch that is under way."""
    spec = loaded(file)
    place = checkpoint_of(spec, checkpoint)
    if not place.is_held:
        print_outcome(output, {"pipeline": spec.name, "stopped": False}, f"{spec.name} does not run")
        return
    place.ask_to_stop()
    deadline = time.monotonic() + timeout
    while _runs(place):
        if time.monotonic() > deadline:
            raise OttlaError(f"{spec.name} has not stopped within {timeout:g} s; it will when its micro-batch ends")
        time.sleep(0.1)
    print_outcome(output, {"pipeline": spec.name, "stopped": True}, f"{spec.name} has stopped")


def _runs(place: Checkpoint) -> bool:
    return place.is_held
