"""What only a person at a terminal sees: questions, tables, progress, remarks."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import time

import pytest
from confluent_kafka import Producer
from tests.cli.command import OTTLA, Run, new_topic_name
from tests.waiting import PATIENCE_S


@pytest.fixture
def topic(ottla: Run, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    ottla("topic", "create", name, "-p", "2")
    ottla("produce", name, "a", "b", "c")
    return name


CTRL_C = "\x03"


def _own_terminal() -> None:
    """In the child: so that Ctrl-C reaches it."""
    fcntl.ioctl(1, termios.TIOCSCTTY, 0)


def at_terminal(node: str, *args: str, typed: str = "", after: str = "", term: str = "dumb") -> tuple[int, str]:
    """Runs a command on a terminal of its own; types once it has printed `after`. Its exit code and all it showed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*OTTLA, *args],
        stdin=theirs, stdout=theirs, stderr=theirs,
        env=os.environ | {"OTTLA_BOOTSTRAP": node, "TERM": term}, start_new_session=True,
        preexec_fn=_own_terminal,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if not select.select([ours], [], [], 1)[0]:
            if typed == CTRL_C and after.encode() in shown:  # a signal just before Python reads the line is not noticed
                os.write(ours, CTRL_C.encode())
            continue
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other side has gone
            break
        seen = after.encode() in shown
        shown += piece
        if typed and not seen and after.encode() in shown:
            os.write(ours, typed.encode())
    else:
        process.kill()  # it does not end
    os.close(ours)
    return process.wait(PATIENCE_S), re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).replace("\r\n", "\n")


def test_purging_is_asked_about(node: str, ottla: Run, topic: str) -> None:
    code, shown = at_terminal(node, "topic", "purge", topic, typed="n\n", after="[y/N]")
    assert code == 1 and f"Delete 3 offsets of {topic} (0 stay)? [y/N]: n" in shown
    assert shown.endswith("ottla: nothing was done\n")
    assert len(ottla("consume", topic, "--from-beginning", "-e").stdout.split()) == 3
    code, shown = at_terminal(node, "topic", "purge", topic, typed="y\n", after="[y/N]")
    assert code == 0 and f"Deleted 3 offsets of topic {topic}." in shown and "PARTITION  BEGAN" in shown
    assert ottla("consume", topic, "--from-beginning", "-e").stdout == ""


def test_more_partitions_and_deleting_are_asked_about(node: str, topic: str) -> None:
    code, shown = at_terminal(node, "topic", "alter", topic, "-p", "3", typed=CTRL_C, after="[y/N]")
    assert code == 130 and "33% of the keys stay" in shown and "Traceback" not in shown
    code, shown = at_terminal(node, "topic", "delete", topic, typed="y\n", after="[y/N]")
    assert code == 0 and f"Deleted topic {topic}." in shown


def test_lists_are_tables(node: str, topic: str) -> None:
    code, shown = at_terminal(node, "topic", "list")
    assert code == 0 and shown.startswith("TOPIC") and re.search(rf"^{topic} +2 +1$", shown, re.MULTILINE)
    code, shown = at_terminal(node, "config", "get", "topic", topic)
    assert code == 0 and "have their default; --all shows them." in shown


def test_reading_tells_that_it_waits_and_what_it_read(node: str, topic: str) -> None:
    code, shown = at_terminal(node, "consume", topic, typed=CTRL_C, after="Waiting for new records")
    assert code == 0 and f"Waiting for new records of {topic}; Ctrl-C ends" in shown and "0 records." in shown
    code, shown = at_terminal(node, "consume", topic, "--from-beginning", "-e")
    assert code == 0 and shown.endswith("3 records.\n")
    code, shown = at_terminal(node, "consume", topic, "--from-beginning", "-e", "-q")
    assert sorted(shown.split()) == ["a", "b", "c"]


def test_records_that_would_take_over_a_terminal_are_shown_harmless(node: str, ottla: Run, topic: str) -> None:
    evil, name = "\x1b]0;owned\x07\x1b[2J", "header\u202e"
    ottla("produce", topic, evil, "--key", evil, "-H", f"{name}={evil}")
    template = "%k %h %s;"

    code, shown = at_terminal(node, "consume", topic, "-e", "-q", "-f", template)
    assert code == 0 and r"\x1b]0;owned\x07\x1b[2J header\u202e=\x1b]0;owned" in shown
    assert not {"\x1b", "\x07", "\u202e"} & set(shown)

    piped = ottla("consume", topic, "-e", "-f", template).stdout
    assert f"{evil} {name}={evil} {evil};" in piped


