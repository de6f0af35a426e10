"""Java's client, through Apache Kafka's own console tools."""

from __future__ import annotations

import re
import subprocess

import pytest
from tests.interop.clients import CLIENTS, Sent
from tests.interop.conftest import NewTopic

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import tool
from ottla.testing.process import NodeProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]

TOOLS = "org.apache.kafka.tools."


def run(node: NodeProcess, name: str, *args: str, stdin: str | None = None) -> str:
    done = tool(TOOLS + name, "--bootstrap-server", node.address, *args, stdin=stdin)
    assert done.returncode == 0, f"{name} {args}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


def consume(node: NodeProcess, topic: str, count: int, *args: str) -> list[str]:
    done = tool(
        TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", node.address, "--topic", topic, "--partition", "0",
        "--max-messages", str(count), "--timeout-ms", "20000", *args,
    )  # fmt: skip
    assert f"Processed a total of {count} messages" in done.stdout + done.stderr, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_the_console_producer_writes_all_clients_read(node: NodeProcess, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic()
    lines = "".join(f"key {n}\tvalue {n} {'x' * 50}\n" for n in range(200))
    options = ("--reader-property", "parse.key=true", "--compression-codec", codec)
    run(node, "ConsoleProducer", "--topic", topic, *options, stdin=lines)
    for reader in (client for client in CLIENTS if codec in client.codecs):
        received = reader.consume(node.address, topic, 200)
        assert [r.key for r in received] == [b"key %d" % n for n in range(200)]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_the_console_consumer_reads_what_other_clients_write(
    node: NodeProcess, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic()
    writers = [client for client in CLIENTS if codec in client.codecs]
    for writer in writers:
        sent = [Sent(b"%d" % n, f"{writer.name} {n}".encode(), (("h", b"v"),)) for n in range(50)]
        writer.produce(node.address, topic, sent, codec=codec)
    show = ("print.key", "print.offset", "print.headers")
    options = [word for name in show for word in ("--formatter-property", f"{name}=true")]
    found = consume(node, topic, 50 * len(writers), "--offset", "earliest", *options)
    assert found == [
        f"Offset:{number * 50 + n}\th:v\t{n}\t{writer.name} {n}"
        for number, writer in enumerate(writers)
        for n in range(50)
    ]
    isolated = consume(node, topic, 5, "--offset", "45", "--isolation-level", "read_committed")
    assert isolated == [f"{writers[0].name} {n}" for n in range(45, 50)]


def test_topics_are_made_described_and_deleted(node: NodeProcess) -> None:
    run(node, "TopicCommand", "--create", "--topic", "from-java", "--partitions", "3", "--config", "retention.ms=9999")
    described = run(node, "TopicCommand", "--describe", "--topic", "from-java")
    assert "PartitionCount: 3" in described and "ReplicationFactor: 1" in described
    assert "retention.ms=9999" in described
    assert described.count("Leader: 1") == 3
    assert "from-java" in run(node, "TopicCommand", "--list").split()
    again = tool(TOOLS + "TopicCommand", "--bootstrap-server", node.address, "--create", "--topic", "from-java")
    assert again.returncode == 1 and "already exists" in again.stdout + again.stderr
    run(node, "TopicCommand", "--delete", "--topic", "from-java")
    assert "from-java" not in run(node, "TopicCommand", "--list").split()


def test_get_offset_shell_finds_first_last_and_by_time(node: NodeProcess, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    sent = [Sent(None, b"x", partition=n % 2, timestamp=1_700_000_000_000 + n) for n in range(20)]
    CLIENTS[0].produce(node.address, topic, sent)

    def offsets(time: str) -> list[str]:
        return run(node, "GetOffsetShell", "--topic", topic, "--time", time).split()

    assert offsets("earliest") == [f"{topic}:0:0", f"{topic}:1:0"]
    assert offsets("latest") == [f"{topic}:0:10", f"{topic}:1:10"]
    assert offsets("max-timestamp") == [f"{topic}:0:9", f"{topic}:1:9"]
    assert offsets("1700000000010") == [f"{topic}:0:5", f"{topic}:1:5"]


@pytest.mark.parametrize("acks", ["1", "all"])
def test_producer_performance_runs_to_its_end(node: NodeProcess, new_topic: NewTopic, acks: str) -> None:
    """Idempotent by default, five requests under way, with acks=all."""
    topic = new_topic(partitions=3)
    done = tool(
        TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", "30000", "--record-size", "200",
        "--throughput", "-1", "--bootstrap-server", node.address,
        "--command-property", f"acks={acks}", "batch.size=4000",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"30000 records sent", done.stdout), done.stdout
    ends = [CLIENTS[0].first_and_end(node.address, topic, number)[1] for number in range(3)]
    assert sum(ends) == 30000


def test_a_java_producer_splits_a_batch_that_is_too_large(node: NodeProcess, new_topic: NewTopic) -> None:
    """It sees MESSAGE_TOO_LARGE and tries again with less in a batch."""
    topic = new_topic(max_message_bytes=8000)
    lines = "".join(f"{n}{'y' * 600}\n" for n in range(20))
    run(node, "ConsoleProducer", "--topic", topic, "--command-property", "linger.ms=500", stdin=lines)
    assert CLIENTS[0].first_and_end(node.address, topic, 0) == (0, 20)
    received = CLIENTS[0].consume(node.address, topic, 20)
    assert [int((r.value or b"").rstrip(b"y")) for r in received] == list(range(20))


def test_api_versions_are_read_by_the_broker_api_versions_command(node: NodeProcess) -> None:
    done: subprocess.CompletedProcess[str] = tool(
        TOOLS + "BrokerApiVersionsCommand", "--bootstrap-server", node.address
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"Produce\(0\): 0 to 13 \[usable: 13\]", done.stdout), done.stdout
    assert re.search(r"Fetch\(1\): 4 to 18 \[usable: 18\]", done.stdout), done.stdout
