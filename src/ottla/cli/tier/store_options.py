"""The options that say where the store is: by hand, or from the file that the brokers have."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.name_value import NameValue

if TYPE_CHECKING:
    from ottla.env.object_store import ObjectStore

F = TypeVar("F", bound=Callable[..., Any])
_PREFIX_NAME: Final = "remote.log.storage.manager.impl.prefix"
_PREFIX: Final = "rsm.config."


def store_options(function: F) -> F:
    """Gives a command the argument `open_store`: a function that opens it, or says what is missing."""

    @click.option("--store", "url", metavar="URL", help="Such as s3://bucket/folder or file:///mnt/tier.")
    @click.option(
        "--store-option", "given", type=NameValue(), multiple=True, metavar="NAME=VALUE",
        help="Of the store, such as aws.region=eu-central-1. May be repeated.",
    )  # fmt: skip
    @click.option(
        "--config", "file", type=click.Path(dir_okay=False), metavar="FILE",
        help="A broker's properties, with rsm.config.url and the store's options.",
    )  # fmt: skip
    @wraps(function)
    def with_store(
        *args: Any, url: str | None, given: tuple[tuple[str, str], ...], file: str | None, **more: Any
    ) -> Any:
        return function(*args, open_store=lambda: _open(url, dict(given), file), **more)

    return with_store  # type: ignore[return-value]


def _open(url: str | None, given: dict[str, str], file: str | None) -> ObjectStore:
    from ottla.env.obstore_store import open_store
    from ottla.model.config.properties import load_properties

    options: dict[str, str] = {}
    if file is not None:
        values = load_properties(file).values
        prefix = values.get(_PREFIX_NAME, _PREFIX)
        options = {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}
    options = {name.replace(".", "_"): value for name, value in {**options, **given}.items()}
    from_file = options.pop("url", None)
    if not (url or from_file):
        raise click.UsageError("where is the store? Give --store URL, or --config FILE with rsm.config.url")
    return open_store(url or from_file or "", options, make_folder=False)
