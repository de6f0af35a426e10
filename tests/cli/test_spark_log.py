"""What Spark's processes say stays apart from what `ottla pipeline run` says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.output import note
from ottla.cli.pipeline import spark_log
from ottla.cli.pipeline.spark_log import kept_in, named_if_it_fails, told_if_it_fails


def fail_after(text: str) -> None:
    say_as_spark(text)
    raise OSError("it has failed")


def say_as_spark(text: str) -> None:
    subprocess.run([sys.executable, "-c", f"import os; os.write(2, {text.encode()!r})"], check=True)


def test_the_words_of_other_processes_are_in_the_file_and_ours_on_stderr(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with kept_in(tmp_path / "new" / "spark.log") as log:
        note("before")
        say_as_spark("WARN of Java\n")
        note("after")
    note("at the end")
    assert capfd.readouterr().err == "before\nafter\nat the end\n"
    assert log.last() == ["WARN of Java"]
    with kept_in(log.file):
        pass
    assert log.last() == []  # a run's own


def test_it_can_be_shown_instead(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with kept_in(tmp_path / "spark.log", show=True) as log, named_if_it_fails(log):
        say_as_spark("WARN of Java\n")
        log.trim()
    assert capfd.readouterr().err == "WARN of Java\n" and not log.file.exists()


def test_why_spark_did_not_start_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError), kept_in(tmp_path / "spark.log") as log, told_if_it_fails(log):
        fail_after("not enough memory\n")
    assert capfd.readouterr().err == "  not enough memory\n"


def test_where_it_is_is_told_when_a_run_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OSError), kept_in(tmp_path / "spark.log") as log, named_if_it_fails(log):
        fail_after("\tat java.lang\n" * 500)
    assert capfd.readouterr().err == f"all that Spark said is in {log.file}\n"
    with pytest.raises(OSError), kept_in(log.file), named_if_it_fails(log, lambda: False):
        fail_after("and stops\n")
    assert capfd.readouterr().err == ""


def test_it_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_log, "_LARGEST", 1000)
    with kept_in(tmp_path / "spark.log") as log:
        os.write(2, b"x" * 1001)
        log.trim()
        os.write(2, b"news\n")
    assert log.file.read_bytes() == b"news\n"
