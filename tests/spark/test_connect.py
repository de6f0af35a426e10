"""Spark Connect: the same source and sink, from a client that has no Java in its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.topics import committed, forget_last_commit, new_topic, write

from ottla.testing.node import RunningNode

ROOT = Path(__file__).resolve().parents[2]
VALUES = [b"%03d" % n for n in range(300)]


def run(node: RunningNode, source: str, target: str, folder: Path) -> str:
    command = [sys.executable, str(ROOT / "tests/spark/connect_client.py"), node.address, source, target, str(folder)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src")])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=280, cwd=folder, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


@pytest.mark.timeout(600)
def test_a_client_of_spark_connect_reads_and_copies_exactly_once(node: RunningNode, tmp_path: Path) -> None:
    source, target = new_topic(node, 2), new_topic(node, 2)
    write(node, source, VALUES)
    assert run(node, source, target, tmp_path).split("\n")[:2] == ["read 300", "copied"]
    forget_last_commit(tmp_path / "checkpoint")
    run(node, source, target, tmp_path)
    assert sorted(committed(node, target)) == VALUES
