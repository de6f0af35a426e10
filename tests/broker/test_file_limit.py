"""The limit of open files: told of at the start if it may be too low."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import PATIENCE_S

from ottla.broker.file_limit import too_low, what_is_wrong_with
from ottla.testing.node import running_node


@pytest.mark.parametrize(
    ("limit", "segments", "connections", "is_low"),
    [
        (1024, 10, 100, False),
        (1024, 824, 100, False),
        (1024, 825, 100, True),
        (20_000, 30_000, 1000, True),
        (resource.RLIM_INFINITY, 1 << 40, 1 << 20, False),
    ],
)
def test_when_it_is_too_low(limit: int, segments: int, connections: int, is_low: bool) -> None:
    warning = too_low(limit, segments, connections)
    assert (warning is not None) is is_low
    if warning is not None:
        assert f"may have {limit} files open" in warning
        assert "ulimit -n 100000" in warning
        assert "LimitNOFILE" in warning
        assert "KAFKA_STORAGE_ERROR" in warning
        assert "offline" not in warning  # tests/broker/test_log_dirs.py has that they stay


def test_a_node_counts_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_node(tmp_path, max_connections=50) as running:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (120, 120))
        warning = running.on_loop(lambda: what_is_wrong_with(running.node))
        assert warning is not None
        assert "0 segments and 50 connections may need 150" in warning
        monkeypatch.setattr(resource, "getrlimit", lambda _: (150, 150))
        assert running.on_loop(lambda: what_is_wrong_with(running.node)) is None


def test_the_warning_is_in_the_log_of_a_node_that_starts(tmp_path: Path) -> None:
    program = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from ottla.cli.main import main
sys.argv = ["ottla", "up", "--data", {str(tmp_path)!r}, "--port", "0"]
main()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:
            if "files open" in line:
                assert "ulimit -n" in line
                break
        else:
            pytest.fail("no word about it")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_S)
