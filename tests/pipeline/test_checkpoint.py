"""The folder of a pipeline: who runs it, how it is doing, and what may change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.model.errors import OttlaError
from ottla.pipeline.checkpoint import Checkpoint, folder_of
from ottla.pipeline.progress import of_spark
from ottla.pipeline.trying import differences


def test_one_runs_it_at_a_time(tmp_path: Path) -> None:
    one, other = Checkpoint(tmp_path / "p"), Checkpoint(tmp_path / "p")
    assert not one.is_held
    with one.held():
        one.tell({"state": "running", "pid": 7, "host": "here"})
        assert other.is_held and (other.status() or {})["state"] == "running"
        with pytest.raises(OttlaError, match="runs already \\(process 7 on here\\)"), other.held():
            pass
    assert (one.status() or {})["state"] == "lost"


def test_only_what_has_run_stands_in_the_way_of_a_change(tmp_path: Path) -> None:
    place = Checkpoint(tmp_path)
    place.admit({"v": ["Aggregate [a]"]})
    place.admit({"v": ["Aggregate [b]"]})
    (place.of_query("v") / "offsets").mkdir(parents=True)
    place.admit({"v": ["Aggregate [b]"], "w": ["source topic t"]})
    with pytest.raises(OttlaError, match=r"(?s)v has changed.*was: Aggregate \[b\]\n  is:  Aggregate \[c\]"):
        place.admit({"v": ["Aggregate [c]"]})
    now = place.begin_anew("2026-11-16T12:00:00Z")
    assert (now.generation, now.start, place.kept) == (1, "2026-11-16T12:00:00Z", now)
    place.admit({"v": ["Aggregate [c]"]})


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert folder_of("p", None, Path("/specs")) == tmp_path / "ottla" / "pipelines" / "p"
    assert folder_of("p", "state", Path("/specs")) == Path("/specs/state")


def test_progress_is_told_in_a_line() -> None:
    told = {
        "batchId": 7, "numInputRows": 1200, "processedRowsPerSecond": 600.4, "durationMs": {"triggerExecution": 2000},
        "sources": [{"endOffset": '{"t": {"0": 10, "1": 5}}', "latestOffset": '{"t": {"0": 12, "1": 5, "2": 9}}'}],
        "stateOperators": [{"numRowsTotal": 44, "memoryUsedBytes": 2_500_000}],
    }  # fmt: skip
    assert of_spark("v", told).line() == (
        "v: batch 7, 1,200 rows, 600/s, 2,000 ms, 2 behind, state 44 rows, 2.5 MB"
    )  # fmt: skip
    assert of_spark("v", {"batchId": 0, "sources": [{"endOffset": "5"}]}).behind is None


def test_rows_are_compared_by_what_is_expected_of_them() -> None:
    found: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2.0, "b": None}]
    assert differences("out", [{"a": 1}, {"a": 2}, {"a": 1}], found) == []
    assert differences("out", [{"a": 1}, {"a": 3}], found) == [
        'out: expected and not there: {"a": 3}',
        'out: there and not expected: {"a": 1}',
        'out: there and not expected: {"a": 2}',
    ]
    assert differences("out", [{"a": 1}, {"a": 2}, {"a": 1, "b": "x"}], found) == []
    assert differences("out", [{"a": 1}, {"a": 2}, {"a": 1, "b": "z"}], found) == [
        'out: expected and not there: {"a": 1, "b": "z"}',
        'out: there and not expected: {"a": 1, "b": "y"}',
    ]
    assert differences("out", [], [{"a": 1}]) == ['out: there and not expected: {"a": 1}']
    times = [{"at": "2026-11-16T12:00:00.000Z"}]
    assert differences("out", [{"at": "2026-11-16T13:00:00+01:00"}], times) == []
