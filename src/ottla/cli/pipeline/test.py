"""`ottla pipeline test`."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import click

from ottla.cli.output import count, outcome_option, print_outcome
from ottla.cli.pipeline.spark_log import NAME, kept_in, show_spark_option, told_if_it_fails
from ottla.cli.pipeline.spec_argument import loaded, spec_argument
from ottla.model.errors import OttlaError


@click.command()
@spec_argument
@click.option("-k", "--only", help="Only tests with this in their name.")
@show_spark_option
@outcome_option
def command(file: Path, only: str | None, show_spark: bool, output: str | None) -> None:
    """Run the tests that stand in a spec: given rows in, expected rows out, on a Spark but without a cluster."""
    from ottla.pipeline.spark_session import trying
    from ottla.pipeline.spec import PythonStep, StatefulStep
    from ottla.pipeline.trying import run_test

    spec = loaded(file)
    tests = [test for test in spec.tests if only is None or only in test.name]
    if not tests:
        raise OttlaError(f"{file} has no tests" + ("" if only is None else f" with {only!r} in their name"))
    outcomes = []
    keeps_state = any(isinstance(entry.step, StatefulStep | PythonStep) for entry in spec.steps.values())
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ottla-test-")))
        log = stack.enter_context(kept_in(folder / NAME, show=show_spark))
        with told_if_it_fails(log):
            session = stack.enter_context(trying(spec.name, spec.resources, keeps_state=keeps_state))
        for test in tests:
            outcome = run_test(spec, test, session, folder / "run")
            outcomes.append(outcome)
            if output is None:
                click.echo(f"{'FAILED' if outcome.problems else 'passed'}  {test.name}  ({outcome.seconds:.1f} s)")
                for line in outcome.problems:
                    click.echo(f"        {line}")
    failed = sum(bool(one.problems) for one in outcomes)
    told = [{"test": one.test.name, "passed": not one.problems, "problems": list(one.problems)} for one in outcomes]
    print_outcome(output, told, f"{count(len(tests) - failed, 'test')} passed, {failed} failed")
    if failed:
        raise click.exceptions.Exit(1)
