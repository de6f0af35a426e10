"""Tables, JSON and YAML."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.output import Column, cell, print_outcome, print_rows, shown, yaml_lines
from ottla.cli.progress import Progress

scalars = st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4), max_leaves=12
)


@given(values)
def test_yaml_is_read_back_as_it_was(value: Any) -> None:
    assert yaml.safe_load("\n".join(yaml_lines(value))) == value


@pytest.mark.parametrize(
    "text", ["null", "Yes", "on", "1", "1.5", "a: b", "- a", "", " a", "#a", "2025-01-01", "~", "a\nb"]
)
def test_text_that_could_be_something_else_is_quoted(text: str) -> None:
    assert yaml.safe_load("\n".join(yaml_lines({"a": [text]}))) == {"a": [text]}


ROWS = [{"name": "a", "n": 1, "list": [1, 2], "more": None}, {"name": "bcd", "n": 20, "list": [], "more": True}]
COLUMNS = (Column("NAME", "name"), Column("N", "n"), Column("LIST", "list"))


@pytest.mark.parametrize(
    ("output", "printed"),
    [
        (None, "a\t1\t1,2\nbcd\t20\tnone\n"),
        ("table", "NAME  N   LIST\na     1   1,2\nbcd   20  none\n"),
    ],
)
def test_rows_are_lines_or_a_table(output: str | None, printed: str, capsys: pytest.CaptureFixture[str]) -> None:
    print_rows(output, COLUMNS, ROWS)
    assert capsys.readouterr().out == printed


def test_rows_as_json_and_yaml_have_everything(capsys: pytest.CaptureFixture[str]) -> None:
    print_rows("json", COLUMNS, ROWS)
    assert json.loads(capsys.readouterr().out) == ROWS
    print_rows("yaml", COLUMNS, ROWS)
    assert yaml.safe_load(capsys.readouterr().out) == ROWS


def test_cells() -> None:
    cases: tuple[Any, ...] = (None, True, False, 3, [1], [], {"a": 1, "b": None})
    assert [cell(value) for value in cases] == ["-", "yes", "no", "3", "1", "none", "a=1,b=-"]


EVIL = "a\x1b]0;title\x07\n\u202eb"
HARMLESS = r"a\x1b]0;title\x07\n\u202eb"


def test_what_others_wrote_is_escaped_in_tables_and_json_and_raw_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    rows, columns = [{"name": EVIL}], (Column("NAME", "name"),)

    print_rows("table", columns, rows)
    assert HARMLESS in capsys.readouterr().out
    print_rows("json", columns, rows)
    printed = capsys.readouterr().out
    assert json.loads(printed) == rows and not {"\x1b", "\u202e"} & set(printed)
    print_rows(None, columns, rows)
    assert capsys.readouterr().out == EVIL + "\n"


def test_what_others_wrote_is_escaped_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(EVIL) == EVIL
    monkeypatch.setattr("sys.stdout", Terminal())
    assert shown(EVIL) == HARMLESS


@pytest.mark.parametrize(
    ("output", "out", "err"),
    [
        (None, "", "Did it.\n"),
        ("table", "WHAT  HOW MANY\nit    2\n", ""),
        ("json", '{\n  "what": "it",\n  "how_many": 2\n}\n', ""),
        ("yaml", "what: it\nhow_many: 2\n", ""),
    ],
)
def test_what_was_done_is_a_sentence_or_a_value(
    output: str | None, out: str, err: str, capsys: pytest.CaptureFixture[str]
) -> None:
    print_outcome(output, {"what": "it", "how_many": 2}, "Did it.")
    assert capsys.readouterr() == (out, err)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_a_line_that_is_written_over_and_cleared(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("ottla.cli.progress.time.monotonic", lambda: now)
    monkeypatch.setattr("sys.stderr", terminal := Terminal())
    progress = Progress(total=4000)
    progress.tick(1)  # too early
    now = 100.5
    progress.tick(1000, "1.0 MB")
    now = 101.5
    progress.tick(2000)
    progress.end()
    first, second = "1,000 of 4,000 (25%) records, 2,000/s, 1.0 MB", "2,000 of 4,000 (50%) records, 1,000/s"
    assert terminal.getvalue() == f"\r{first}\r{second.ljust(len(first))}\r{' ' * len(second)}\r"


def test_progress_is_for_terminals_only(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress._last -= 10
    progress.tick(5)
    progress.end()
    assert capsys.readouterr().err == ""
