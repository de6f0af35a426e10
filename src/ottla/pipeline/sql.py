"""SQL as far as it can be understood without Spark: whether it can be read, and which tables and columns it names.

Spark has the last word when a pipeline is run, or checked with --spark. This here takes milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ottla.model.near_miss import did_you_mean

_WINDOW: Final = re.compile(r"\bwindow(?=\s*\()", re.IGNORECASE)
"""The function; sqlglot takes the word for the clause. Another name of the same length is as good here."""
_MADE: Final = {"window", "session_window"}
"""Columns that grouping by a function makes."""
_WORD: Final = re.compile(r"\w+")


class SqlProblem(NamedTuple):
    message: str
    line: int = 1
    column: int = 1
    """Within the text, from 1."""


class Query(NamedTuple):
    tables: frozenset[str]
    problems: tuple[SqlProblem, ...] = ()
    tree: Any = None
    groups: bool = False
    """Whether it groups, counts, or makes rows distinct."""


def tables(text: str, known: Iterable[str]) -> tuple[str, ...]:
    """Those of the known names that are tables of a query, or may be if it cannot be read."""
    query = understood(text)
    named = set(_WORD.findall(text)) if query.problems else query.tables
    return tuple(name for name in known if name in named)


@lru_cache(256)
def understood(text: str) -> Query:
    import logging

    import sqlglot
    from sqlglot import exp

    logging.getLogger("sqlglot").setLevel(logging.ERROR)
    readable = _WINDOW.sub(lambda found: found[0].replace("o", "0").replace("O", "0"), text)
    try:
        found = [one for one in sqlglot.parse(readable, dialect="spark") if one is not None]
    except sqlglot.errors.ParseError as error:
        first = error.errors[0]
        told = "something is missing" if "missing for" in first["description"] else first["description"].rstrip(".")
        message = f"this SQL cannot be read: {told} at {first['highlight']!r}"
        return Query(frozenset(), (SqlProblem(message, first["line"], _begin(first)),))
    except sqlglot.errors.TokenError as error:
        return Query(frozenset(), (SqlProblem(f"this SQL cannot be read: {str(error).splitlines()[0]}"),))
    if len(found) != 1:
        return Query(frozenset(), (SqlProblem(f"a step is one SELECT, and here are {len(found)}"),))
    (tree,) = found
    if not isinstance(tree, exp.Query):
        return Query(frozenset(), (SqlProblem(f"a step is a SELECT, not {tree.key.upper()}"),))
    own = {str(one.alias) for one in tree.find_all(exp.CTE)}
    tables = {one.name for one in tree.find_all(exp.Table) if one.name not in own and not one.db}
    groups = any(True for _ in tree.find_all(exp.Group, exp.Distinct, exp.AggFunc))
    return Query(frozenset(tables), (), tree, groups)


def _begin(first: Mapping[str, Any]) -> int:
    return max(int(first["col"]) - len(first["highlight"]) + 1, 1)


class Columns(NamedTuple):
    names: tuple[str, ...] | None
    """What a query gives; None where it cannot be told."""
    problems: tuple[SqlProblem, ...] = ()


def columns(query: Query, tables: Mapping[str, tuple[str, ...] | None]) -> Columns:
    """Columns that are not there, where those of all its tables are known."""
    from sqlglot import exp
    from sqlglot.errors import SqlglotError
    from sqlglot.optimizer.scope import traverse_scope

    known = {name: tables.get(name) for name in query.tables}
    if query.tree is None or any(names is None for names in known.values()):
        return Columns(None)
    problems: list[SqlProblem] = []
    try:
        scopes = traverse_scope(query.tree)
    except SqlglotError:
        return Columns(None)
    for scope in scopes:
        here = _here(scope, known, exp)
        if here is None:
            return Columns(None, tuple(problems))
        made = {str(one.alias).lower() for one in scope.expression.find_all(exp.Alias)}
        for column in scope.columns:
            fits = here.get(column.table.lower()) if column.table else {one for each in here.values() for one in each}
            if fits is None:
                # a.b may be the field b of a column a
                fields = {one for each in here.values() for one in each} | made | _MADE
                if column.table.lower() not in fields:
                    problems.append(_at(column, f"there is no table {column.table}", did_you_mean(column.table, here)))
            elif column.name.lower() not in fits | made | _MADE and column.name != "*":
                problems.append(_at(column, f"there is no column {column.name}", did_you_mean(column.name, fits)))
    return Columns(_output(query.tree, known, exp), tuple(problems))


def _here(scope: Any, known: Mapping[str, tuple[str, ...] | None], exp: Any) -> dict[str, set[str]] | None:
    """By what a scope calls its tables, their columns."""
    if any(True for _ in scope.expression.find_all(exp.Lateral, exp.Unnest, exp.TableFromRows, exp.Subquery)):
        return None
    found: dict[str, set[str]] = {}
    for alias, source in scope.sources.items():
        if isinstance(source, exp.Table) and known.get(source.name) is not None:
            found[alias.lower()] = {name.lower() for name in known[source.name] or ()}
        else:
            return None
    return found


def _output(tree: Any, known: Mapping[str, tuple[str, ...] | None], exp: Any) -> tuple[str, ...] | None:
    names: list[str] = []
    if not isinstance(tree, exp.Select):
        return None
    for one in tree.expressions:
        if one.is_star:
            if len(known) != 1 or not isinstance(one, exp.Star) or any(one.args.values()):
                return None
            (only,) = known.values()
            names.extend(only or ())
        elif one.alias_or_name:
            names.append(one.alias_or_name)
        else:
            return None
    return tuple(names)


def _at(column: Any, message: str, hint: str) -> SqlProblem:
    meta = column.this.meta
    if "line" not in meta:
        return SqlProblem(message + hint)
    return SqlProblem(message + hint, meta["line"], max(meta["col"] - len(column.name) + 1, 1))
