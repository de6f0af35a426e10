"""`ottla config` against a running node, and without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cli.command import Run, new_topic_name, run_ottla

from ottla.cli.secrets import may_be_secret


def got(run: Run, *args: str) -> dict[str, dict[str, Any]]:
    done = run("config", "get", *args, "-O", "json")
    assert done.returncode == 0, done.stderr
    return {row["config"]: row for row in json.loads(done.stdout)}


def own(run: Run, topic: str) -> dict[str, str]:
    """What was set on a topic itself; Apache Kafka also shows what it set for all brokers."""
    return {name: row["value"] for name, row in got(run, "topic", topic).items() if row["source"] == "topic"}


@pytest.fixture
def topic(anywhere: Run, request: pytest.FixtureRequest) -> str:
    name = new_topic_name(request.node.name)
    anywhere("topic", "create", name, "-p", "2", "-c", "retention.ms=1h")
    return name


def test_a_topics_configs_are_shown_with_their_sources(anywhere: Run, topic: str) -> None:
    assert own(anywhere, topic) == {"retention.ms": "3600000"}

    everything = got(anywhere, "topic", topic, "--all")
    assert everything["segment.bytes"]["source"] == "default" and len(everything) > 25
    assert list(got(anywhere, "topics", topic, "segment.bytes")) == ["segment.bytes"]
    assert (
        yaml.safe_load(anywhere("config", "get", "topic", topic, "retention.ms", "-O", "yaml").stdout)[0]["value"]
        == "3600000"
    )
    assert anywhere("config", "get", "topic", topic, "retention.ms").stdout == "retention.ms\t3600000\ttopic\t-\n"


def test_a_brokers_configs_tell_what_they_override(anywhere: Run) -> None:
    row = got(anywhere, "broker", "1", "offsets.topic.replication.factor")["offsets.topic.replication.factor"]
    assert (row["value"], row["source"]) == ("1", "server.properties")
    assert row["overrides"] == [{"name": "offsets.topic.replication.factor", "value": "3", "source": "default"}]


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (["topic", "TOPIC", "retenton.ms"], 1, "has no config retenton.ms; did you mean retention.ms?"),
        (["topic", "no-such-topic"], 1, "topic no-such-topic"),
        (["broker", "7"], 1, "there is no broker 7; there are 1"),
        (["broker", "one"], 2, "'one' is not a broker: a number is needed, or default for all brokers"),
        (["server", "1"], 2, "'server' is not one of 'topic', 'broker'"),
        (["brokr", "1"], 2, "did you mean broker?"),
    ],
)
def test_what_is_not_there_is_told(anywhere: Run, topic: str, args: list[str], code: int, complaint: str) -> None:
    refused = anywhere("config", "get", *(topic if arg == "TOPIC" else arg for arg in args))
    assert refused.returncode == code and complaint in refused.stderr and "Traceback" not in refused.stderr


def test_a_topics_configs_are_set_and_unset(anywhere: Run, topic: str) -> None:
    done = anywhere("config", "set", "topic", topic, "retention.ms=2d", "segment.bytes=64MiB")
    assert (done.returncode, done.stderr.splitlines()) == (
        0,
        [
            f"Changed topic {topic}: retention.ms was 3600000 (topic), is 172800000 (topic)",
            f"Changed topic {topic}: segment.bytes was 1073741824 (default), is 67108864 (topic)",
        ],
    )
    assert own(anywhere, topic) == {"retention.ms": "172800000", "segment.bytes": "67108864"}
    undone = anywhere("config", "unset", "topic", topic, "retention.ms", "segment.bytes")
    assert undone.returncode == 0
    assert "segment.bytes was 67108864 (topic), is 1073741824 (default)" in undone.stderr
    assert own(anywhere, topic) == {}


def test_what_holds_after_a_change_is_asked_for_not_guessed(anywhere: Run, topic: str) -> None:
    """What lies under the value that was in force is not what holds then, if that value was not the topic's own."""
    try:
        assert anywhere("config", "set", "broker", "default", "log.segment.bytes=2MiB").returncode == 0
        for args in (("--check",), ()):
            undone = anywhere("config", "unset", "topic", topic, "segment.bytes", *args)
            assert undone.stderr == f"Nothing to change for topic {topic}: segment.bytes is 2097152 (all brokers)\n"
        anywhere("config", "set", "topic", topic, "segment.bytes=3MiB")
        for args in (("--check",), ()):
            (row,) = json.loads(
                anywhere("config", "unset", "topic", topic, "segment.bytes", "-O", "json", *args).stdout
            )
            assert (row["was"], row["was_from"]) == ("3145728", "topic")
            assert (row["is"], row["is_from"]) == ("2097152", "all brokers")
            assert row["changed"] is (not args)
    finally:
        undone = anywhere("config", "unset", "broker", "default", "log.segment.bytes")
    assert undone.stderr == (
        "Changed all brokers: log.segment.bytes was 2097152 (all brokers), is not set here\n"
    )  # fmt: skip


