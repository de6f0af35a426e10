import os
import socket
import subprocess
import sys
from pathlib import Path

from tests.cli.command import unused_port

from ottla.cli.pid_file import NAME, PidFile, running, stop
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


def test_one_that_was_left_to_a_child_is_not_removed(tmp_path: Path) -> None:
    held = PidFile.take(tmp_path)
    assert held is not None
    held.close()
    held.remove()
    assert (tmp_path / NAME).exists()


def test_stopping_waits_for_the_end_of_the_process(tmp_path: Path) -> None:
    # a process that takes its time after the signal, and removes the file long before it ends
    code = f"""if True:
        import os, signal, time
        from pathlib import Path
        from ottla.cli.pid_file import PidFile
        held = PidFile.take(Path({str(tmp_path)!r}))
        def end(*_):
            held.remove()
            time.sleep(0.3)
            Path({str(tmp_path / "ended")!r}).touch()
            os._exit(0)
        signal.signal(signal.SIGTERM, end)
        held.write(os.getpid(), "h:1")
        print("ready", flush=True)
        signal.pause()
    """
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        assert stop(tmp_path, 60)
        assert (tmp_path / "ended").exists()
    assert running(tmp_path) is None


def test_a_file_left_by_a_killed_process_is_not_mistaken_for_a_node(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(f"{os.getpid()}\nh:1\n")  # this process lives, but holds no lock
    assert running(tmp_path) is None
    held = PidFile.take(tmp_path)
    assert held is not None
    held.remove()


def test_a_taken_port_is_passed_over() -> None:
    with socket.socket() as taken:
        port = unused_port()
        taken.bind(("127.0.0.1", port))
        taken.listen()
        assert not is_free("127.0.0.1", port)
        assert free_port("127.0.0.1", port) != port
    assert free_port("127.0.0.1", port) == port
