"""`ottla up`: a node here and now, with a data folder that is made by itself."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from ottla import __version__
from ottla.cli.log_format import log_format_config, log_format_option
from ottla.cli.name_value import NameValue
from ottla.cli.output import note, outcome_option, print_outcome
from ottla.cli.running import BEFORE_START, CtrlC, run_node

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

DEFAULT_PORT: Final = 9092
DEFAULT_DATA: Final = "ottla-data"
HOST: Final = "127.0.0.1"

SNIPPET: Final = """\
from confluent_kafka import Consumer, Producer
producer = Producer({{"bootstrap.servers": "{address}"}})
producer.produce("hello", b"world")
producer.flush()
consumer = Consumer({{"bootstrap.servers": "{address}", "group.id": "me", "auto.offset.reset": "earliest"}})
consumer.subscribe(["hello"])
print(consumer.poll(10).value())
consumer.close()
"""


@click.command()
@click.option(
    "--brokers", type=click.IntRange(1, 100),
    help="Start so many brokers as one cluster, each a process of its own, on ports from --port on.",
)  # fmt: skip
@click.option(
    "--controllers", type=click.IntRange(1, 9),
    help="With --brokers: so many controllers of their own. Otherwise up to three brokers are controllers too.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65535), default=DEFAULT_PORT, show_default=True, help="0 for any.")
@click.option(
    "--data", "folder", type=click.Path(file_okay=False, path_type=Path), default=DEFAULT_DATA, show_default=True,
    help="Where topics and the cluster's id are kept; made if it is not there.",
)  # fmt: skip
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve metrics and health over HTTP on 127.0.0.1; 0 for any."
)
@log_format_option
@click.option("--set", "given", type=NameValue(), multiple=True, help="Any of Kafka's broker configs; repeatable.")
@click.option("--detach", is_flag=True, help="Go into the background once the node answers.")
@click.option(
    "--spark/--no-spark", default=False,
    help='Also run a small pipeline on Spark, in the background. Needs `pip install "ottla[pipelines]"`.',
)  # fmt: skip
@click.option("--spark-first", default="", hidden=True, help="A command that installs PySpark, for `make up`.")
@outcome_option
def command(
    brokers: int | None,
    controllers: int | None,
    port: int,
    folder: Path,
    metrics_port: int | None,
    log_format: str | None,
    given: tuple[tuple[str, str], ...],
    detach: bool,
    spark: bool,
    spark_first: str,
    output: str | None,
) -> None:
    """Start a node here and now: a Kafka broker on 127.0.0.1:9092. Ctrl-C stops it, its data stay.

    With --brokers, a cluster: a supervisor shows how its nodes are and restarts none by itself; `ottla node` stops,
    starts and kills single ones. The same data folder again continues the same cluster, with more brokers if asked for.
    """
    ctrl_c = CtrlC()

    from ottla.cli.demo import beside
    from ottla.cli.pid_file import PidFile, running
    from ottla.model.errors import OttlaError

    begun = time.monotonic()
    demo = beside.Wanted(spark, spark_first)
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        pid_file = PidFile.take(folder)
    except OSError as error:
        raise OttlaError(f"cannot use {folder} as data folder: {error.strerror}") from None
    if pid_file is None:
        other = running(folder)
        told = f" (pid {other.pid}{f', {other.address}' if other.address else ''})" if other else ""
        raise OttlaError(
            f"a node already runs on {folder}{told}. Stop it with `ottla down --data {shlex.quote(str(folder))}` or "
            "give another --data."
        )
    try:
        watched = log_format_config(log_format)
        from ottla.cli.supervise.layout import FILE_NAME

        if brokers is not None or controllers is not None or (folder / FILE_NAME).exists():
            from ottla.cli.supervise.up import Wanted, run_cluster

            wanted = Wanted(folder, brokers, controllers, port, metrics_port, watched | dict(given), demo)
            run_cluster(wanted, pid_file, detach=detach, output=output, begun=begun)
            return
        if metrics_port is not None:
            watched["ottla.metrics.listener"] = f"{HOST}:{metrics_port}"
        config = _config(folder, port, watched | dict(given))
    except BaseException:
        pid_file.remove()
        raise

    def run(tell: Callable[[str], None]) -> bool:
        pipeline = beside.Beside(demo, folder)

        def format_if_new() -> None:
            from ottla.cli import format_dirs

            format_dirs.format_if_new(config)

        def started(address: str) -> None:
            pid_file.write(os.getpid(), address)
            tell(address)
            pipeline.start(address)

        try:
            pid_file.write(os.getpid(), "")
            return run_node(config, started, ctrl_c, first=format_if_new)
        finally:
            pipeline.end()
            pid_file.remove()

    if detach:
        from ottla.cli.detach import LOG_NAME, start_detached

        pid, address = start_detached(folder, run)
        pid_file.close()
        _tell(output, _Started(address, folder, pid, time.monotonic() - begun, folder / LOG_NAME, demo.runs))
        return

    def tell(address: str) -> None:
        _tell(output, _Started(address, folder, os.getpid(), time.monotonic() - begun, None, demo.runs))

    lasted = run(tell)
    note("Stopped; the data stay." if lasted else BEFORE_START)


def _config(folder: Path, port: int, given: dict[str, str]) -> BrokerConfig:
    from ottla.cli.ports import free_port
    from ottla.model.config import broker_config, standalone

    if "listeners" not in given and port:
        taken = port
        port = free_port(HOST, port)
        if port != taken:
            note(f"Port {taken} is taken, so this node uses {port}.")
    where = {name: f"--set {name}" for name in given}
    config = broker_config(standalone(str(folder), port, HOST) | given, where)
    warn_unknown(config, where)
    return config


def warn_unknown(config: BrokerConfig, where: Mapping[str, str]) -> None:
    from ottla.cli.config_names import hint
    from ottla.model.config import BROKER_CONFIGS

    for name in config.unknown:
        place = f"{where[name]}: " if name in where else ""
        note(f"Warning: {place}config {name} is unknown and has no effect{hint(name, BROKER_CONFIGS) or '.'}")


class _Started(NamedTuple):
    address: str
    folder: Path
    pid: int
    seconds: float
    log: Path | None
    """Of a node in the background."""
    has_pipeline: bool


def _tell(output: str | None, node: _Started) -> None:
    if output is None:
        _greet(node)
        return
    done = {
        "address": node.address,
        "data": str(node.folder),
        "pid": node.pid,
        "log": None if node.log is None else str(node.log),
        "seconds": round(node.seconds, 3),
    }
    print_outcome(output, done)


def _greet(node: _Started) -> None:
    stop = f"{this_command()} down --data {shlex.quote(str(node.folder))}"
    click.echo(f"Ottla {__version__} is up at {click.style(node.address, bold=True)} after {node.seconds:.2f} s.")
    click.echo(f"  data  {node.folder}")
    if node.log is not None:
        click.echo(f"  runs  in the background, pid {node.pid}, log in {node.log}")
    click.echo(f"  stop  {stop if node.log is not None else f'Ctrl-C (or: {stop})'}")
    if not node.has_pipeline:
        from ottla.cli.demo.beside import remark

        click.echo(f"  more  {remark()}")
    elif node.log is not None:
        click.echo("  more  a small pipeline starts too, and tells what comes out in the log")
    click.echo(f"\nTo try it, in Python{'' if is_on_path(sys.executable) else f' ({sys.executable})'}:\n")
    for line in SNIPPET.format(address=node.address).splitlines():
        click.echo(f"  {line}" if line else "")
    click.echo()


def this_command() -> str:
    """As the shell finds it: an environment that `make` has prepared need not be active."""
    typed = sys.argv[0]
    return "ottla" if is_on_path(typed) or Path(typed).name != "ottla" else shlex.quote(typed)


def is_on_path(program: str) -> bool:
    found = shutil.which(Path(program).name)
    return found is not None and Path(found).absolute() == Path(program).absolute()
