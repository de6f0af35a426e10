"""`ottla pipeline replay`."""

from __future__ import annotations

from pathlib import Path

import click

from ottla.cli.output import may_go_on, outcome_option, print_outcome
from ottla.cli.pipeline.spec_argument import checkpoint_of, checkpoint_option, loaded, spec_argument
from ottla.model.errors import OttlaError


@click.command()
@spec_argument
@click.option(
    "--from", "start", required=True, metavar="PLACE", help="earliest, latest, or a time like 2026-11-16T12:00:00Z."
)  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@checkpoint_option
@outcome_option
def command(file: Path, start: str, yes: bool, checkpoint: str | None, output: str | None) -> None:
    """Let a stopped pipeline begin anew: its topics are read from PLACE on, and its state starts empty.

    What it has written stays, and is written again from there on. The old checkpoint is kept beside the new one.
    """
    from ottla.pipeline.connectors.topic_source import is_start

    spec = loaded(file)
    if not is_start(start):
        raise OttlaError(f"--from is earliest, latest or a time like 2026-11-16T12:00:00Z, not {start!r}")
    place = checkpoint_of(spec, checkpoint)
    with place.held():
        may_go_on(f"{spec.name} will write again what it makes of records from {start} on. Go on?", yes)
        now = place.begin_anew(start)
    done = {"pipeline": spec.name, "from": start, "generation": now.generation}
    print_outcome(output, done, f"{spec.name} begins anew from {start} when it runs next")
