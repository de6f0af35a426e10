"""Java's client in transactions, and Apache Kafka's own tool for them: kafka-transactions.sh."""

from __future__ import annotations

from itertools import count

import pytest
from confluent_kafka import KafkaException, Producer
from tests.interop.clients import CLIENTS, WITHIN_S
from tests.interop.conftest import NewTopic

from ottla.testing import apache_kafka
from ottla.testing.apache_kafka import tool
from ottla.testing.process import NodeProcess

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(not apache_kafka.available(), reason="needs java and Apache Kafka's jars"),
]
TOOLS = "org.apache.kafka.tools."
_numbers = count()


def run(node: NodeProcess, *args: str) -> list[dict[str, str]]:
    """The rows of the table that it prints, by the names of its columns."""
    done = tool(TOOLS + "TransactionsCommand", "--bootstrap-server", node.address, *args)
    assert done.returncode == 0, f"{args}:\n{done.stdout}\n{done.stderr}"
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    names = [name.strip() for name in lines[0]] if lines else []
    return [dict(zip(names, (cell.strip() for cell in line), strict=False)) for line in lines[1:]]


class Open:
    """A producer with a transaction open in the first partition of a topic."""

    def __init__(self, node: NodeProcess, topic: str) -> None:
        self.name, self.topic = f"java-looks-{next(_numbers)}", topic
        self.producer = Producer(
            {"bootstrap.servers": node.address, "transactional.id": self.name, "log_level": 0}
        )  # fmt: skip
        self.producer.init_transactions(WITHIN_S)
        self.producer.begin_transaction()
        self.producer.produce(topic, b"value", partition=0)
        assert self.producer.flush(WITHIN_S) == 0


@pytest.fixture
def opened(node: NodeProcess, new_topic: NewTopic) -> Open:
    return Open(node, new_topic(partitions=2))


def test_listing_and_describing(node: NodeProcess, opened: Open) -> None:
    (listed,) = [row for row in run(node, "list") if row["TransactionalId"] == opened.name]
    assert (listed["Coordinator"], listed["TransactionState"]) == ("1", "Ongoing")
    assert run(node, "list", "--duration-filter", "3600000") == []

    (described,) = run(node, "describe", "--transactional-id", opened.name)
    assert described["ProducerId"] == listed["ProducerId"]
    assert (described["ProducerEpoch"], described["TransactionTimeoutMs"]) == ("0", "60000")
    assert described["TopicPartitions"] == f"{opened.topic}-0"

    (writes,) = run(node, "describe-producers", "--topic", opened.topic, "--partition", "0")
    assert writes["ProducerId"] == listed["ProducerId"]
    assert writes["CurrentTransactionStartOffset"] == "0"
    opened.producer.commit_transaction(WITHIN_S)


def test_one_that_is_known_does_not_hang(node: NodeProcess, opened: Open) -> None:
    found = run(node, "find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert [row for row in found if row.get("Topic") == opened.topic] == []
    opened.producer.abort_transaction(WITHIN_S)


def test_forcing_an_end_fences_the_producer(node: NodeProcess, opened: Open) -> None:
    run(node, "forceTerminateTransaction", "--transactionalId", opened.name)
    with pytest.raises(KafkaException):
        opened.producer.commit_transaction(WITHIN_S)
    (described,) = run(node, "describe", "--transactional-id", opened.name)
    assert described["TransactionState"] in ("Empty", "CompleteAbort", "PrepareAbort")


def test_aborting_by_its_first_offset(node: NodeProcess, opened: Open) -> None:
    run(node, "abort", "--topic", opened.topic, "--partition", "0", "--start-offset", "0")
    assert CLIENTS[0].first_and_end(node.address, opened.topic, 0)[1] == 2  # the record and the marker


def test_what_java_commits_is_read_as_committed(node: NodeProcess, new_topic: NewTopic) -> None:
    """Java's producer leaves it to the broker to add partitions, and has a new epoch with each transaction."""
    topic = new_topic(partitions=2)
    done = tool(
        TOOLS + "ProducerPerformance", "--topic", topic, "--num-records", "3000", "--record-size", "100",
        "--throughput", "3000", "--bootstrap-server", node.address, "--transactional-id", "java-performs",
        "--transaction-duration-ms", "100",
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (described,) = run(node, "describe", "--transactional-id", "java-performs")
    assert int(described["ProducerEpoch"]) >= 3, "one for each transaction"
    assert len(CLIENTS[0].consume(node.address, topic, 3000, read_committed=True)) == 3000

    read = tool(
        TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", node.address, "--topic", topic, "--from-beginning",
        "--isolation-level", "read_committed", "--max-messages", "3000", "--timeout-ms", "20000",
    )  # fmt: skip
    assert "Processed a total of 3000 messages" in read.stdout + read.stderr
