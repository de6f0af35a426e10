"""Parts of specs are read as dataclasses say, and what is wrong is told with its place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from ottla.pipeline.options import Size, Span, option, read
from ottla.pipeline.problems import Problem
from ottla.pipeline.yaml_tree import NotYaml, mark_of, parsed, plain, with_environment


@dataclass(frozen=True, slots=True)
class Inner:
    column: str = option("Which.")
    delay: Span = option("How late.", Span(10))


@dataclass(frozen=True, slots=True)
class Outer:
    path: str = option("Where.")
    format: str = option("How.", "json", choices=("json", "csv"))
    from_: tuple[str, ...] = option("Of what.", ())
    in_one_go: bool = option("At once.", False)
    rows: int | None = option("How many.", None)
    size: Size = option("How large.", Size(0))
    inner: Inner | None = option("More.", None, short="column")
    each: Mapping[str, Inner] | None = option("Each.", None)


def problems_of(text: str) -> list[str]:
    tree, found = parsed(text), list[Problem]()
    read(Outer, tree, found)
    return [f"{mark_of(tree, one).line}:{mark_of(tree, one).column} {one.message}" for one in found]


def test_values_become_what_the_fields_are() -> None:
    text = "path: no\nfrom: [a, b]\nin-one-go: true\nrows: 12\nsize: 1g\ninner: {column: at, delay: 2 minutes}\n"
    found = read(Outer, parsed(text), [])
    assert found == Outer("no", "json", ("a", "b"), True, 12, Size(1 << 30), Inner("at", Span(120)), None)
    short = read(Outer, parsed("path: 1.10\nfrom: a\ninner: at\neach: {x: {column: y}}"), [])
    assert short == Outer("1.10", from_=("a",), inner=Inner("at"), each={"x": Inner("y")})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("format: csv", "1:1 a spec lacks `path`: where."),
        ("path: a\nformatt: csv", "2:1 a spec has no entry formatt; did you mean format?"),
        ("path: a\nformat: cvs", "2:9 format is json or csv, not 'cvs'; did you mean csv?"),
        ("path: a\nrows: many", "2:7 rows must be a whole number, not 'many'"),
        ("path: a\nin-one-go: 1", "2:12 in-one-go must be true or false, not '1'"),
        ("path: [a]", "1:1 path must be text, not a list"),
        ("path:", "1:6 path must be text, not nothing"),
        ("path: a\ninner: {column: at, delay: soon}", "2:28 delay must be a time like 30s or 10 minutes, not 'soon'"),
        ("path: a\nsize: big", "2:7 size must be a size like 512m or 1g, not 'big'"),
        ("path: a\nfrom: {a: 1}", "2:1 from must be a list, not more entries"),
        ("path: a\neach: 5", "2:7 each must be entries like `name: value`, not '5'"),
        ("path: a\neach:\n  x:\n    colum: 5", "4:5 x has no entry colum; did you mean column?"),
        ("[1]", "1:1 a spec must be entries like `name: value`, not a list"),
    ],
)
def test_what_is_wrong_is_told_with_line_and_column(text: str, told: str) -> None:
    assert told in problems_of(text)


@pytest.mark.parametrize(
    ("text", "line", "column", "told"),
    [
        ("a: 1\na: 2", 2, 1, "a is here twice; the first is on line 1"),
        ("a: [1", 1, 6, "this is not YAML"),
        ("a: b: c", 1, 5, "this is not YAML: mapping values are not allowed here"),
        ("? [a]\n: 1", 1, 3, "a name must be a word"),
        ("<<: {a: 1}", 1, 1, "merging"),
        ("a: \x01", 1, 4, "this is not YAML"),
        ("[" * 50 + "]" * 50, 1, 42, "nested more than 40 deep"),
    ],
)
def test_what_is_no_yaml(text: str, line: int, column: int, told: str) -> None:
    with pytest.raises(NotYaml, match=told) as caught:
        parsed(text)
    assert caught.value.mark == (line, column)


def test_words_of_yaml_1_1_are_words() -> None:
    assert plain(parsed("{a: on, b: 12:30, c: 0o7, d: ~, e: 1e3, f: '1', g: -5}")) == {
        "a": "on", "b": "12:30", "c": "0o7", "d": None, "e": 1000.0, "f": "1", "g": -5,
    }  # fmt: skip


def test_the_environment_fills_in_secrets() -> None:
    tree, problems = with_environment(parsed("a: x${ONE}y\nb: ['$${ONE}', '${TWO}']"), {"ONE": "1"})
    assert plain(tree) == {"a": "x1y", "b": ["${ONE}", ""]}
    assert problems == [Problem(("b", 1), "${TWO}: there is no TWO in the environment")]
