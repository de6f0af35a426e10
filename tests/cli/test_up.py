"""`ottla up` and `ottla down`: from nothing to a broker, and back, data kept."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.cli.command import OTTLA, run_ottla, unused_port
from tests.waiting import PATIENCE_S, until

from ottla.cli.up import SNIPPET
from ottla.testing.node import running_node


class Foreground:
    """`ottla up` as in a terminal: its own process group, so that Ctrl-C can be sent to all of it."""

    def __init__(self, *args: str) -> None:
        self.process = subprocess.Popen(
            [*OTTLA, "up", *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line)
            if "consumer.close" in line:  # the last line of the greeting
                break

    @property
    def text(self) -> str:
        return "".join(self.lines)

    @property
    def address(self) -> str:
        found = re.search(r"127\.0\.0\.1:\d+", self.text)
        assert found is not None, self.text
        return found.group()

    def interrupt(self, number: int = signal.SIGINT) -> tuple[int, str]:
        os.killpg(self.process.pid, number)
        rest, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, rest


def test_it_says_where_it_is_and_ctrl_c_stops_it_with_exit_code_0(data: Path) -> None:
    port = unused_port()
    node = Foreground("--port", str(port), "--data", str(data))
    assert node.address == f"127.0.0.1:{port}"
    assert str(data) in node.text and "Ctrl-C" in node.text
    assert f'Producer({{"bootstrap.servers": "127.0.0.1:{port}"}})' in node.text
    assert run_ottla("topic", "create", "t", address=node.address).returncode == 0
    code, rest = node.interrupt()
    assert code == 0
    assert rest.endswith("Stopped; the data stay.\n")
    assert "Traceback" not in rest
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))


@pytest.mark.parametrize("later_s", [0, 0.1, 0.2, 0.3])
def test_ctrl_c_while_it_starts_is_an_orderly_end(data: Path, later_s: float) -> None:
    process = subprocess.Popen(
        [*OTTLA, "up", "--port", str(unused_port()), "--data", str(data)],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    until((data / "ottla.pid").exists)
    time.sleep(later_s)
    os.killpg(process.pid, signal.SIGINT)
    told, _ = process.communicate(timeout=PATIENCE_S)
    assert "Aborted" not in told and "Traceback" not in told
    assert told.endswith(("Stopped before it had started.\n", "Stopped; the data stay.\n"))
    assert not (data / "ottla.pid").exists()
    assert process.returncode == 0


def test_the_snippet_it_prints_works(data: Path) -> None:
    node = Foreground("--port", str(unused_port()), "--data", str(data))
    (_, snippet) = re.split(r"To try it, in Python.*:\n\n", node.text)
    code = "\n".join(line.removeprefix("  ") for line in snippet.splitlines())
    done = subprocess.run([OTTLA[0], "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "b'world'\n", done.stderr
    assert node.interrupt()[0] == 0


def test_the_way_to_stop_it_works_in_a_shell_that_does_not_know_ottla(data: Path, tmp_path: Path) -> None:
    """As after `make up`, whose environment is not active."""
    program = tmp_path / "bin" / "ottla"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom ottla.cli.main import main\nmain()\n")
    program.chmod(0o755)
    for path, told in ((str(program.parent), "ottla"), ("/usr/bin:/bin", str(program))):
        started = subprocess.run(
            [program, "up", "--port", "0", "--data", data, "--detach"],
            env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        stop = f"{told} down --data {data}"
        assert f"  stop  {stop}\n" in started.stdout
        subprocess.run(stop, shell=True, env=os.environ | {"PATH": f"{path}:/bin"}, timeout=60, check=True)


def test_a_taken_port_is_told_and_another_one_used(data: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        node = Foreground("--port", str(port), "--data", str(data))
        assert f"Port {port} is taken, so this node uses" in node.text
        assert node.address != f"127.0.0.1:{port}"
        assert run_ottla("topic", "list", address=node.address).returncode == 0
        assert node.interrupt()[0] == 0


def test_detached_it_answers_when_the_command_returns_and_down_stops_it(data: Path) -> None:
    port = unused_port()
    up = run_ottla("up", "--port", str(port), "--data", str(data), "--detach")
    assert up.returncode == 0, up.stderr
    assert f"127.0.0.1:{port}" in up.stdout and f"ottla down --data {data}" in up.stdout
    assert run_ottla("topic", "create", "kept", address=f"127.0.0.1:{port}").returncode == 0
    pid = int((data / "ottla.pid").read_text().split()[0])
    down = run_ottla("down", "--data", str(data))
    assert (down.returncode, down.stderr) == (0, f"Stopped the node on {data} (127.0.0.1:{port}).\n")
    assert not (data / "ottla.pid").exists()
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert "No node runs on" in run_ottla("down", "--data", str(data)).stderr


def test_data_and_cluster_id_are_kept_over_restarts_and_kills(data: Path) -> None:
    address = f"127.0.0.1:{(port := unused_port())}"
    start = ("up", "--port", str(port), "--data", str(data), "--detach")
    assert run_ottla(*start).returncode == 0
    assert run_ottla("produce", "kept", "one", address=address).returncode == 0
    first_id = (data / "meta.properties").read_text()
    os.kill(int((data / "ottla.pid").read_text().split()[0]), signal.SIGKILL)
    until(lambda: socket.socket().connect_ex(("127.0.0.1", port)) != 0)

    again = run_ottla(*start)
    assert again.returncode == 0, again.stderr
    assert run_ottla("produce", "kept", "two", address=address).returncode == 0
    assert run_ottla("down", "--data", str(data)).returncode == 0

    assert run_ottla(*start).returncode == 0
    assert run_ottla("consume", "kept", "--from-beginning", "-e", address=address).stdout == "one\ntwo\n"
    assert (data / "meta.properties").read_text() == first_id


def test_two_nodes_cannot_have_one_data_folder(data: Path) -> None:
    assert run_ottla("up", "--port", str(unused_port()), "--data", str(data), "--detach").returncode == 0
    second = run_ottla("up", "--port", str(unused_port()), "--data", str(data))
    assert second.returncode == 1
    assert f"a node already runs on {data} (pid " in second.stderr
    assert f"`ottla down --data {data}`" in second.stderr


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--set", "num.partitions=none"], "Invalid value none for configuration num.partitions: not a number"),
        (["--set", "listeners=SSL://:1"], "SSL is not yet supported"),
        (["--set", "broken"], "'broken' is not NAME=VALUE"),
    ],
)
def test_a_wrong_setting_is_refused_and_nothing_is_left_behind(data: Path, args: list[str], message: str) -> None:
    for mode in ([], ["--detach"]):
        refused = run_ottla("up", "--port", str(unused_port()), "--data", str(data), *args, *mode)
        assert refused.returncode in (1, 2)
        assert message in refused.stderr and "Traceback" not in refused.stderr
        assert not data.is_dir() or list(data.iterdir()) == []


def test_an_unknown_setting_is_warned_about(data: Path) -> None:
    up = run_ottla(
        "up", "--port", str(unused_port()), "--data", str(data), "--detach", "--set", "num.partition=3"
    )  # fmt: skip
    assert up.returncode == 0
    told = "--set num.partition: config num.partition is unknown and has no effect; did you mean num.partitions?"
    assert told in up.stderr


def test_a_setting_counts(data: Path) -> None:
    port = unused_port()
    run_ottla("up", "--port", str(port), "--data", str(data), "--detach", "--set", "num.partitions=3")
    created = run_ottla("topic", "create", "t", address=f"127.0.0.1:{port}")
    assert "3 partitions" in created.stderr


def test_down_without_a_folder_is_told(tmp_path: Path) -> None:
    refused = run_ottla("down", "--data", str(tmp_path / "none"))
    assert refused.returncode == 1
    assert "there is no data folder" in refused.stderr


def test_what_is_said_to_try_works_whatever_the_number_of_partitions(tmp_path: Path) -> None:
    with running_node(tmp_path, num_partitions=32, group_initial_rebalance_delay_ms=0) as node:
        program = SNIPPET.format(address=node.address)
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "b'world'\n", done.stderr
