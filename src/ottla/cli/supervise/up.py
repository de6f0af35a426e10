"""`ottla up --brokers`: from the command line to a supervised cluster, and what it says when it is up."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ottla import __version__
from ottla.cli.demo import beside
from ottla.cli.output import count, note, print_outcome
from ottla.cli.supervise.starting import Prepared, chosen_layout, prepare, supervise

if TYPE_CHECKING:
    from ottla.cli.pid_file import PidFile


class Wanted(NamedTuple):
    folder: Path
    brokers: int | None
    controllers: int | None
    port: int
    metrics_port: int | None
    configs: Mapping[str, str]
    demo: beside.Wanted


class _Started(NamedTuple):
    prepared: Prepared
    folder: Path
    pid: int
    seconds: float
    log: Path | None
    """Of a supervisor in the background."""
    demo: Path | None
    """Where the small pipeline says how it is doing, if it was asked for: on the screen is the table of nodes."""


def run_cluster(wanted: Wanted, pid_file: PidFile, *, detach: bool, output: str | None, begun: float) -> None:
    """Returns when all nodes have stopped, or are up in the background."""
    from ottla.cli.up import HOST

    folder = wanted.folder
    layout = chosen_layout(folder, wanted.brokers, wanted.controllers)
    assert layout is not None
    prepared = prepare(folder, layout, wanted.port, wanted.metrics_port, wanted.configs, HOST)

    demo_log = folder / beside.LOG_NAME

    def run(tell: Callable[[str], None]) -> None:
        pipeline = beside.Beside(wanted.demo, folder, demo_log)

        def started() -> None:
            pid_file.write(os.getpid(), prepared.bootstrap)
            tell(prepared.bootstrap)
            pipeline.start(prepared.bootstrap)

        try:
            pid_file.write(os.getpid(), "")
            supervise(folder, prepared, pid_file, started)
        finally:
            pipeline.end()
            pid_file.remove()

    def told(pid: int, log: Path | None) -> None:
        shown = demo_log if wanted.demo.runs else None
        _tell(output, _Started(prepared, folder, pid, time.monotonic() - begun, log, shown))

    if detach:
        from ottla.cli.detach import LOG_NAME, start_detached

        pid, _ = start_detached(folder, run)
        pid_file.close()
        told(pid, folder / LOG_NAME)
        _check_all_up(folder)
        return
    run(lambda _: told(os.getpid(), None))
    note("All nodes have stopped; the data stay.")


def _check_all_up(folder: Path) -> None:
    """Who starts it in the background would not see what the supervisor shows."""
    from ottla.cli.supervise.control import ask
    from ottla.model.errors import OttlaError

    down = [node for node in ask(folder, "list", None, 10.0)["nodes"] if node["state"] != "up"]
    if down:
        told = "; ".join(f"node {node['node']} {node['why'] or 'is ' + node['state']}" for node in down)
        raise OttlaError(f"not all nodes are up: {told}. `ottla node start` starts one again, `ottla down` stops all")


def _tell(output: str | None, started: _Started) -> None:
    if output is None:
        _greet(started)
        return
    done: dict[str, Any] = {
        "address": started.prepared.bootstrap,
        "data": str(started.folder),
        "pid": started.pid,
        "log": None if started.log is None else str(started.log),
        "seconds": round(started.seconds, 3),
        "nodes": [
            {"node": node.id, "roles": list(node.roles), "port": node.port or None,
             "controller_port": node.controller_port or None}
            for node in started.prepared.layout.nodes
        ],
    }  # fmt: skip
    print_outcome(output, done)


def _greet(started: _Started) -> None:
    from ottla.cli.supervise.layout import copies
    from ottla.cli.up import SNIPPET, is_on_path, this_command

    layout = started.prepared.layout
    replicas, in_sync = copies(len(layout.brokers))
    ottla = this_command()
    data = f"--data {shlex.quote(str(started.folder))}"
    bootstrap = started.prepared.bootstrap
    voters = ", ".join(str(node.id) for node in layout.voters)
    click.echo(
        f"Ottla {__version__} is up after {started.seconds:.2f} s: {count(len(layout.brokers), 'broker')}, "
        f"{count(len(layout.voters), 'controller')} (node {voters})."
    )
    click.echo(f"  connect to  {click.style(bootstrap, bold=True)}")
    click.echo(f"  data        {started.folder}, a folder for each node")
    click.echo(
        f"  topics      internal and new ones have {count(replicas, 'replica')}; acks=all waits for {in_sync} in sync"
    )
    if started.log is not None:
        click.echo(f"  runs        in the background, pid {started.pid}, log in {started.log}")
    click.echo(f"  nodes       {ottla} node list|stop|start|restart|kill {data}")
    stop = f"{ottla} down {data}"
    click.echo(f"  stop        {stop if started.log is not None else f'Ctrl-C (or: {stop})'}")
    told = f"a small one on Spark tells how it is doing in {started.demo}" if started.demo else beside.remark()
    click.echo(f"  {'pipeline' if started.demo else 'more':12}{told}")
    click.echo(f"\nTo try it, in Python{'' if is_on_path(sys.executable) else f' ({sys.executable})'}:\n")
    for line in SNIPPET.format(address=bootstrap).splitlines():
        click.echo(f"  {line}" if line else "")
    click.echo()
