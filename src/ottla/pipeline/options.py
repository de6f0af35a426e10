"""Parts of a spec, declared once as a dataclass: from it come the checks, with near misses, and the reference page.

@dataclass(frozen=True, slots=True)
class Options:
    path: str = option("The folder that is read.")
    format: str = option("How files are written.", "parquet", choices=("parquet", "json", "csv"))
    timeout: Span = option("How long an answer may take.", Span(30))

A field's type is str, int, float, bool, Span, Size, such a dataclass, tuple[T, ...], Mapping[str, T] of any of these,
or one of them or None. Underscores in names are dashes in specs; a name that is a word of Python has one behind it
(`from_` is `from`).
"""

from __future__ import annotations

import dataclasses
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Union, get_args, get_origin, get_type_hints

from ottla.model.near_miss import did_you_mean
from ottla.pipeline.problems import Path, Problem
from ottla.pipeline.yaml_tree import Entries, Items, Scalar, Tree, plain

_DOC, _CHOICES, _EXAMPLE, _SHORT = "doc", "choices", "example", "short"
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_UNITS: Final = {
    "ms": 0.001, "millisecond": 0.001, "milliseconds": 0.001, "s": 1, "second": 1, "seconds": 1, "m": 60, "min": 60,
    "minute": 60, "minutes": 60, "h": 3600, "hour": 3600, "hours": 3600, "d": 86400, "day": 86400, "days": 86400,
}  # fmt: skip
_SIZE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?b)?", re.IGNORECASE)
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A length of time, written like `10 minutes` or `30s`."""

    seconds: float

    def __str__(self) -> str:
        """As Spark reads it."""
        return f"{round(self.seconds * 1000)} milliseconds"


@dataclass(frozen=True, slots=True, order=True)
class Size:
    """A number of bytes, written like `512m` or `1g` (powers of 1024)."""

    bytes: int


class Wrong(Exception):
    """What a value should be."""


def option(
    doc: str, default: Any = dataclasses.MISSING, *, choices: tuple[str, ...] = (), example: str = "", short: str = ""
) -> Any:
    """A field of options. Without a default it must be there. `short`: a single value stands for a whole part, and is
    the value of this field of it."""
    metadata = {_DOC: doc, _CHOICES: choices, _EXAMPLE: example, _SHORT: short}
    return dataclasses.field(default=default, metadata=metadata)


class Declared(NamedTuple):
    """An option as a reference page or a message tells of it."""

    name: str
    type: Any
    doc: str
    default: Any
    """MISSING if it must be there."""
    choices: tuple[str, ...]
    example: str
    field: str
    short: str = ""

    @property
    def is_needed(self) -> bool:
        return self.default is dataclasses.MISSING


def declared(options: type) -> list[Declared]:
    kinds = get_type_hints(options)
    return [
        Declared(
            name=spec_name(field.name),
            type=kinds[field.name],
            doc=field.metadata.get(_DOC, ""),
            default=field.default,
            choices=field.metadata.get(_CHOICES, ()),
            example=field.metadata.get(_EXAMPLE, ""),
            field=field.name,
            short=field.metadata.get(_SHORT, ""),
        )
        for field in dataclasses.fields(options)
    ]


def spec_name(field: str) -> str:
    return field.rstrip("_").replace("_", "-")


def read(
    options: type, tree: Tree, problems: list[Problem], path: Path = (), *, what: str = "", also: Iterable[str] = ()
) -> Any:
    """An object of `options`, or None after it was told why not. `what` names the part in messages; `also` are names
    that it may have besides."""
    if not isinstance(tree, Entries):
        problems.append(Problem(path, f"{what or _last(path)} must be entries like `name: value`, not {_shown(tree)}"))
        return None
    known = {one.name: one for one in declared(options)}
    before = len(problems)
    for name in tree.entries:
        if name not in known:
            hint = did_you_mean(name, [*known, *also]) or f"; there are {', '.join([*known, *sorted(also)])}"
            problems.append(Problem((*path, name), f"{what or _last(path)} has no entry {name}{hint}", at_name=True))
    values: dict[str, Any] = {}
    for name, one in known.items():
        if name not in tree.entries:
            if one.is_needed:
                problems.append(
                    Problem(
                        path, f"{what or _last(path)} lacks `{name}`: {one.doc[0].lower()}{one.doc[1:]}", at_name=True
                    )
                )
            continue
        values[one.field] = _value(one, tree.entries[name].tree, problems, (*path, name))
    return None if len(problems) > before else options(**values)


def _value(one: Declared, tree: Tree, problems: list[Problem], path: Path) -> Any:
    found = value(one.type, tree, problems, path, short=one.short)
    if one.choices and found is not None:
        for each in found if isinstance(found, tuple) else (found,):
            if each not in one.choices:
                hint = did_you_mean(str(each), one.choices)
                problems.append(Problem(path, f"{_last(path)} is {_or(one.choices)}, not {each!r}{hint}"))
    return found


def value(kind: Any, tree: Tree, problems: list[Problem], path: Path, *, short: str = "") -> Any:
    """What a type makes of a tree; None, after it was told why, if it cannot."""
    if get_origin(kind) in (Union, types.UnionType):
        inner = [one for one in get_args(kind) if one is not type(None)]
        if type(None) in get_args(kind) and isinstance(tree, Scalar) and tree.value is None:
            return None
        return value(inner[0], tree, problems, path, short=short)
    if get_origin(kind) is tuple:
        inner = get_args(kind)[0]
        # one value instead of a list of one is what people write
        items = tree.items if isinstance(tree, Items) else (tree,)
        if isinstance(tree, Entries) and not dataclasses.is_dataclass(inner):
            problems.append(Problem(path, f"{_last(path)} must be a list, not {_shown(tree)}"))
            return None
        numbered = isinstance(tree, Items)
        return tuple(value(inner, item, problems, (*path, n) if numbered else path) for n, item in enumerate(items))
    if get_origin(kind) is not None and issubclass(get_origin(kind), Mapping):
        inner = get_args(kind)[1]
        if not isinstance(tree, Entries):
            problems.append(Problem(path, f"{_last(path)} must be entries like `name: value`, not {_shown(tree)}"))
            return None
        return {name: value(inner, entry.tree, problems, (*path, name)) for name, entry in tree.entries.items()}
    if kind is Any:
        return plain(tree)
    if dataclasses.is_dataclass(kind) and kind not in (Span, Size):
        if short and not isinstance(tree, Entries):
            mine = next(one for one in declared(kind) if one.name == short)  # type: ignore[arg-type]
            given = value(mine.type, tree, problems, path)
            return None if given is None else kind(**{mine.field: given})  # type: ignore[operator]
        return read(kind, tree, problems, path)  # type: ignore[arg-type]
    if not isinstance(tree, Scalar):
        problems.append(Problem(path, f"{_last(path)} must be {_KINDS[kind]}, not {_shown(tree)}"))
        return None
    try:
        return _scalar(kind, tree)
    except Wrong:
        problems.append(Problem(path, f"{_last(path)} must be {_KINDS[kind]}, not {_shown(tree)}"))
        return None


_KINDS: Final[dict[Any, str]] = {
    str: "text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    Span: "a time like 30s or 10 minutes",
    Size: "a size like 512m or 1g",
}


def _scalar(kind: Any, scalar: Scalar) -> Any:
    given = scalar.value
    if kind is str and given is not None:
        return scalar.text  # 1.10 and yes are what they look like
    if kind is bool and isinstance(given, bool):
        return given
    if kind is int and isinstance(given, int) and not isinstance(given, bool):
        return given
    if kind is float and isinstance(given, int | float) and not isinstance(given, bool):
        return float(given)
    if kind is Span and (found := _SPAN.fullmatch(scalar.text.strip().lower())) and found[2] in _UNITS:
        return Span(float(found[1]) * _UNITS[found[2]])
    if kind is Size and (found := _SIZE.fullmatch(scalar.text.strip())):
        return Size(int(float(found[1]) * 1024 ** _POWERS[found[2].lower()]))
    raise Wrong


def kind_name(kind: Any) -> str:
    """A type in words, for reference pages."""
    if get_origin(kind) in (Union, types.UnionType):
        return kind_name(next(one for one in get_args(kind) if one is not type(None)))
    if get_origin(kind) is tuple:
        return f"a list: {kind_name(get_args(kind)[0])}"
    if get_origin(kind) is not None:
        return f"names, each with {kind_name(get_args(kind)[1])}"
    return "anything" if kind is Any else _KINDS.get(kind, "entries")


def leaves(options: type, prefix: str = "") -> Iterator[Declared]:
    """All options, those of parts under names with dots."""
    for one in declared(options):
        yield one._replace(name=prefix + one.name)
        inner = [arg for arg in (one.type, *get_args(one.type)) if dataclasses.is_dataclass(arg)]
        for part in inner:
            if part not in (Span, Size):
                yield from leaves(part, f"{prefix}{one.name}.")  # type: ignore[arg-type]


def _last(path: Path) -> str:
    """What a path leads to, in a message."""
    if not path:
        return "a spec"
    if isinstance(path[-1], int):
        return f"{_last(path[:-1])}[{path[-1]}]"
    return str(path[-1])


def _shown(tree: Tree) -> str:
    match tree:
        case Scalar():
            return "nothing" if tree.value is None else repr(tree.text)
        case Items():
            return "a list"
        case Entries():
            return "more entries"


def _or(words: tuple[str, ...]) -> str:
    return ", ".join(words[:-1]) + (" or " if len(words) > 1 else "") + words[-1]
