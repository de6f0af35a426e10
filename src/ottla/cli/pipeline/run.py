"""`ottla pipeline run`."""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import click

from ottla.cli.output import note
from ottla.cli.pipeline.spark_log import NAME, kept_in, named_if_it_fails, show_spark_option, told_if_it_fails
from ottla.cli.pipeline.spec_argument import bootstrap_option, checkpoint_of, checkpoint_option, loaded, spec_argument
from ottla.cli.pipeline.telling import teller


@click.command()
@spec_argument
@click.option("--once", is_flag=True, help="End when all that is there now has been written.")
@click.option("--while-stdin-is-open", is_flag=True, hidden=True, help="End when whoever started it has ended.")
@show_spark_option
@bootstrap_option
@checkpoint_option
def command(
    file: Path, once: bool, while_stdin_is_open: bool, show_spark: bool, bootstrap: str | None, checkpoint: str | None
) -> None:
    """Run a pipeline here, until Ctrl-C, `ottla pipeline stop`, or an error.

    It goes on from where it was. A line for each micro-batch, on a terminal a bar, says how many rows, how fast, how
    far behind, how much state. A change of the spec with which the state would be of no use is refused. What Spark
    itself says is in spark.log, beside the checkpoint.
    """
    from ottla.pipeline.running import Run
    from ottla.pipeline.spark_session import started

    place = checkpoint_of(loaded(file, bootstrap), checkpoint)
    with place.held():
        spec = loaded(file, bootstrap, place.work)
        note(f"{spec.name}: starting Spark ({spec.resources.master}); the checkpoint is in {place.folder}")
        asked: list[int] = []

        def ask(number: int, frame: Any) -> None:
            asked.append(number)

        if while_stdin_is_open:
            threading.Thread(target=_wait_for_end_of_stdin, args=(asked,), daemon=True).start()
        with kept_in(place.folder / NAME, show=show_spark) as log:
            with told_if_it_fails(log):
                session = started(spec.name, spec.resources)
            for one in (signal.SIGINT, signal.SIGTERM):
                signal.signal(one, ask)
            telling = teller()

            def should_stop() -> bool:
                log.trim()
                return bool(asked)

            began: list[str] = []

            def has_begun() -> None:
                began.append(spec.name)
                note(f"{spec.name}: runs")

            try:
                running = Run(spec, session, place, telling.tell, has_begun)
                with named_if_it_fails(log, lambda: bool(began)):
                    running.until_done(once=once, should_stop=should_stop)
            finally:
                telling.end()
                session.stop()
        note(f"{spec.name}: stopped")


def _wait_for_end_of_stdin(asked: list[int]) -> None:
    while os.read(sys.stdin.fileno(), 4096):  # not by sys.stdin, whose lock the interpreter wants when it ends
        pass
    asked.append(0)
