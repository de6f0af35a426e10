"""`ottla pipeline check`."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from ottla.cli.output import count, note, outcome_option, print_outcome
from ottla.cli.pipeline.spec_argument import bootstrap_option, loaded, spec_argument
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.pipeline.spec import Spec


@click.command()
@spec_argument
@click.option("--spark", "with_spark", is_flag=True, help="Also ask Spark, which takes some ten seconds.")
@click.option("--offline", is_flag=True, help="Ask neither the cluster nor other systems.")
@bootstrap_option
@outcome_option
def command(file: Path, with_spark: bool, offline: bool, bootstrap: str | None, output: str | None) -> None:
    """Say what is wrong with a pipeline's spec, a line for each: FILE:LINE:COLUMN: what.

    Names, types and SQL are looked at here, topics and tables are asked for. What SQL means in the end only Spark can
    tell: --spark lets it look too.
    """
    from ottla.pipeline import checking

    try:
        spec = loaded(file, bootstrap)
    except OttlaError as error:
        _end(output, str(error).splitlines())
    found = checking.problems(spec, ask=not offline)
    if with_spark:
        found = [one for one in found if not one.is_doubt]
    if found:
        _end(output, spec.told(found))
    if with_spark:
        _ask_spark(spec)
    parts = ((spec.sources, "source"), (spec.steps, "step"), (spec.sinks, "sink"), (spec.tests, "test"))
    right = f"{file} is right: {', '.join(count(len(part), what) for part, what in parts)}"
    print_outcome(output, {"file": str(file), "right": True, "problems": []}, right)


def _ask_spark(spec: Spec) -> None:
    from ottla.cli.pipeline.spark_log import NAME, kept_in, told_if_it_fails
    from ottla.pipeline import checking
    from ottla.pipeline.spark_session import trying

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-check-")))
        log = stack.enter_context(kept_in(folder / NAME))
        with told_if_it_fails(log):
            session = stack.enter_context(trying(spec.name, spec.resources))
        checking.with_spark(spec, session)


def _end(output: str | None, problems: list[str]) -> NoReturn:
    if output is None:
        for line in problems:
            note(line)
    else:
        file = problems[0].partition(":")[0]
        print_outcome(output, {"file": file, "right": False, "problems": problems})
    raise click.exceptions.Exit(1)