def test_lists_grow_and_shrink(anywhere: Run, topic: str) -> None:
    for check in (("--check",), ()):
        done = anywhere("config", "set", "topic", topic, "cleanup.policy=compact", "--append", *check)
        assert "cleanup.policy was delete (" in done.stderr
        assert f"{'would be' if check else 'is'} delete,compact (topic)" in done.stderr
    assert got(anywhere, "topic", topic, "cleanup.policy")["cleanup.policy"]["value"] == "delete,compact"
    assert anywhere("config", "set", "topic", topic, "cleanup.policy=delete", "--subtract").returncode == 0
    assert got(anywhere, "topic", topic, "cleanup.policy")["cleanup.policy"]["value"] == "compact"


def test_a_check_changes_nothing(anywhere: Run, topic: str) -> None:
    checked = anywhere("config", "set", "topic", topic, "retention.ms=5", "--check")
    assert checked.returncode == 0 and checked.stderr.startswith(f"Would change topic {topic}: retention.ms was")
    assert own(anywhere, topic) == {"retention.ms": "3600000"}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("retention.ms=soon", "Invalid value soon for configuration retention.ms"),
        ("retenton.ms=5", "did you mean retention.ms?"),
    ],
)
def test_what_a_topic_cannot_have_is_refused(anywhere: Run, topic: str, change: str, complaint: str) -> None:
    refused = anywhere("config", "set", "topic", topic, change)
    assert refused.returncode == 1 and complaint in refused.stderr and refused.stderr.count("\n") == 1


def test_brokers_are_changed_one_by_one_and_all_together(anywhere: Run) -> None:
    try:
        assert anywhere("config", "set", "broker", "default", "log.retention.ms=3d").returncode == 0
        assert got(anywhere, "broker", "default")["log.retention.ms"]["value"] == "259200000"
        assert anywhere("config", "set", "broker", "1", "log.retention.ms=2d").returncode == 0
        row = got(anywhere, "broker", "1", "log.retention.ms")["log.retention.ms"]
        assert (row["value"], row["source"]) == ("172800000", "broker")
        assert row["overrides"][0] == {"name": "log.retention.ms", "value": "259200000", "source": "all brokers"}
    finally:
        anywhere("config", "unset", "broker", "1", "log.retention.ms")
        anywhere("config", "unset", "broker", "default", "log.retention.ms")
    assert "log.retention.ms" not in got(anywhere, "broker", "default")


@pytest.mark.parametrize(
    ("kind", "change", "value"),
    [("group", "consumer.session.timeout.ms=50s", "50000"), ("client-metrics", "interval.ms=1m", "60000")],
)
def test_groups_and_metrics_subscriptions_have_configs(anywhere: Run, kind: str, change: str, value: str) -> None:
    name = change.partition("=")[0]
    assert anywhere("config", "set", kind, "mine", change).returncode == 0
    assert got(anywhere, kind, "mine", name)[name]["value"] == value
    assert anywhere("config", "unset", kind, "mine", name).returncode == 0
    told = anywhere("config", "explain", name).stdout
    assert f"ottla config set {kind} NAME {name}=VALUE" in told


