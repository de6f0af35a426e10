"""How `ottla pipeline run` tells how it is doing."""

from __future__ import annotations

import pytest

from ottla.cli.pipeline.telling import Bars, Lines, teller
from ottla.pipeline.progress import Progress


def progress(rows: int, behind: int | None, view: str = "counts") -> Progress:
    return Progress(view, 3, rows, 500.0, 1200, behind, 7, 2_000_000)


def test_a_line_for_each_batch_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    told = teller()
    assert isinstance(told, Lines)
    told.tell(progress(100, 50))
    told.end()
    assert capsys.readouterr().err == (
        "counts: batch 3, 100 rows, 500/s, 1,200 ms, 50 behind, state 7 rows, 2.0 MB\n"
    )  # fmt: skip


def test_a_bar_fills_as_what_is_there_is_read(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    told = Bars()
    told.tell(progress(100, 300))
    assert capsys.readouterr().err.startswith("\rcounts ██░░░░░░░░ batch 3, 100 rows, 500/s, 1,200 ms, 300 behind")
    told.tell(progress(300, 0))
    told.tell(progress(5, None, "late"))
    text = capsys.readouterr().err.rpartition("\r")[2]
    assert text.startswith("counts ██████████ batch 3, 300 rows") and "   late ██████████ batch 3, 5 rows" in text
    told.end()
    assert capsys.readouterr().err == "\n"


def test_a_bar_stays_in_its_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    Bars().tell(progress(100, 300))
    assert len(capsys.readouterr().err) == 40
