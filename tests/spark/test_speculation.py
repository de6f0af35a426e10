"""On a Spark cluster, where slow tasks run twice at the same time: what is written is written once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.spark.topics import committed, new_topic, write
from tests.waiting import until

from ottla.spark.java import prepare
from ottla.testing.apache_kafka import free_port, listening
from ottla.testing.node import RunningNode

ROOT = Path(__file__).resolve().parents[2]
VALUES = [b"%05d" % n for n in range(4000)]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]),
    "SPARK_DAEMON_MEMORY": "256m",
}


@contextmanager
def running(folder: Path, name: str, *arguments: str) -> Iterator[None]:
    """A daemon of Spark's own cluster."""
    found = find_spec("pyspark")
    assert found is not None and found.origin is not None
    home = Path(found.origin).parent
    command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments, "--webui-port", "0"]
    with (folder / f"{name}.out").open("ab") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=folder, env=ENVIRONMENT | {"SPARK_HOME": str(home)}
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two workers that look like two machines: a task is not started twice on one."""
    folder, port = tmp_path_factory.mktemp("cluster"), free_port()
    ENVIRONMENT["JAVA_HOME"] = str(prepare())
    with ExitStack() as stack:
        stack.enter_context(running(folder, "master.Master", "--host", "127.0.0.1", "--port", str(port)))
        until(lambda: listening(port), lambda: (folder / "master.Master.out").read_text()[-2000:])
        for number in (2, 3):
            where = ["--host", f"127.0.0.{number}", "--work-dir", str(folder / f"worker-{number}")]
            size = ["--cores", "1", "--memory", "700m"]
            stack.enter_context(running(folder, "worker.Worker", *where, *size, f"spark://127.0.0.1:{port}"))
        yield f"spark://127.0.0.1:{port}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("writes", ["driver", "executors"])
def test_a_task_that_runs_twice_at_once_is_written_once(
    master: str, node: RunningNode, tmp_path: Path, writes: str
) -> None:
    source, target = new_topic(node, 4), new_topic(node, 3)
    for partition in range(4):
        write(node, source, VALUES[partition::4], partition)
    driver = str(ROOT / "tests/spark/cluster_driver.py")
    done = subprocess.run(
        [sys.executable, driver, master, node.address, source, target, str(tmp_path), writes],
        capture_output=True,
        text=True,
        timeout=500,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert any(tmp_path.glob("try-*-0-1")), "no task was started a second time"
    assert sorted(committed(node, target)) == VALUES
