"""Iceberg's catalogs and tables, by pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.port import Place
from ottla.pipeline.connectors.storage import first_line, missing

CATALOG_DOC: Final = (
    "The catalog, by pyiceberg's settings: type (rest, sql, glue, hive), uri, warehouse, s3.endpoint, .... Relative "
    "paths of a warehouse begin where the spec is. Without it, the catalog `default` of ~/.pyiceberg.yaml or of the "
    "environment (PYICEBERG_CATALOG__DEFAULT__URI)."
)


def open_catalog(settings: Mapping[str, str] | None, place: Place) -> Any:
    try:
        from pyiceberg.catalog import load_catalog
    except ModuleNotFoundError as error:
        raise missing(error) from None
    given = dict(settings or {})
    warehouse = given.get("warehouse")
    if warehouse is not None and "://" not in warehouse and given.get("type") != "rest":
        folder = (place.folder / warehouse).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        given["warehouse"] = folder.as_uri()
    if given.get("uri", "").startswith("sqlite:///") and not given["uri"].startswith("sqlite:////"):
        given["uri"] = f"sqlite:///{(place.folder / given['uri'].removeprefix('sqlite:///')).resolve()}"
    try:
        return load_catalog("default", **given)
    except Exception as error:  # of many libraries
        raise OttlaError(f"the Iceberg catalog cannot be opened: {first_line(error)}") from error


def open_table(catalog: Any, name: str) -> Any:
    """None if there is none."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError):
        return None
    except Exception as error:
        raise OttlaError(f"the Iceberg table {name} cannot be read: {first_line(error)}") from error
