"""`ottla config set`."""

from __future__ import annotations

import click

from ottla.cli.cluster_options import Cluster, cluster_options
from ottla.cli.config.change import apply
from ottla.cli.config.resource import config_names, resource_arguments
from ottla.cli.config_names import plain_value
from ottla.cli.name_value import NameValue, from_file_option
from ottla.cli.output import outcome_option
from ottla.cli.secrets import advise_on_secrets


def _offered(context: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [f"{name}=" for name in config_names(context, param, incomplete)]


@click.command("set")
@resource_arguments
@click.argument(
    "given", nargs=-1, type=NameValue(), metavar="[CONFIG=VALUE]...", shell_complete=_offered
)  # fmt: skip
@from_file_option
@click.option("--append", is_flag=True, help="Add to a list instead of replacing it.")
@click.option("--subtract", is_flag=True, help="Take out of a list instead of replacing it.")
@click.option("--check", is_flag=True, help="Only find out whether the broker would take it.")
@outcome_option
@cluster_options
def command(
    kind: str,
    name: str,
    given: tuple[tuple[str, str], ...],
    from_files: tuple[tuple[str, str], ...],
    append: bool,
    subtract: bool,
    check: bool,
    output: str | None,
    cluster: Cluster,
) -> None:
    """Set configs, at once and without a restart.

    KIND is topic, broker, broker-logger, client-metrics or group. A broker's NAME is its number, or `default` for all
    brokers. Times and sizes may have units: retention.ms=7d, segment.bytes=64MiB. What is typed stays in the history of
    the shell: a secret is better read by --from-file, from a file or from stdin.
    """
    from ottla.cli.admin.configs import Change, Operation

    if not given and not from_files:
        raise click.UsageError("nothing to set: give CONFIG=VALUE or --from-file")
    if append and subtract:
        raise click.UsageError("--append and --subtract exclude each other")
    operation = Operation.APPEND if append else Operation.SUBTRACT if subtract else Operation.SET
    changes = [Change(key, operation, plain_value(key, value)) for key, value in (*given, *from_files)]
    apply(cluster, kind, name, changes, check_only=check, output=output)
    advise_on_secrets([key for key, _ in given])