def test_a_transactional_id_that_would_take_over_a_terminal_is_shown_harmless(node: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": node, "transactional.id": "\x1b]0;owned\x07; reboot", "log_level": 0})
    producer.init_transactions(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"value", partition=0)
    assert producer.flush(PATIENCE_S) == 0
    code, shown = at_terminal(node, "txn", "why", topic)
    producer.abort_transaction(PATIENCE_S)
    assert code == 1 and r"\x1b]0;owned\x07; reboot, producer" in shown
    assert r"ottla txn abort '\x1b]0;owned\x07; reboot'" in shown  # to be copied, as one word
    assert not {"\x1b", "\x07"} & set(shown)


def test_typing_records(node: str, ottla: Run, topic: str) -> None:
    code, shown = at_terminal(node, "produce", topic, typed="hello\n\x04", after="Ctrl-D ends")
    assert code == 0 and shown.endswith(f"1 record written to {topic}.\n")
    assert "hello\n" in ottla("consume", topic, "--from-beginning", "-e").stdout


@pytest.fixture
def group(ottla: Run, topic: str) -> str:
    name = f"{topic}-group"
    assert ottla("group", "reset", name, "--topic", topic, "--to-earliest", "--execute").returncode == 0
    return name


def test_watching_groups_redraws_the_screen_until_ctrl_c(node: str, topic: str, group: str) -> None:
    code, shown = at_terminal(node, "group", "watch", group, "-i", "0.3", typed=CTRL_C, after="never", term="xterm")
    assert code == 0 and "Traceback" not in shown
    first, *more = shown.split("\x1b[H")[1:]  # each begins at the top
    assert more and "every 0.3 s; Ctrl-C ends." in first
    lines = [line.removesuffix("\x1b[K").split() for line in first.splitlines()]
    assert ["GROUP", "STATE", "MEMBERS", "LAG", "READ/S", "WRITTEN/S", "CAUGHT", "UP", "IN"] in lines
    short = next(line[0] for line in lines if line[1:2] == ["Empty"])
    assert short.endswith("…") and group.startswith(short[:-1])  # such a long name would leave no room for numbers
    assert [short, "Empty", "0", "3", "-", "-", "-"] in lines
    assert any(topic.startswith(line[0][:-1]) and line[1] == "0" for line in lines if len(line) > 5)
    later = [line.removesuffix("\x1b[K").split() for line in more[0].splitlines()]
    assert [short, "Empty", "0", "3", "0", "0", "never"] in later
    assert shown.startswith("\x1b[?25l") and "\x1b[?25h" in shown  # the cursor comes back


def test_a_dumb_terminal_gets_lines_of_groups(node: str, group: str) -> None:
    code, shown = at_terminal(node, "group", "watch", group, "-n", "1")
    assert code == 0 and "\x1b[H" not in shown and shown.split("\t")[1:3] == [group, "Empty"]


def test_deleting_groups_is_asked_about(node: str, ottla: Run, topic: str, group: str) -> None:
    code, shown = at_terminal(node, "group", "delete", group, "--topic", topic, typed="n\n", after="[y/N]")
    assert code == 1 and f"Delete the offsets of {group} in {topic}? [y/N]: n" in shown
    code, shown = at_terminal(node, "group", "delete", group, typed="y\n", after="[y/N]")
    assert code == 0 and f"Delete {group} with all offsets? [y/N]: y" in shown and f"Deleted group {group}." in shown
    assert group not in ottla("group", "list").stdout.split()


def test_a_member_of_a_group_says_so(node: str, topic: str) -> None:
    code, shown = at_terminal(node, "consume", topic, "-g", f"{topic}-g", "--from-beginning", "-e")
    assert code == 0 and shown.startswith(f"Reading {topic} as a member of group {topic}-g; Ctrl-C ends.\n")
    assert shown.endswith("3 records.\n")