def test_loggers_have_levels(ottla: Run) -> None:
    assert ottla("config", "set", "broker-logger", "1", "ottla.log=DEBUG").returncode == 0
    assert got(ottla, "broker-logger", "1", "ottla.log")["ottla.log"]["value"] == "DEBUG"
    assert ottla("config", "unset", "broker-logger", "1", "ottla.log").returncode == 0
    refused = ottla("config", "set", "broker-logger", "1", "ottla.log=LOUD")
    assert refused.returncode == 1 and "LOUD" in refused.stderr


def test_a_config_is_explained_without_a_cluster() -> None:
    told = run_ottla("config", "explain", "retention.ms", address="127.0.0.1:1").stdout
    assert told.startswith("retention.ms, a config of topics\n")
    for part in (
        "at least -1",
        "604800000 (7 d)",
        "ottla config set topic NAME retention.ms=VALUE",
        "log.retention.hours",
    ):
        assert part in told
    both = json.loads(run_ottla("config", "explain", "compression.type", "-O", "json").stdout)
    assert [meaning["of"] for meaning in both] == ["topic", "broker"]
    assert both[1]["default_for"] == ["compression.type"]
    assert "with a restart" in run_ottla("config", "explain", "log.dirs").stdout
    assert "without effect" in run_ottla("config", "explain", "num.io.threads").stdout
    mistyped = run_ottla("config", "explain", "num.partition")
    assert mistyped.returncode == 1 and "did you mean num.partitions?" in mistyped.stderr


def test_a_config_is_explained_with_its_value(anywhere: Run, topic: str) -> None:
    told = anywhere("config", "explain", "retention.ms", "--topic", topic).stdout
    assert f"now         3600000 (1 h), from topic (topic {topic})" in told
    refused = anywhere("config", "explain", "retention.ms", "--broker", "1")
    assert refused.returncode == 1 and "is no config of a broker" in refused.stderr


def test_a_secret_is_read_from_a_file_or_stdin_and_never_shown(ottla: Run, tmp_path: Path) -> None:
    name = "listener.name.plaintext.ssl.keystore.password"
    (tmp_path / "secret").write_text("open sesame\n")
    try:
        for args in (
            [f"{name}=open sesame"],
            ["--from-file", f"{name}={tmp_path}/secret"],
            ["--from-file", f"{name}=-"],
        ):
            for more in ([], ["--check"], ["-O", "json"]):
                done = ottla("config", "set", "broker", "1", *args, *more, stdin="open sesame\n")
                assert done.returncode == 0, done.stderr
                assert "sesame" not in done.stdout + done.stderr and "(secret)" in done.stdout + done.stderr
            assert got(ottla, "broker", "1", name)[name]["value"] == "(secret)"
    finally:
        undone = ottla("config", "unset", "broker", "1", name)
    assert "sesame" not in undone.stdout + undone.stderr
    missing = ottla("config", "set", "broker", "1", "--from-file", f"{name}=/nowhere")
    assert missing.returncode == 2 and "cannot read /nowhere" in missing.stderr


def test_a_value_from_a_file_is_that_of_the_file(ottla: Run, tmp_path: Path) -> None:
    (tmp_path / "value").write_text("2d\r\n")
    name = new_topic_name("from-file")
    ottla("topic", "create", name)
    done = ottla("config", "set", "topic", name, "--from-file", f"retention.ms={tmp_path}/value")
    assert done.returncode == 0 and own(ottla, name) == {"retention.ms": "172800000"}
    assert "nothing to set" in ottla("config", "set", "topic", name).stderr


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("ssl.keystore.password", True),
        ("listener.name.plaintext.ssl.keystore.password", True),
        ("my.plugin.secret", True),
        ("retention.ms", False),
        ("listener.name.plaintext.max.connections", False),
        ("my.plugin.level", False),
    ],
)
def test_what_must_not_be_shown(name: str, is_secret: bool) -> None:
    assert may_be_secret(name) is is_secret
