"""The commands in docs/how-to do what the pages say: they are run on a node, and what is stable is compared."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.command import unused_port
from tests.docs.shell_examples import ROOT, Example, Reader, examples, fenced_blocks

from ottla.testing.apache_kafka import free_port

PAGES = {page.stem: page.read_text() for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))}
# What must be there before a page's first command.
GIVEN = {
    "change-configs": "ottla topic create orders",
    "look-into-log-files": "ottla topic create orders; ottla produce orders a b c",
    "read-and-write-from-the-shell": (
        "ottla topic create orders -p 3; ottla topic create returns; ottla topic create users;"
        "ottla perf produce orders -p 2 -n 2000 -s 10;"
        "echo a > a.txt; echo b > b.txt; echo png > photo.png; printf 'alice:NULL\nbob:\n' > users.txt"
    ),
    "recover": "mkdir DIR; ottla topic create something-large",
    "why-did-my-group-rebalance": (
        "ottla topic create orders -p 6; ottla produce orders a; ottla consume orders --group billing -c 1 -o beginning"
    ),
    "watch-a-node": (
        "echo 'process.roles=broker,controller\nnode.id=1\nlog.dirs=own\nottla.metrics.listener=127.0.0.1:0\n"
        "listeners=PLAINTEXT://127.0.0.1:0' > server.properties;"
        "ottla storage format -t $(ottla storage random-uuid) -c server.properties"
    ),
}
# Amounts that would take long, and places that are elsewhere.
INSTEAD = {
    "measure-a-cluster": {"-n 5000000": "-n 50000", "-d 30": "-d 1", "-n 30000": "-n 300"},
    "look-into-log-files": {"/var/lib/kafka/data": "ottla-data", "dump orders-0": "dump ottla-data/orders-0"},
    "read-and-write-from-the-shell": {"kafka1:9092,kafka2:9092": "ADDRESS"},
    "simulate": {
        "--seeds 1000": "--seeds 2 --jobs 1 --storm 2",
        " 17": " 17 --storm 2",
        "--seeds 8": "--seeds 1 --first 902",
    },
    "other-hosts-and-containers": {"--bootstrap-server broker.example:9092": "--bootstrap-server ADDRESS"},
}
# Pages about a cluster, and what must be there before their first command.
CLUSTER = "ottla up --brokers 3 --detach --port PORT"
CLUSTER_PAGES = {
    "run-a-cluster": "",
    "restart-and-replace-nodes": f"{CLUSTER}; ottla topic create orders -p 6; ottla produce orders a b c",
    "move-partitions": CLUSTER,
}
ENDLESS = re.compile(r"^ottla (up|broker|consume)\b(?!.*( -e\b| -c | -o e@| --until| --detach))")


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """With a node on `ottla-data`, as after `ottla up`."""
    port = unused_port()
    reader = Reader(tmp_path, f"127.0.0.1:{port}")
    reader.run(f"ottla up --detach --port {port} --set group.initial.rebalance.delay.ms=100")
    yield reader
    reader.stop_what_is_left()


def here(name: str, command: str, address: str) -> str:
    """A command as it can be run in a test, where others may listen on the usual ports."""
    for text, instead in INSTEAD.get(name, {}).items():
        command = command.replace(text, instead.replace("ADDRESS", address))
    if command.startswith(("ottla up", "ottla broker")):
        command = re.sub(r"(?<!\.example:)\b(9092|9094|9404)\b", lambda _: str(unused_port()), command)
        if command.startswith("ottla up") and "--port" not in command and "listeners=" not in command:
            command += f" --port {unused_port()}"
    if shutil.which("jq") is None:
        command = re.sub(r"\| jq .*", "> /dev/null", command)
    return command


PAGES_WITH_COMMANDS = [name for name, page in PAGES.items() if examples(page)]


@pytest.mark.parametrize("name", CLUSTER_PAGES)
def test_the_commands_of_a_page_about_clusters_work_one_after_another(name: str, tmp_path: Path) -> None:
    port = str(free_port())
    reader = Reader(tmp_path, ",".join(f"127.0.0.1:{int(port) + number}" for number in range(3)))
    try:
        if CLUSTER_PAGES[name]:
            reader.run(CLUSTER_PAGES[name].replace("PORT", port))
        for example in examples(PAGES[name]):
            command = example.command
            if command.startswith("ottla up"):
                command = command.replace("19092", str(free_port()))
                command += "" if "--port" in command else f" --port {port}"
            compare(name, example, reader.run(command))
    finally:
        reader.stop_what_is_left()


@pytest.mark.parametrize("name", [name for name in PAGES_WITH_COMMANDS if name not in CLUSTER_PAGES])
def test_the_commands_of_a_page_work_one_after_another(name: str, reader: Reader) -> None:
    if name in GIVEN:
        reader.run(GIVEN[name])
    for example in examples(PAGES[name]):
        command = here(name, example.command, reader.address)
        if ENDLESS.match(command):
            own = " --data own-data" if command.startswith("ottla up") and "--data" not in command else ""
            printed = reader.run_until(
                f"{command.partition('#')[0]}{own}", "is up at" if " consume " not in command else None
            )  # fmt: skip
        else:
            printed = reader.run(command)
        compare(name, example, printed)


def compare(name: str, example: Example, printed: str) -> None:
    """Columns may be apart by a tab or by spaces."""

    def cells(lines: list[str]) -> list[list[str]]:
        return [re.split(r"\t| {2,}", line.strip()) for line in lines]

    if example.expected:
        assert cells(printed.splitlines()) == cells(list(example.expected)), (
            f"{name}.md, line {example.line}: {example.command}"
        )


def test_pages_with_commands_are_found() -> None:
    assert len(PAGES_WITH_COMMANDS) >= 7
    assert any(example.expected for page in PAGES.values() for example in examples(page))


def test_configs_are_changed_from_python_as_the_page_says(reader: Reader) -> None:
    reader.run("ottla topic create orders")
    (snippet,) = fenced_blocks(PAGES["change-configs"], "python")
    done = subprocess.run(
        [sys.executable, "-c", snippet.replace("127.0.0.1:9092", reader.address)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert reader.run("ottla config get topic orders retention.ms") == "retention.ms\t86400000\ttopic\t-\n"


def test_the_pytest_snippets_are_tests_that_pass(reader: Reader) -> None:
    in_process, test, as_process = fenced_blocks(PAGES["tests-and-ci"], "python")
    for folder, fixture in (("one", in_process), ("two", as_process)):
        (reader.folder / folder).mkdir()
        (reader.folder / folder / "conftest.py").write_text(fixture)
        (reader.folder / folder / "test_orders.py").write_text(test)
        assert "1 passed" in reader.run(f"'{sys.executable}' -m pytest -q -p no:cacheprovider {folder}")


def test_the_script_for_a_ci_job_works(reader: Reader) -> None:
    (script,) = fenced_blocks(PAGES["tests-and-ci"], "sh")
    assert "Created topic orders: 3 partitions" in reader.run(script.replace("9092", str(unused_port())))


def test_a_wrong_file_is_told_as_the_page_says(reader: Reader) -> None:
    lines = ["process.roles=broker,controller", "node.id=1", "", "num.partitions=many", "log.retention.hours=none"]
    told = next(block for block in fenced_blocks(PAGES["change-configs"], "") if block.startswith("ottla: "))
    (reader.folder / "server.properties").write_text("\n".join(lines))

    assert reader.run("! ottla broker --config server.properties") == told
