"""Batches in transactions, on a real node and without Spark: what survives which end of a driver."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.topics import committed, messages, new_topic

from ottla.spark import loop_thread
from ottla.spark.client_settings import Role, client_settings
from ottla.spark.cluster import Cluster
from ottla.spark.encoder import Encoded, Encoder
from ottla.spark.producing import Fenced, Marker, Producer
from ottla.spark.writing import commit_batch
from ottla.testing.node import RunningNode


@pytest.fixture
def cluster(node: RunningNode) -> Cluster:
    options = {"kafka.bootstrap.servers": node.address, "kafka.default.api.timeout.ms": "20000"}
    return Cluster(client_settings(options, Role.PRODUCER))


def batches(topic: str, values: list[str], partitions: int = 1, *, transactional: bool = True) -> list[Encoded]:
    rows = pa.record_batch({"key": pa.array(values), "value": pa.array(values)})
    return list(Encoder(topic, transactional=transactional).encode(rows, {topic: partitions}, 1_700_000_000_000))


def write(cluster: Cluster, batch_id: int, of_batch: list[Encoded], query: str = "q", own_id: str = "writer") -> bool:
    return loop_thread.wait_for(commit_batch(cluster, own_id, Marker(query, batch_id), of_batch))


def test_a_batch_is_written_once_however_often_it_is_tried(cluster: Cluster, node: RunningNode) -> None:
    topic = new_topic(node, 3)
    own_id = f"writer-of-{topic}"
    values = [f"v{n}" for n in range(50)]
    assert write(cluster, 0, batches(topic, values, 3), own_id=own_id)
    assert not write(cluster, 0, batches(topic, values, 3), own_id=own_id)
    assert write(cluster, 1, batches(topic, ["more"], 3), own_id=own_id)
    assert not write(cluster, 0, batches(topic, values, 3), own_id=own_id)
    assert sorted(committed(node, topic)) == sorted(value.encode() for value in [*values, "more"])


def test_another_query_under_the_same_id_is_not_taken_for_it(cluster: Cluster, node: RunningNode) -> None:
    topic = new_topic(node)
    assert write(cluster, 7, batches(topic, ["a"]), "one", f"writer-of-{topic}")
    assert write(cluster, 0, batches(topic, ["b"]), "another", f"writer-of-{topic}")
    assert committed(node, topic) == [b"a", b"b"]


class Died(Exception):
    pass


@pytest.mark.parametrize("moment", ["send", "mark", "end", "ended"])
def test_a_driver_that_dies_at_any_moment(
    cluster: Cluster, node: RunningNode, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Before, between and after the steps of a batch, and the next driver tries it again."""
    topic = new_topic(node, 2)
    own_id = f"writer-of-{topic}"
    values = ["a", "b", "c", "d"]
    assert write(cluster, 0, batches(topic, ["first"], 2), own_id=own_id)

    async def dies(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patched:
        real = Producer.end

        async def ends_then_dies(self: Producer, *, commit: bool) -> None:
            await real(self, commit=commit)
            raise Died

        patched.setattr(Producer, "end", ends_then_dies if moment == "ended" else dies)  # nor does it abort
        if moment not in ("end", "ended"):
            patched.setattr(Producer, moment, dies)
        with pytest.raises(Died):
            write(cluster, 1, batches(topic, values, 2), own_id=own_id)
    assert write(cluster, 1, batches(topic, values, 2), own_id=own_id) is (moment != "ended")
    assert sorted(committed(node, topic)) == [b"a", b"b", b"c", b"d", b"first"]


def test_of_two_live_drivers_one_is_fenced(cluster: Cluster, node: RunningNode) -> None:
    topic = new_topic(node)
    own_id = f"writer-of-{topic}"
    slow = Producer(cluster, own_id)
    loop_thread.wait_for(slow.begin())
    loop_thread.wait_for(slow.send(batches(topic, ["of the slow one"])))
    assert write(cluster, 0, batches(topic, ["of the quick one"]), own_id=own_id)
    for step in (slow.send(batches(topic, ["late"])), slow.mark(Marker("q", 0), batches(topic, ["x"])[0].place)):
        with pytest.raises(Fenced, match=f"another driver writes under the transactional id {own_id} now"):
            loop_thread.wait_for(step)
    with pytest.raises(Fenced):
        loop_thread.wait_for(slow.end(commit=True))
    assert committed(node, topic) == [b"of the quick one"]


def test_who_abandons_fences_those_who_write_with_him_and_nobody_who_came_later(
    cluster: Cluster, node: RunningNode
) -> None:
    topic = new_topic(node)
    own_id = f"writer-of-{topic}"
    driver = Producer(cluster, own_id)
    loop_thread.wait_for(driver.begin())
    task = Producer.with_identity(cluster, driver.identity)
    loop_thread.wait_for(task.send(batches(topic, ["undone"])))
    loop_thread.wait_for(driver.abandon())
    with pytest.raises(Fenced):
        loop_thread.wait_for(task.send(batches(topic, ["late"])))
    later = Producer(cluster, own_id)
    loop_thread.wait_for(later.begin())
    loop_thread.wait_for(later.send(batches(topic, ["of the later one"])))
    with pytest.raises(Fenced):
        loop_thread.wait_for(driver.abandon())
    loop_thread.wait_for(later.end(commit=True))
    assert committed(node, topic) == [b"of the later one"]


def test_what_a_broker_refuses_is_told_with_partition_and_cause(cluster: Cluster, node: RunningNode) -> None:
    topic = new_topic(node, 1, max_message_bytes="1000")
    producer = Producer(cluster)
    loop_thread.wait_for(producer.begin())
    with pytest.raises(Exception, match=f"cannot write to {topic}-0: .*1000"):
        loop_thread.wait_for(producer.send(batches(topic, ["x" * 2000], transactional=False)))


def test_a_batch_whose_answer_was_lost_is_not_written_twice(
    cluster: Cluster, node: RunningNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ottla.wire.client import ConnectionFailed

    topic = new_topic(node)
    producer = Producer(cluster)
    loop_thread.wait_for(producer.begin())
    real, lost = Cluster.ask, [True, True]

    async def loses_answers(self: Cluster, broker: int, request: Any) -> Any:
        answer = await real(self, broker, request)
        if lost:
            lost.pop()
            raise ConnectionFailed("the answer is lost")
        return answer

    monkeypatch.setattr(Cluster, "ask", loses_answers)
    loop_thread.wait_for(producer.send(batches(topic, ["a", "b"], transactional=False)))
    loop_thread.wait_for(producer.send(batches(topic, ["c"], transactional=False)))
    assert [message.value() for message in messages(node, topic)] == [b"a", b"b", b"c"]


def test_many_batches_of_many_partitions_in_order(cluster: Cluster, node: RunningNode) -> None:
    topic = new_topic(node, 4)
    values = [f"{n:06d}" for n in range(20_000)]

    async def send() -> None:
        producer = Producer(cluster)
        await producer.begin()
        for first in range(0, len(values), 5000):
            await producer.send(batches(topic, values[first : first + 5000], 4, transactional=False))
        await asyncio.sleep(0)

    loop_thread.wait_for(send())
    found = messages(node, topic)
    for partition in range(4):
        own = [message.value() for message in found if message.partition() == partition]
        assert own == sorted(own)
    assert sorted(message.value() for message in found) == [value.encode() for value in values]
