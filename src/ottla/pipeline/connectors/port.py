"""What a source and a sink of a pipeline are.

A connector is a class here in its own module, and a line in registry.py. Its options are a dataclass (options.py), of
which the first field is named like the connector and says what is read or written: `topic: orders`, `delta: /data/out`.
Names and types are checked by whoever reads the spec, before the connector is made.

Making one must be cheap and reach for nothing: no network, no Spark, no import of a library that may not be there.
Those belong into the methods, and pyspark, pyarrow and the like into the functions that use them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.passwords import without_password
from ottla.pipeline.problems import Problem

DataFrame = Any
SparkSession = Any
StructType = Any


class Shape(Enum):
    """What a source can be in a pipeline."""

    STREAM = "stream"
    """What comes, row after row."""
    TABLE = "table"
    """What is there now, looked at again for every micro-batch."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where in which pipeline a connector stands."""

    pipeline: str
    entry: str
    """The name of the source or sink in the spec."""
    bootstrap: str = "127.0.0.1:9092"
    """Of the cluster."""
    folder: Path = Path()
    """Where relative paths begin: that of the spec."""
    work: Path | None = None
    """A folder that stays as long as the pipeline's checkpoint does, for what a source must remember; None where
    nothing runs (check, plan)."""

    @property
    def name(self) -> str:
        return f"{self.pipeline}.{self.entry}"


@dataclass(frozen=True, slots=True)
class Batch:
    """A micro-batch, as a sink is given it. A batch that is repeated after a failure has the same query and id, and the
    same rows unless a Python function or a table has changed its mind."""

    query: str
    """The same for every run of a pipeline, and another for each sink; another one too after `replay`, when ids begin
    at 0 again and rows are meant to be written again."""
    id: int


class Connector(ABC):
    options: ClassVar[type]
    """The dataclass of its options."""
    doc: ClassVar[str]
    """A sentence or two for the reference page."""

    def __init__(self, options: Any, place: Place) -> None:
        self.given = options
        self.place = place

    @property
    def what(self) -> str:
        """What is read or written, in words. With another source of a stream offsets are of no use; secrets are left
        out, since it is shown and kept."""
        return without_password(str(getattr(self.given, fields(self.options)[0].name)))

    def check(self) -> Iterable[Problem]:
        """What is wrong with the options together; paths begin at an option's name. Asks nobody."""
        return ()

    def check_there(self) -> Iterable[Problem]:
        """What is wrong when the real system is asked, within a second or so: a topic or a table that is not there."""
        return ()


class Source(Connector):
    shapes: ClassVar[tuple[Shape, ...]]
    """The first is what it is unless `as` in the spec says otherwise."""

    def stream(self, spark: SparkSession) -> DataFrame:
        """A streaming DataFrame."""
        raise OttlaError(f"{self.place.entry} cannot be read as a stream")

    def table(self, spark: SparkSession) -> DataFrame:
        """What is there when a micro-batch looks at it."""
        raise OttlaError(f"{self.place.entry} cannot be read as a table")

    def columns(self) -> Mapping[str, str] | None:
        """Names and Spark types of the columns, where options alone tell; SQL is checked against them without Spark."""
        return None

    def test_rows(self, rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Rows of `ottla pipeline test` as they stand in the spec, with the columns that they would have in earnest."""
        return list(rows)

    @property
    def test_schema(self) -> str | None:
        """Of those rows; None where it is what they look like."""
        kinds = self.columns()
        return None if kinds is None else ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())


class Sink(Connector):
    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        """Whether rows of these columns can be written; asked once, before anything runs."""
        return ()

    @abstractmethod
    def write(self, rows: DataFrame, batch: Batch) -> None:
        """All rows of a micro-batch, called from foreachBatch on the driver; must be there when it returns.

        Idempotent: a batch that was written already is not written again, whoever asks, and however far an earlier
        attempt has come. An error ends the pipeline's run; its message names what is written to, and says what to do.
        """

    def as_test_rows(self, rows: DataFrame) -> list[dict[str, Any]]:
        """What `ottla pipeline test` compares with the rows that it expects."""
        return [row.asDict(recursive=True) for row in rows.collect()]
