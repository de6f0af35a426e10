"""A pipeline as its file says it: sources, steps over them, sinks, and what to do when something is wrong."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ottla.model.errors import OttlaError
from ottla.model.near_miss import did_you_mean
from ottla.pipeline import options
from ottla.pipeline.connectors import registry
from ottla.pipeline.connectors.port import Place, Shape, Sink, Source
from ottla.pipeline.options import Size, Span, option
from ottla.pipeline.problems import Problem
from ottla.pipeline.yaml_tree import Entries, NotYaml, Scalar, Tree, mark_of, parsed, with_environment

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
PIPELINE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


class BadSpec(OttlaError):
    """A line for each problem: file:line:column: what."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("\n".join(lines))
        self.lines = lines


# -- what stands in the file


@dataclass(frozen=True, slots=True)
class Watermark:
    column: str = option("The column with the time at which something happened.")
    delay: Span = option("How much later than the latest so far a row may come and still count.", Span(0))


_WATERMARK: Final = "Until when rows that are late still count; windows, and joins of streams, need it."


@dataclass(frozen=True, slots=True)
class OfSources:
    """Entries that every source may have."""

    as_: str | None = option("What it is in SQL.", None, choices=("stream", "table"))
    watermark: Watermark | None = option(_WATERMARK, None, short="column")


@dataclass(frozen=True, slots=True)
class OfSinks:
    """Entries that every sink may have."""

    from_: str = option("The source or step whose rows are written.")
    mode: str = option(
        "append: rows when they are final; update: rows of windows and counts whenever they change; complete: all of "
        "them, with every batch.",
        "append",
        choices=("append", "update", "complete"),
    )


@dataclass(frozen=True, slots=True)
class SqlStep:
    """Spark SQL over sources and steps: windows, sessions and joins too."""

    sql: str = option("A SELECT; sources and steps above are its tables.")
    watermark: Watermark | None = option(_WATERMARK, None, short="column")


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A Python function that makes a DataFrame of DataFrames."""

    python: str = option("module:function; it is called with a DataFrame for each name in `from`.")
    from_: tuple[str, ...] = option("Sources and steps.")
    arguments: Mapping[str, Any] | None = option("Further arguments, by name.", None)
    watermark: Watermark | None = option(_WATERMARK, None, short="column")


@dataclass(frozen=True, slots=True)
class MapStep:
    """A Python function that is called for each row; a row for which it raises an error is rejected."""

    map: str = option("module:function; takes a dict, returns a dict, a list of them, or None for no row.")
    from_: str = option("A source or a step.")
    schema: str = option("Columns of the rows that it returns, like `id BIGINT, name STRING`.")
    watermark: Watermark | None = option(_WATERMARK, None, short="column")


@dataclass(frozen=True, slots=True)
class RequireStep:
    """Rows must be as conditions say; one that is not is rejected, with the name of the condition as the reason."""

    require: Mapping[str, str] = option("Conditions in SQL, each under the reason that is told when it does not hold.")
    from_: str = option("A source or a step.")


@dataclass(frozen=True, slots=True)
class DedupStep:
    """Of rows with the same columns the first."""

    dedup: tuple[str, ...] = option("The columns.")
    from_: str = option("A source or a step; with a watermark, rows are remembered as long as that says.")


@dataclass(frozen=True, slots=True)
class StatefulStep:
    """A StatefulProcessor of Spark: state and timers of one's own for each key."""

    stateful: str = option("module:Class, a pyspark.sql.streaming.StatefulProcessor whose rows are pandas frames.")
    from_: str = option("A source or a step.")
    by: tuple[str, ...] = option("The columns of the key.")
    schema: str = option("Columns of the rows that it returns.")
    time: str = option("What its timers go by.", "none", choices=("none", "processing", "event"))
    watermark: Watermark | None = option(_WATERMARK, None, short="column")


Kind = SqlStep | PythonStep | MapStep | RequireStep | DedupStep | StatefulStep
STEPS: Final[dict[str, type]] = {
    "sql": SqlStep,
    "python": PythonStep,
    "map": MapStep,
    "require": RequireStep,
    "dedup": DedupStep,
    "stateful": StatefulStep,
}


@dataclass(frozen=True, slots=True)
class Errors:
    dead_letters: str | None = option("A topic for records that cannot be decoded and rows that a step rejects.", None)
    policy: str | None = option(
        "fail: the pipeline stops there; dead-letter: to the topic; skip: left out. By default dead-letter if there is "
        "a topic, else fail.",
        None,
        choices=("fail", "dead-letter", "skip"),
    )

    @property
    def way(self) -> str:
        return self.policy or ("fail" if self.dead_letters is None else "dead-letter")


