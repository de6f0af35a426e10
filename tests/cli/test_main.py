"""The command as a whole: quick, lazy, helpful when mistyped."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.command import OTTLA, run_ottla
from tests.waiting import PATIENCE_S, at_best

from ottla.cli.main import COMMANDS, cli


def modules_after(*args: str) -> set[str]:
    """What a command has imported by the time it ends."""
    code = f"""if True:
        import sys
        from ottla.cli.main import main
        sys.argv = ["ottla", *{args!r}]
        try:
            main()
        except SystemExit:
            print(*sys.modules, file=sys.stderr)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    return set(done.stderr.split())


def test_help_lists_every_command_and_imports_none() -> None:
    shown = run_ottla("--help")
    assert shown.returncode == 0
    for name in COMMANDS:
        assert f"  {name} " in shown.stdout
    assert not {
        name for name in modules_after("--help") if name.startswith(("kio", "asyncio", "confluent", "ottla.model"))
    }


def test_topic_commands_do_not_load_the_big_client_nor_the_config_tables() -> None:
    loaded = modules_after("topic", "list", "-b", "127.0.0.1:1")
    assert "ottla.wire.client" in loaded
    assert not {name for name in loaded if name.startswith(("confluent_kafka", "ottla.model.config", "uvloop"))}
    assert "hypothesis.strategies" not in loaded


@pytest.mark.parametrize("args", [("--help",), ("topic", "--help"), ("topic", "list", "-b", "127.0.0.1:1")])
def test_commands_answer_well_under_half_a_second(args: tuple[str, ...]) -> None:
    """Of work: how long that takes is a matter of what else the machine has to do."""

    def seconds() -> float:
        process = subprocess.Popen([*OTTLA, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, _, used = os.wait4(process.pid, 0)
        return float(used.ru_utime + used.ru_stime)

    assert at_best(seconds, below=0.4) < 0.4


@pytest.mark.parametrize(
    ("typed", "meant"), [(["topc"], "topic"), (["topic", "creat"], "create"), (["prodcue", "t"], "produce")]
)
def test_a_mistyped_command_is_answered_with_the_right_one(typed: list[str], meant: str) -> None:
    shown = CliRunner().invoke(cli, typed)
    assert shown.exit_code == 2
    assert f"did you mean {meant}?" in shown.output


def test_a_command_like_no_other_is_only_refused() -> None:
    shown = CliRunner().invoke(cli, ["xyzzy"])
    assert shown.exit_code == 2
    assert "There is no command 'xyzzy'." in shown.output


@pytest.mark.parametrize("args", [("topic", "list"), ("produce", "t", "v"), ("consume", "t")])
def test_an_unreachable_broker_is_told_in_one_line(args: tuple[str, ...]) -> None:
    shown = run_ottla(*args, "-b", "127.0.0.1:1")
    assert shown.returncode == 1
    assert shown.stderr.startswith("ottla: no broker answers at 127.0.0.1:1 (connection refused). Is it running?")
    assert shown.stderr.count("\n") == 1 and shown.stdout == ""


def test_a_server_that_never_answers_is_given_up_on_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        for args in (["topic", "list"], ["consume", "t"]):
            begun = time.monotonic()
            shown = run_ottla(*args, "-b", address, "--timeout", "0.5")
            assert shown.returncode == 1 and time.monotonic() - begun < 30
            assert address in shown.stderr and "within 0.5 s" in shown.stderr and shown.stderr.count("\n") == 1


def test_a_mistyped_option_is_answered_with_the_right_one() -> None:
    shown = CliRunner().invoke(cli, ["topic", "create", "t", "--partition", "3"])
    assert shown.exit_code == 2
    assert "--partitions" in shown.output


def test_storage_commands_do_not_wait_for_what_they_do_not_need(tmp_path: Path) -> None:
    assert not {name for name in modules_after("storage", "random-uuid") if name.startswith(("kio", "asyncio"))}
    file = tmp_path / "server.properties"
    file.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/a\n")
    loaded = modules_after("storage", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", str(file))
    assert "hypothesis.strategies" not in loaded


def test_version() -> None:
    from ottla import __version__

    assert run_ottla("--version").stdout == f"ottla {__version__}\n"


@pytest.mark.parametrize(
    "args", [("storage", "random-uuid"), ("completion", "bash"), ("config", "explain", "retention.ms")]
)
def test_output_that_finds_no_room_is_told_in_one_line(args: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*OTTLA, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=PATIENCE_S)
    assert (done.returncode, done.stderr) == (1, "ottla: the output cannot be written: No space left on device\n")
