"""What commands about a pipeline have in common: its file, the cluster, and the folder of its checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from ottla.pipeline.checkpoint import Checkpoint
    from ottla.pipeline.spec import Spec

F = TypeVar("F", bound=Callable[..., Any])


def spec_argument(function: F) -> F:
    """Gives a command the argument `file`."""
    return click.argument("file", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE")(function)


def bootstrap_option(function: F) -> F:
    return click.option(
        "-b", "--bootstrap-server", "bootstrap", envvar="OTTLA_BOOTSTRAP", show_envvar=True, metavar="HOST:PORT",
        help="The broker, or several separated by commas; by default what the spec says.",
    )(function)  # fmt: skip


def checkpoint_option(function: F) -> F:
    return click.option(
        "--checkpoint", type=click.Path(file_okay=False), help="The pipeline's folder, if not what the spec says."
    )(function)


def loaded(file: Path, bootstrap: str | None = None, work: Path | None = None) -> Spec:
    """BadSpec is an OttlaError: main prints its lines."""
    try:
        from ottla.pipeline.spec import load

        return load(file, bootstrap, work)
    except ModuleNotFoundError as error:
        if error.name in ("yaml", "sqlglot"):
            raise click.ClickException('pipelines need more libraries: `pip install "ottla[pipelines]"`') from None
        raise


def checkpoint_of(spec: Spec, given: str | None) -> Checkpoint:
    from ottla.pipeline.checkpoint import Checkpoint, folder_of

    if given is not None:
        return Checkpoint(Path(given).resolve())
    return Checkpoint(folder_of(spec.name, spec.checkpoint, spec.folder))
