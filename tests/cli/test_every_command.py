"""What every command has, whichever it is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
import yaml
from click.testing import CliRunner
from tests.cli.command import Run, new_topic_name, run_ottla, unused_port

from ottla.cli.choices import Choice
from ottla.cli.main import cli
from ottla.cli.output import FORMATS

WITHOUT_OUTPUT = {
    "broker": "it runs until it is stopped, and its log has a format of its own",
    "completion": "it prints a script",
    "consume": "it prints records, as -f or -J says",
    "pipeline run": "it runs until it is stopped, and tells of its progress",
    "pipelines serve": "it runs until it is stopped, and tells of its progress",
}


def leaves(command: click.Command, name: str = "") -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        context = click.Context(command)
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None
            yield from leaves(found, f"{name} {each}".strip())
    else:
        yield name, command


COMMANDS = dict(leaves(cli))
EVERY = pytest.mark.parametrize("name", COMMANDS)


@EVERY
def test_its_output_can_be_a_table_json_or_yaml(name: str) -> None:
    options = {param.name: param for param in COMMANDS[name].params}

    assert ("output" in options) is (name not in WITHOUT_OUTPUT)
    if "output" in options:
        assert isinstance(options["output"].type, Choice) and tuple(options["output"].type.choices) == FORMATS
        assert {"-O", "--output"} <= set(options["output"].opts)


@EVERY
def test_a_mistyped_choice_is_answered_with_the_right_one(name: str) -> None:
    for param in COMMANDS[name].params:
        if isinstance(param.type, click.Choice):
            assert isinstance(param.type, Choice), f"{param.name}: use ottla.cli.choices"


@EVERY
def test_a_mistyped_option_is_answered_with_the_right_one(name: str) -> None:
    longest = max((option for param in COMMANDS[name].params for option in param.opts), key=len)
    if not longest.startswith("--"):
        pytest.skip("it has no options")
    shown = CliRunner().invoke(cli, [*name.split(), longest[:-1] + "_"])
    assert shown.exit_code == 2 and longest in shown.output


@pytest.mark.parametrize(
    ("args", "meant"),
    [
        (["topic", "list", "-O", "jsn"], "json"),
        (["produce", "t", "-z", "ztsd"], "zstd"),
        (["up", "--log-format", "humans"], "human"),
        (["completion", "bsh"], "bash"),
        (["config", "get", "topik", "t"], "topic"),
        (["storage", "fromat"], "format"),
        (["profile", "lst"], "list"),
    ],
)
def test_words_that_are_mistyped(args: list[str], meant: str) -> None:
    shown = CliRunner().invoke(cli, args)
    assert shown.exit_code == 2 and f"did you mean {meant}?" in shown.output


def test_a_choice_like_no_other_is_only_refused() -> None:
    shown = CliRunner().invoke(cli, ["topic", "list", "-O", "xyzzy"])
    assert shown.output.rstrip().endswith("'xyzzy' is not one of 'table', 'json', 'yaml'.")


def test_commands_that_change_topics_tell_programs_what_they_did(ottla: Run) -> None:
    name = new_topic_name("told")

    def told(*args: str) -> object:
        done = ottla(*args, "-O", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    made = {"topic": name, "partitions": 2, "replicas": 1}
    assert told("topic", "create", name, "-p", "2", "--check") == {**made, "created": False}
    assert told("topic", "create", name, "-p", "2") == {**made, "created": True}
    assert told("topic", "create", name, "--if-not-exists") == {**made, "created": False}
    assert told("produce", name, "a", "b") == {"topic": name, "records": 2}
    assert told("topic", "alter", name, "-p", "3", "-c", "retention.ms=1h", "--yes") == {
        "topic": name, "partitions_before": 2, "partitions": 3, "configs": ["retention.ms"], "changed": True,
    }  # fmt: skip
    assert told("topic", "clone", name, f"{name}-2", "--data") == {
        "topic": f"{name}-2", "source": name, "partitions": 3, "configs": {"retention.ms": "3600000"}, "records": 2,
    }  # fmt: skip
    refused = ottla("topic", "delete", name, f"{name}-2", "no-such-topic", "-O", "yaml")
    assert refused.returncode == 1 and refused.stderr == ""
    rows = {row["topic"]: row for row in yaml.safe_load(refused.stdout)}
    assert rows[name] == {"topic": name, "deleted": True, "reason": None}
    assert not rows["no-such-topic"]["deleted"] and "no such topic" in rows["no-such-topic"]["reason"]


def test_starting_and_stopping_tell_programs_what_they_did(data: Path) -> None:
    port = unused_port()
    started = run_ottla("up", "--port", str(port), "--data", str(data), "--detach", "-O", "json")
    node = json.loads(started.stdout)
    assert (node["address"], node["data"], node["log"]) == (f"127.0.0.1:{port}", str(data), str(data / "ottla.log"))
    stopped = json.loads(run_ottla("down", "--data", str(data), "-O", "json").stdout)
    assert stopped == {"data": str(data), "pid": node["pid"], "address": node["address"], "stopped": True}
    again = run_ottla("down", "--data", str(data), "-O", "table").stdout.splitlines()
    assert again[0].split() == ["DATA", "PID", "ADDRESS", "STOPPED"] and again[1].split()[1:] == ["-", "-", "no"]


def test_storage_tells_programs_what_it_did(tmp_path: Path) -> None:
    cluster_id = json.loads(run_ottla("storage", "random-uuid", "-O", "json").stdout)["cluster_id"]
    file = tmp_path / "server.properties"
    file.write_text(f"process.roles=broker,controller\nnode.id=1\nlog.dirs={tmp_path}/a,{tmp_path}/b\n")
    for formatted in (True, False):
        done = run_ottla("storage", "format", "-t", cluster_id, "-c", str(file), "-g", "-O", "json")
        assert json.loads(done.stdout) == [
            {"folder": f"{tmp_path}/{name}", "node_id": 1, "cluster_id": cluster_id, "formatted": formatted}
            for name in "ab"
        ]
