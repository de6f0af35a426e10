"""YAML as a tree that knows the line and column of everything in it.

Values are what YAML 1.2 says, not 1.1: `on`, `no` and `12:30` are text.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ottla.model.errors import OttlaError
from ottla.pipeline.problems import Path, Problem

_DEEPEST: Final = 40
_INT: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_REFERENCE: Final = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


class Mark(NamedTuple):
    line: int
    column: int
    """Both from 1."""


class NotYaml(OttlaError):
    def __init__(self, mark: Mark, message: str) -> None:
        super().__init__(message)
        self.mark = mark
        self.message = message


@dataclass(frozen=True, slots=True)
class Scalar:
    mark: Mark
    text: str
    quoted: bool
    block: tuple[str, ...] = ()
    """Of text behind a | or >: its lines as they stand in the file."""

    @property
    def value(self) -> Any:
        """None, a bool, an int, a float or a text."""
        if self.quoted:
            return self.text
        match self.text:
            case "" | "~" | "null" | "Null" | "NULL":
                return None
            case "true" | "True" | "TRUE":
                return True
            case "false" | "False" | "FALSE":
                return False
        if _INT.fullmatch(self.text):
            return int(self.text)
        return float(self.text) if _FLOAT.fullmatch(self.text) else self.text


@dataclass(frozen=True, slots=True)
class Items:
    mark: Mark
    items: tuple[Tree, ...]


class Entry(NamedTuple):
    mark: Mark
    """Of the name."""
    tree: Tree


@dataclass(frozen=True, slots=True)
class Entries:
    mark: Mark
    entries: Mapping[str, Entry]


Tree = Scalar | Items | Entries


def parsed(text: str) -> Tree:
    """NotYaml, with the place, for what is no YAML or uses what specs have no use for."""
    import yaml

    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = Mark(1, 1) if mark is None else Mark(mark.line + 1, mark.column + 1)
        raise NotYaml(place, f"this is not YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        place = Mark(before.count("\n") + 1, len(before) - before.rfind("\n"))
        raise NotYaml(place, f"this is not YAML: {error.reason}") from None
    return Entries(Mark(1, 1), {}) if node is None else _tree(node, 0, text.splitlines())


def _tree(node: Any, depth: int, lines: list[str]) -> Tree:
    import yaml

    mark = Mark(node.start_mark.line + 1, node.start_mark.column + 1)
    if depth > _DEEPEST:
        raise NotYaml(mark, f"entries are nested more than {_DEEPEST} deep")
    if isinstance(node, yaml.ScalarNode):
        is_block = node.style in ("|", ">")
        block = lines[node.start_mark.line + 1 : node.end_mark.line + 1] if is_block else []
        return Scalar(mark, node.value, quoted=node.style is not None, block=tuple(block))
    if isinstance(node, yaml.SequenceNode):
        return Items(mark, tuple(_tree(item, depth + 1, lines) for item in node.value))
    entries: dict[str, Entry] = {}
    for name, value in node.value:
        at = Mark(name.start_mark.line + 1, name.start_mark.column + 1)
        if not isinstance(name, yaml.ScalarNode):
            raise NotYaml(at, "a name must be a word, not a list or more entries")
        if name.value == "<<":
            raise NotYaml(at, "<< (merging) is not part of YAML 1.2, and not of specs")
        if name.value in entries:
            raise NotYaml(at, f"{name.value} is here twice; the first is on line {entries[name.value].mark.line}")
        entries[name.value] = Entry(at, _tree(value, depth + 1, lines))
    return Entries(mark, entries)


def mark_of(tree: Tree, problem: Problem) -> Mark:
    """Of the deepest entry on its path that is there."""
    mark = tree.mark
    for number, part in enumerate(problem.path):
        if isinstance(tree, Entries) and part in tree.entries:
            entry = tree.entries[str(part)]
            tree, is_last = entry.tree, number == len(problem.path) - 1
            # a block of entries begins on the next line: its name is where people look
            mark = entry.mark if (is_last and problem.at_name) or not isinstance(tree, Scalar) else tree.mark
        elif isinstance(tree, Items) and isinstance(part, int) and part < len(tree.items):
            tree = tree.items[part]
            mark = tree.mark
        else:
            break
    if problem.inside is not None and isinstance(tree, Scalar):
        line, column = problem.inside
        if tree.block:
            return _in_block(tree, line, column) or mark
        if line == 1 and "\n" not in tree.text and not tree.quoted:
            return Mark(tree.mark.line, tree.mark.column + column - 1)
    return mark


def _in_block(block: Scalar, line: int, column: int) -> Mark | None:
    """Where in the file a place of its text is. Behind a > some ends of lines are spaces in the text, so that it is
    counted by characters; empty lines would upset that."""
    indent = len(block.block[0]) - len(block.block[0].lstrip(" "))
    left = sum(len(before) + 1 for before in block.text.split("\n")[: line - 1]) + column - 1
    for number, text in enumerate(block.block):
        if not text.strip():
            return None
        if left <= len(text) - indent:
            return Mark(block.mark.line + 1 + number, indent + left + 1)
        left -= len(text) - indent + 1
    return None


def plain(tree: Tree) -> Any:
    """As dicts, lists and values."""
    match tree:
        case Scalar():
            return tree.value
        case Items():
            return [plain(item) for item in tree.items]
        case Entries():
            return {name: plain(entry.tree) for name, entry in tree.entries.items()}


def with_environment(tree: Tree, environment: Mapping[str, str] = os.environ) -> tuple[Tree, list[Problem]]:
    """`${NAME}` becomes what the environment says, so that secrets need not stand in a spec; `$${` stays `${`."""
    problems: list[Problem] = []

    def filled(one: Tree, path: Path) -> Tree:
        match one:
            case Scalar():
                return _filled(one, path)
            case Items():
                return Items(one.mark, tuple(filled(item, (*path, n)) for n, item in enumerate(one.items)))
            case Entries():
                return Entries(
                    one.mark, {name: Entry(at, filled(item, (*path, name))) for name, (at, item) in one.entries.items()}
                )

    def _filled(one: Scalar, path: Path) -> Scalar:
        if "${" not in one.text:
            return one

        def of(found: re.Match[str]) -> str:
            if found[1] is None:
                return "${"
            if found[1] not in environment:
                problems.append(Problem(path, f"${{{found[1]}}}: there is no {found[1]} in the environment"))
            return environment.get(found[1], "")

        return Scalar(one.mark, _REFERENCE.sub(of, one.text), one.quoted, one.block)

    return filled(tree, ()), problems


def names(tree: Tree) -> Iterator[str]:
    if isinstance(tree, Entries):
        yield from tree.entries
