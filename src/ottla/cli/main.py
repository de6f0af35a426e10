"""The `ottla` command. Each subcommand is imported when it is used, so that help and small commands answer at once."""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Any, Final

import click

from ottla import __version__
from ottla.cli.groups import LazyGroup

COMMANDS: Final = {
    # name: (module, what --help says without importing it)
    "up": ("ottla.cli.up", "Start a node or a cluster here and now: a Kafka broker on 127.0.0.1:9092."),
    "down": ("ottla.cli.down", "Stop the node or the cluster of a data folder."),
    "node": ("ottla.cli.node", "List, stop, start, restart and kill single nodes of a cluster on this machine."),
    "broker": ("ottla.cli.broker", "Run a node as a server.properties file says."),
    "storage": ("ottla.cli.storage", "Prepare the folders of a node."),
    "cluster": ("ottla.cli.cluster", "Look at a cluster: its state, its nodes, its metadata quorum."),
    "topic": ("ottla.cli.topic", "Create, list, describe, change, empty, copy and delete topics."),
    "reassign": ("ottla.cli.reassign", "Move partitions between brokers: plan, run, watch, cancel."),
    "elect": ("ottla.cli.elect", "Elect leaders of partitions."),
    "group": ("ottla.cli.group", "List, describe, watch, reset and delete consumer groups."),
    "txn": ("ottla.cli.txn", "List, describe, explain and abort transactions."),
    "config": ("ottla.cli.config", "Show, change and explain configs."),
    "log": ("ottla.cli.log", "Look into the files of a log, and check them."),
    "tier": ("ottla.cli.tier", "Look at the remote tier: what is in the object store, and whether it is whole."),
    "produce": ("ottla.cli.produce", "Write records to a topic, from arguments, lines or files."),
    "consume": ("ottla.cli.consume", "Read records of topics."),
    "pipeline": ("ottla.cli.pipeline", "Check, draw, test, run and deploy data pipelines on Spark."),
    "pipelines": ("ottla.cli.pipelines", "Run deployed pipelines, together with other workers."),
    "dlq": ("ottla.cli.dlq", "Show what pipelines have put aside, and replay it."),
    "perf": ("ottla.cli.perf", "Measure a cluster: writing, reading, and the way from one to the other."),
    "sim": ("ottla.cli.sim", "Simulate clusters in which everything breaks, and check what was promised."),
    "profile": ("ottla.cli.profile", "Keep addresses of clusters under names."),
    "completion": ("ottla.cli.completion", "Print the script that completes commands in a shell."),
}

INTERRUPTED: Final = 130  # 128 + SIGINT, as shells have it
_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
SETTINGS: Final[dict[str, Any]] = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


@click.command(cls=LazyGroup, commands=COMMANDS, context_settings=SETTINGS)
@click.version_option(__version__, "-V", "--version", message="ottla %(version)s")
def cli() -> None:
    """Kafka in Python: a broker that any Kafka client works with, and the tools around it."""


def main() -> None:
    gc.set_threshold(50_000, 20, 20)  # of the many objects that imports make, none goes away again
    # kio builds test strategies when hypothesis can be imported; no command has a use for them
    sys.modules.setdefault("hypothesis", None)  # type: ignore[arg-type]  # None makes an import fail
    try:
        sys.exit(cli.main(prog_name="ottla", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt) as end:
        refused = isinstance(end, click.Abort) and not isinstance(end.__context__, KeyboardInterrupt)
        click.echo("ottla: nothing was done" if refused else "ottla: interrupted", err=True)
        sys.exit(1 if refused else INTERRUPTED)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _FULL and error.filename is None:
            _stop_writing()
            click.echo(f"ottla: the output cannot be written: {error.strerror}", err=True)
            sys.exit(1)
        # imported only now: the module brings Kafka's error codes along, which `ottla --help` does not need
        from ottla.model.errors import OttlaError

        if not isinstance(error, OttlaError):
            raise
        from ottla.cli.output import note

        note(f"ottla: {error}")
        sys.exit(1)


def _stop_writing() -> None:
    """So that Python does not try again, and complain, when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
