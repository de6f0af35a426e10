"""`ottla log verify`."""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from ottla.cli.output import count, note, output_option, print_value, shown
from ottla.cli.progress import Progress

if TYPE_CHECKING:
    from ottla.cli.log.folder_check import Report


@click.command("verify")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True), metavar="PATH...")
@click.option("--shallow", is_flag=True, help="Checksums and headers only, not every record: faster.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what is in order.")
@output_option
def command(paths: tuple[str, ...], shallow: bool, quiet: bool, output: str | None) -> None:
    """Check files of a log: a partition's folder, a log dir with all of them, or single files.

    Checksums, offsets, records, indexes, leader epochs, producer snapshots and checkpoints, Ottla's or Apache Kafka's.
    Nothing is changed. The exit code is 1 if something is wrong. The log of a running broker may end with half a batch.
    """
    from ottla.cli.log.finding import find
    from ottla.cli.log.folder_check import check_folder, check_offsets_of

    progress = Progress("batches", shown=not quiet)
    reports: list[Report] = []
    batches = 0
    for path in paths:
        folders = find(path)
        checked = []
        for folder in folders:
            checked.append(check_folder(folder, deep=not shallow, told=partial(_tick, progress, batches)))
            batches += sum(len(segment.positions) for segment in checked[-1].segments)
        for folder, report in zip(folders, checked, strict=True):
            report.problems += check_offsets_of(folder, checked)
        reports += checked
    progress.end()
    if output in ("json", "yaml"):
        print_value(output, [report.as_row() for report in reports])
    else:
        for report in reports:
            _print(report, quiet)
    wrong = sum(problem.serious for report in reports for problem in report.problems)
    if wrong:
        note(f"ottla: {count(wrong, 'problem')} found.")
        sys.exit(1)


def _tick(progress: Progress, before: int, batches: int) -> None:
    progress.tick(before + batches)


def _print(report: Report, quiet: bool) -> None:
    if report.problems or not quiet:
        row = report.as_row()
        facts = [count(row["segments"], "segment")] if row["segments"] else []
        if row["segments"]:
            facts += [f"{row['batches']} batch{'' if row['batches'] == 1 else 'es'}", count(row["records"], "record")]
            facts.append(f"offsets {row['begins']} to {row['ends'] - 1}" if row["records"] else "no records")
        state = "in order" if not report.problems else count(len(report.problems), "remark")
        if any(problem.serious for problem in report.problems):
            state = click.style("not in order", bold=True)
        click.echo(f"{shown(report.folder or '.')}: {', '.join((*facts, state))}")
    for problem in report.problems:
        name = problem.path.removeprefix(f"{report.folder}/")
        place = f"{name}, {problem.where}" if problem.where else name
        click.echo(f"  {'' if problem.serious else '(remark) '}{shown(place)}: {shown(problem.what)}")
        click.echo(f"    {problem.advice}")
