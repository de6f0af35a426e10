"""`map` steps: a Python function for each row, called by Spark's Python processes for whole Arrow batches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa


def imported(name: str, folder: Path) -> Any:
    """What `module:name` says; modules beside the spec are found. OttlaError, with the cause, if it is not there."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    module, _, attribute = name.partition(":")
    try:
        found = import_module(module)
    except ImportError as error:
        raise OttlaError(f"{name}: {error} (modules beside the spec, in {folder}, are found)") from error
    except Exception as error:
        raise OttlaError(f"{name}: importing {module} fails: {type(error).__name__}: {error}") from error
    _send_by_value(folder)
    if not hasattr(found, attribute):
        raise OttlaError(f"{name}: {module} has no {attribute}{did_you_mean(attribute, dir(found))}")
    return getattr(found, attribute)


def _send_by_value(folder: Path) -> None:
    """Modules beside the spec are not where Spark's Python processes look, so that what is in them travels whole."""
    from pyspark.cloudpickle import register_pickle_by_value

    for name, module in list(sys.modules.items()):
        place = folder.joinpath(*name.split("."))
        if getattr(module, "__file__", None) in (f"{place}.py", str(place / "__init__.py")):
            register_pickle_by_value(module)


def mapping(
    function: Callable[[dict[str, Any]], Any], name: str, schema_json: str, *, fails: bool
) -> Callable[[Any], Iterator[pa.RecordBatch]]:
    """For mapInArrow. Where it does not fail, rows have a column `_rejected` besides."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import json

        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        schema = to_arrow_schema(StructType.fromJson(json.loads(schema_json)), timezone="UTC")
        for batch in batches:
            rows = [row for given in batch.to_pylist() for row in _results(function, name, given, fails)]
            yield pa.RecordBatch.from_pylist(rows, schema)

    return run


def _results(function: Any, name: str, given: dict[str, Any], fails: bool) -> list[dict[str, Any]]:
    try:
        found = function(dict(given))
        if found is None:
            return []
        rows = [found] if isinstance(found, dict) else list(found)
        if wrong := next((row for row in rows if not isinstance(row, dict)), None):
            raise TypeError(f"{name} must return dicts, not {type(wrong).__name__}")
        return rows
    except Exception as error:
        origin = {part: given.get(f"_{part}") for part in ("topic", "partition", "offset", "timestamp", "headers")}
        if fails:
            where = "" if origin["topic"] is None else " ({topic}-{partition}, offset {offset})".format(**origin)
            raise OttlaError(f"{name} rejects a row{where}: {type(error).__name__}: {error}") from error
        return [{"_rejected": _rejection(error, given) | origin}]


def _rejection(error: Exception, given: dict[str, Any]) -> dict[str, Any]:
    import json
    from traceback import format_exception

    own = {name: value for name, value in given.items() if not name.startswith("_")}
    trace = "".join(format_exception(error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)))
    key = given.get("_key")
    return {
        "reason": f"{type(error).__name__}: {error}",
        "trace": trace,
        "row": json.dumps(own, default=str),
        "key": key.encode() if isinstance(key, str) else key if isinstance(key, bytes) else None,
    }
