import os
import socket
from pathlib import Path

from ottla.cli.pid_file import NAME, PidFile, running
from ottla.cli.ports import free_port, is_free


def test_a_folder_without_a_node_has_none_running(tmp_path: Path) -> None:
    assert running(tmp_path) is None


def test_a_held_file_tells_who_runs_and_keeps_others_out(tmp_path: Path) -> None:
    held = PidFile.take(tmp_path)
    assert held is not None
    held.write(123, "h:1")
    assert running(tmp_path) == (123, "h:1")
    assert PidFile.take(tmp_path) is None
    held.remove()
    assert running(tmp_path) is None
    assert not (tmp_path / NAME).exists()


def test_a_file_left_by_a_killed_process_is_not_mistaken_for_a_node(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(f"{os.getpid()}\nh:1\n")  # this process lives, but holds no lock
    assert running(tmp_path) is None
    held = PidFile.take(tmp_path)
    assert held is not None
    held.remove()


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not is_free("127.0.0.1", port)
        assert free_port("127.0.0.1", port) != port
    assert free_port("127.0.0.1", port) == port
