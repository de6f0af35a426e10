"""`ottla storage` and `ottla broker`: nodes by server.properties, as with Apache Kafka."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest
from tests.cli.command import OTTLA, run_ottla, unused_port
from tests.waiting import PATIENCE_S

ID = "4L6g3nShT-eMCtK--X86sw"


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    file = tmp_path / "server.properties"
    file.write_text(
        f"process.roles=broker,controller\nnode.id=7\nlisteners=PLAINTEXT://127.0.0.1:{unused_port()}\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\nnum.partitions=2\n"
    )
    return file


def test_a_random_uuid_is_22_characters_of_base64() -> None:
    first, second = (run_ottla("storage", "random-uuid").stdout.strip() for _ in range(2))
    assert re.fullmatch(r"[A-Za-z0-9_-]{22}", first) and first != second
    assert not first.startswith("-")  # or it would be taken for an option


def test_every_log_dir_is_formatted(properties: Path, tmp_path: Path) -> None:
    done = run_ottla("storage", "format", "-t", ID, "-c", str(properties))
    assert done.returncode == 0, done.stderr
    for name in ("a", "b"):
        text = (tmp_path / name / "meta.properties").read_text()
        assert f"cluster.id={ID}\n" in text and "node.id=7\n" in text


def test_a_formatted_dir_is_not_formatted_again(properties: Path, tmp_path: Path) -> None:
    run_ottla("storage", "format", "-t", ID, "-c", str(properties))
    before = (tmp_path / "a" / "meta.properties").read_text()
    again = run_ottla("storage", "format", "-t", ID, "-c", str(properties))
    assert again.returncode == 1
    assert "already formatted" in again.stderr and "--ignore-formatted" in again.stderr
    ignored = run_ottla("storage", "format", "-t", ID, "-c", str(properties), "--ignore-formatted")
    assert ignored.returncode == 0
    assert (tmp_path / "a" / "meta.properties").read_text() == before


def test_a_wrong_cluster_id_is_refused(properties: Path, tmp_path: Path) -> None:
    refused = run_ottla("storage", "format", "-t", "not an id", "-c", str(properties))
    assert refused.returncode != 0
    assert "random-uuid" in refused.stderr
    assert not (tmp_path / "a").exists()


def test_a_broker_runs_from_its_file_and_stops_at_a_signal(properties: Path) -> None:
    run_ottla("storage", "format", "-t", ID, "-c", str(properties))
    process = subprocess.Popen(
        [*OTTLA, "broker", "--config", str(properties)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "is up at" in line)
        address = re.search(r"127\.0\.0\.1:\d+", line)
        assert address is not None and line.startswith("Node 7 is up")
        created = run_ottla("topic", "create", "t", address=address.group())
        assert "2 partitions" in created.stderr
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0


def test_a_broker_without_formatted_folders_does_not_start(properties: Path) -> None:
    refused = run_ottla("broker", "--config", str(properties))
    assert refused.returncode == 1
    assert "ottla storage format" in refused.stderr and str(properties) in refused.stderr


def test_a_wrong_line_is_refused_with_file_and_line(properties: Path) -> None:
    with properties.open("a") as file:
        file.write("log.retention.ms=soon\n")
    for command in (["broker", "--config"], ["storage", "format", "-t", ID, "-c"]):
        refused = run_ottla(*command, str(properties))
        assert refused.returncode == 1
        assert f"{properties}, line 6: Invalid value soon for configuration log.retention.ms" in refused.stderr


def test_an_unknown_line_is_warned_about_with_file_and_line(properties: Path) -> None:
    with properties.open("a") as file:
        file.write("\n# a comment\nnum.partition=3\n")
    refused = run_ottla("broker", "--config", str(properties), "--set", "no.such=1")  # not formatted: it stops there
    told = "config num.partition is unknown and has no effect; did you mean num.partitions?"
    assert f"Warning: {properties}, line 8: {told}" in refused.stderr
    assert "Warning: --set no.such: config no.such is unknown and has no effect." in refused.stderr


def test_an_override_that_is_wrong_is_refused_as_such(properties: Path) -> None:
    refused = run_ottla("broker", "--config", str(properties), "--set", "num.io.threads=none")
    assert refused.returncode == 1
    assert "--set num.io.threads: Invalid value none for configuration num.io.threads" in refused.stderr


def test_a_node_that_takes_too_long_to_start_gives_up(properties: Path) -> None:
    assert run_ottla("storage", "format", "-t", ID, "-c", str(properties)).returncode == 0
    late = run_ottla("broker", "--config", str(properties), "--set", "server.max.startup.time.ms=0")
    assert late.returncode == 1
    assert "the node has not started within 0 ms (server.max.startup.time.ms)" in late.stderr


def test_a_host_that_has_no_name_leaves_no_traceback_behind(properties: Path) -> None:
    with properties.open("a") as file:
        file.write(
            f"listeners=PLAINTEXT://127.0.0.1:{unused_port()},CONTROLLER://127.0.0.1:{unused_port()}\n"
            "controller.listener.names=CONTROLLER\ncontroller.quorum.voters=7@no.invalid:1,8@no.invalid:2\n"
        )
    assert run_ottla("storage", "format", "-t", ID, "-c", str(properties)).returncode == 0
    process = subprocess.Popen([*OTTLA, "broker", "-c", str(properties)], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    next(line for line in process.stderr if "still waits for the metadata quorum" in line)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=PATIENCE_S)
    assert told == "Stopped before it had started.\n"