@dataclass(frozen=True, slots=True)
class Resources:
    master: str = option("Spark's master: local[2], or the address of a cluster.", "local[*]")
    memory: Size = option("Of Spark's driver, and of its executors.", Size(1 << 30))
    trigger: Span = option("How often a micro-batch begins if there is something to do.", Span(1))
    partitions: int = option("Into how many parts state and shuffles are split; fixed once there is state.", 2)
    spark: Mapping[str, str] | None = option("Any other setting of Spark.", None)


@dataclass(frozen=True, slots=True)
class Test:
    name: str = option("What it shows.")
    given: Any = option("Rows of sources, by name; or a list of such, of which each is a micro-batch.")
    expected: Any = option("Rows of sinks, by name, in any order.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Top:
    name: str = option("What the pipeline is called; its checkpoint, groups and transactions too.")
    cluster: str = option("The brokers to ask first, if the command names none.", DEFAULT_BOOTSTRAP)
    checkpoint: str | None = option(
        "A folder for offsets and state; on storage that all workers see, if there are several.", None
    )
    sources: Any = option("What is read, by name.")
    steps: Any = option("What is made of it, by name.", None)
    sinks: Any = option("What is written, by name.")
    errors: Errors = option("What happens with records and rows that are wrong.", Errors(), short="dead-letters")
    resources: Resources = option("What Spark may take.", Resources())
    tests: tuple[Test, ...] = option("What `ottla pipeline test` checks.", ())


TOP: Final = _Top

# -- what it means


@dataclass(frozen=True, slots=True)
class SourceEntry:
    name: str
    connector: str
    source: Source
    shape: Shape
    watermark: Watermark | None


@dataclass(frozen=True, slots=True)
class StepEntry:
    name: str
    step: Kind

    @property
    def kind(self) -> str:
        return next(name for name, kind in STEPS.items() if isinstance(self.step, kind))


@dataclass(frozen=True, slots=True)
class SinkEntry:
    name: str
    connector: str
    sink: Sink
    from_: str
    mode: str


@dataclass(frozen=True, slots=True)
class Spec:
    name: str
    bootstrap: str
    checkpoint: str | None
    sources: Mapping[str, SourceEntry]
    steps: Mapping[str, StepEntry]
    sinks: Mapping[str, SinkEntry]
    errors: Errors
    resources: Resources
    tests: tuple[Test, ...]
    tree: Tree
    file: str
    folder: Path
    doubts: tuple[Problem, ...] = ()
    """What `check` tells, and Spark might see differently."""

    def told(self, problems: list[Problem]) -> list[str]:
        return told(self.file, self.tree, problems)


def told(file: str, tree: Tree, problems: list[Problem]) -> list[str]:
    """Lines as compilers print them, in the order of the file."""
    places = sorted((mark_of(tree, one), one.message) for one in dict.fromkeys(problems))
    return [f"{file}:{mark.line}:{mark.column}: {message}" for mark, message in places]


def load(path: Path, bootstrap: str | None = None, work: Path | None = None) -> Spec:
    """BadSpec, with all that is wrong, if it cannot be understood."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadSpec([f"{path}:1:1: this is not text in UTF-8: {error.reason} at byte {error.start}"]) from None
    except OSError as error:
        raise OttlaError(f"{path} cannot be read: {error.strerror}") from None
    return understood(text, str(path), path.resolve().parent, bootstrap, work)


def understood(
    text: str, file: str, folder: Path, bootstrap: str | None = None, work: Path | None = None
) -> Spec:  # fmt: skip
    try:
        tree = parsed(text)
    except NotYaml as error:
        raise BadSpec([f"{file}:{error.mark.line}:{error.mark.column}: {error.message}"]) from None
    filled, problems = with_environment(tree)
    spec = _Reading(filled, file, folder, bootstrap, work, problems).spec()
    if spec is None or any(not one.is_doubt for one in problems):
        raise BadSpec(told(file, tree, problems))
    return spec


class _Reading:
    def __init__(
        self, tree: Tree, file: str, folder: Path, bootstrap: str | None, work: Path | None, problems: list[Problem]
    ) -> None:
        self.tree = tree
        self.file = file
        self.folder = folder
        self.bootstrap = bootstrap
        self.work = work
        self.problems = problems
        self.pipeline = "?"

    def spec(self) -> Spec | None:
        top = options.read(_Top, self.tree, self.problems, what="a pipeline")
        if isinstance(self.tree, Entries):
            self._name()
            sources = self._each("sources", self._source)
            steps = self._each("steps", self._step)
            sinks = self._each("sinks", self._sink)
            self._other_rules(sources, steps, sinks)
        if top is None or any(not one.is_doubt for one in self.problems):
            return None
        return Spec(
            name=top.name,
            bootstrap=self.bootstrap or top.cluster,
            checkpoint=top.checkpoint,
            sources=sources,
            steps=steps,
            sinks=sinks,
            errors=top.errors,
            resources=top.resources,
            tests=top.tests,
            tree=self.tree,
            file=self.file,
            folder=self.folder,
            doubts=tuple(one for one in self.problems if one.is_doubt),
        )

    def _complain(self, *path: str | int, message: str, at_name: bool = False) -> None:
        self.problems.append(Problem(path, message, at_name))

    def _name(self) -> None:
        assert isinstance(self.tree, Entries)
        entry = self.tree.entries.get("name")
        if entry is None or not isinstance(entry.tree, Scalar):
            return
        self.pipeline = entry.tree.text
        if not PIPELINE_NAME.fullmatch(self.pipeline):
            self._complain(
                "name", message="a name is made of letters, digits, dots, dashes and underscores, 100 at most"
            )
        cluster = self.tree.entries.get("cluster")
        if self.bootstrap is None and cluster is not None and isinstance(cluster.tree, Scalar):
            self.bootstrap = cluster.tree.text

    def _each(self, part: str, read: Any) -> dict[str, Any]:
        assert isinstance(self.tree, Entries)
        if part not in self.tree.entries:
            return {}
        tree = self.tree.entries[part].tree
        if not isinstance(tree, Entries) or not tree.entries:
            self._complain(part, message=f"{part} must be entries like `name: ...`, and at least one", at_name=True)
            return {}
        found = {}
        for name, entry in tree.entries.items():
            if not NAME.fullmatch(name):
                message = f"{name!r} cannot be a name in SQL: letters, digits and underscores, not a digit first"
                self._complain(part, name, message=message, at_name=True)
            if (one := read(name, entry.tree)) is not None:
                found[name] = one
        return found

    def _place(self, name: str) -> Place:
        work = None if self.work is None else self.work / name
        return Place(self.pipeline, name, self.bootstrap or DEFAULT_BOOTSTRAP, self.folder, work)

    def _connector(self, part: str, name: str, tree: Tree, known: Mapping[str, str], common: type) -> Any:
        """The connector's name, its options, and those that all have; None after it was told why not."""
        what = f"{part[:-1]} {name}"
        if not isinstance(tree, Entries):
            self._complain(part, name, message=f"{what} must be entries like `topic: orders`", at_name=True)
            return None
        find = registry.source if part == "sources" else registry.sink
        named = [one for one in tree.entries if one in known]
        # a connector may have an entry that is called like another one, as `postgres` has a `table`
        of_others = {one.name for name in named for one in options.declared(find(name).options) if one.name != name}
        chosen = [one for one in named if one not in of_others] if len(named) > 1 else named
        if len(chosen) != 1:
            hint = _nearest(tree, known, named)
            verb = "is read" if part == "sources" else "is written to"
            said = f", not by {' and '.join(named)}" if named else ""
            message = f"{what} must say what {verb} by one of {', '.join(known)}{said}{hint}"
            self._complain(part, name, message=message, at_name=True)
            return None
        names = {one.name for one in options.declared(common)}
        kind = find(chosen[0])
        ours = Entries(tree.mark, {key: one for key, one in tree.entries.items() if key in names})
        theirs = Entries(tree.mark, {key: one for key, one in tree.entries.items() if key not in names})
        shared = options.read(common, ours, self.problems, (part, name), what=what)
        own = options.read(kind.options, theirs, self.problems, (part, name), what=what, also=names)
        return None if shared is None or own is None else (chosen[0], kind, own, shared)

    def _source(self, name: str, tree: Tree) -> SourceEntry | None:
        found = self._connector("sources", name, tree, registry.SOURCES, OfSources)
        if found is None:
            return None
        connector, kind, own, shared = found
        source: Source = kind(own, self._place(name))
        shape = source.shapes[0] if shared.as_ is None else Shape(shared.as_)
        if shape not in source.shapes:
            only = source.shapes[0].value
            self._complain("sources", name, "as", message=f"{connector} can only be a {only}, not a {shape.value}")
        if shape is Shape.TABLE and shared.watermark is not None:
            message = f"{name} is a table, and only streams have watermarks"
            self._complain("sources", name, "watermark", message=message, at_name=True)
        self.problems.extend(one.below(("sources", name)) for one in source.check())
        return SourceEntry(name, connector, source, shape, shared.watermark)

    def _sink(self, name: str, tree: Tree) -> SinkEntry | None:
        found = self._connector("sinks", name, tree, registry.SINKS, OfSinks)
        if found is None:
            return None
        connector, kind, own, shared = found
        sink: Sink = kind(own, self._place(name))
        self.problems.extend(one.below(("sinks", name)) for one in sink.check())
        return SinkEntry(name, connector, sink, shared.from_, shared.mode)

    def _step(self, name: str, tree: Tree) -> StepEntry | None:
        if isinstance(tree, Scalar):  # the short form
            tree = Entries(tree.mark, {"sql": self._entry("steps", name)})
        if not isinstance(tree, Entries):
            self._complain("steps", name, message=f"step {name} must be SQL, or entries", at_name=True)
            return None
        kinds = [kind for kind in STEPS if kind in tree.entries]
        if len(kinds) != 1:
            hint = _nearest(tree, STEPS, kinds)
            said = f", not by {' and '.join(kinds)}" if kinds else ""
            message = f"step {name} must say what is done by one of {', '.join(STEPS)}{said}{hint}"
            self._complain("steps", name, message=message, at_name=True)
            return None
        step = options.read(STEPS[kinds[0]], tree, self.problems, ("steps", name), what=f"step {name}")
        if step is None:
            return None
        if isinstance(step, PythonStep | MapStep | StatefulStep):
            function = getattr(step, kinds[0])
            if not _FUNCTION.fullmatch(function):
                message = f"{kinds[0]} must be module:name, like shop.orders:enrich, not {function!r}"
                self._complain("steps", name, kinds[0], message=message)
        return StepEntry(name, step)

    def _entry(self, part: str, name: str) -> Any:
        assert isinstance(self.tree, Entries)
        tree = self.tree.entries[part].tree
        assert isinstance(tree, Entries)
        return tree.entries[name]

    def _other_rules(
        self, sources: Mapping[str, SourceEntry], steps: Mapping[str, StepEntry], sinks: Mapping[str, SinkEntry]
    ) -> None:
        from ottla.pipeline import graph

        for name in steps:
            if name in sources:
                self._complain("steps", name, message=f"{name} is the name of a source already", at_name=True)
        if not self.problems:  # else it would be told of everything that depends on what is wrong
            self.problems.extend(graph.problems(sources, steps, sinks))
        self._errors()
        self._tests(sources, sinks)

    def _errors(self) -> None:
        assert isinstance(self.tree, Entries)
        entry = self.tree.entries.get("errors")
        if entry is None or not isinstance(entry.tree, Entries):
            return
        inner = entry.tree.entries
        policy = inner["policy"].tree if "policy" in inner else None
        if isinstance(policy, Scalar) and policy.text == "dead-letter" and "dead-letters" not in inner:
            self._complain("errors", "policy", message="dead-letter needs dead-letters: the topic to write to")

    def _tests(self, sources: Mapping[str, Any], sinks: Mapping[str, Any]) -> None:
        assert isinstance(self.tree, Entries)
        if "tests" not in self.tree.entries:
            return
        found: tuple[Any, ...] = options.value(tuple[Test, ...], self.tree.entries["tests"].tree, [], ("tests",)) or ()
        for number, test in enumerate(found):
            if not isinstance(test, Test):
                continue  # told elsewhere
            rounds = test.given if isinstance(test.given, list) else [test.given]
            for part, given, known in (
                *(("given", one, sources) for one in rounds),
                ("expected", test.expected, sinks),
            ):
                self._rows(number, part, given, known)

    def _rows(self, number: int, part: str, given: Any, known: Mapping[str, Any]) -> None:
        if not isinstance(given, dict):
            message = f"{part} must be rows by name, like `orders: [{{id: 1}}]`"
            self._complain("tests", number, part, message=message, at_name=True)
            return
        for name, rows in given.items():
            if name not in known:
                what = "source" if part == "given" else "sink"
                message = f"there is no {what} {name}{did_you_mean(name, known)}"
                self._complain("tests", number, part, name, message=message, at_name=True)
            elif not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
                message = f"{name} must be a list of rows like {{id: 1, name: a}}"
                self._complain("tests", number, part, name, message=message, at_name=True)


def _nearest(tree: Entries, known: Mapping[str, Any], found: list[str]) -> str:
    """What may have been meant, if nothing that is known is there."""
    return "" if found else next((hint for one in tree.entries if (hint := did_you_mean(one, known))), "")
