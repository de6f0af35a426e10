"""Records tests/golden/kafka-groups/: `__consumer_offsets` as Apache Kafka leaves it, and what Kafka finds in it.

    python -m tests.coordinator.group.record_kafka_groups

Groups of all sorts are in it: with members and without, static, of other protocol types, with offsets alone, of the
consumer protocol, deleted; offsets with every field, of old versions, deleted, committed and aborted and left open in
transactions. Kafka is ended by kill -9 while members are there, and started again: manifest.json has what it then
answered. kafka-groups.tar.xz has the logs from before that.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.broker.apis import asking
from tests.broker.apis.committing import commit, committed, delete
from tests.corpus.conversations.talk import Talk
from tests.corpus.conversations.voices import ORDERS, OTHER, Admin, Voice
from tests.interop.conftest import create_topic
from tests.waiting import until

from ottla.broker.group_coordinator import group_hash
from ottla.testing.apache_kafka import ApacheKafka, free_port

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "kafka-groups"
PARTITIONS: Final = 2
SETTINGS: Final[dict[str, Any]] = {
    "offsets.topic.num.partitions": PARTITIONS,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.session.timeout.ms": 60_000,
}
LONG_MS: Final = 1_800_000
TOPICS: Final = {ORDERS: 3, OTHER: 1}
CLASSIC: Final = (
    "stable",
    "static",
    "left",
    "connect",
    "simple",
    "old",
    "žluť",
    "some deleted",
    "transactional",
    "open",
)
MODERN: Final = ("modern", "modern static", "modern left", "modern pattern")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        kafka = ApacheKafka.start(Path(folder), port, **SETTINGS)
        consumers: list[Consumer] = []
        try:
            for topic, partitions in TOPICS.items():
                create_topic(kafka.bootstrap, topic, partitions)
            ids = topic_ids(kafka.bootstrap)
            _await(lambda: is_served(kafka.bootstrap))
            with Talk(port, "", ids) as talk:
                fill_classic(talk)
                fill_offsets(kafka.bootstrap)
                _fill_transactions(kafka.bootstrap)
                consumers = fill_modern(kafka.bootstrap)
                kafka.kill()
            _keep(kafka.data)
            kafka = ApacheKafka.start(Path(folder), port, **SETTINGS)
            _await(lambda: is_served(kafka.bootstrap))
            manifest = {"topics": {name: str(value) for name, value in ids.items()}, **_found(kafka.bootstrap)}
        finally:
            kafka.kill()
    (GOLDEN / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    del consumers  # whose members have been there until now


def topic_ids(address: str) -> dict[str, UUID]:
    return {topic.name: topic.topic_id for topic in asking.metadata(address, *TOPICS).topics}


def _await(holds: Callable[[], bool]) -> None:
    until(holds)


def is_served(address: str) -> bool:
    """Whether the coordinator has all that these groups are kept in."""
    for group in (*CLASSIC, *MODERN):
        found = asking.ask(address, asking.FIND_COORDINATOR, 6, key_type=0, coordinator_keys=[group])
        if found.coordinators[0].error_code:
            return False
        described = asking.ask(address, asking.DESCRIBE_GROUPS, 5, groups=[group], include_authorized_operations=False)
        if described.groups[0].error_code:
            return False
    return True


# -- what is written


def fill_classic(talk: Talk) -> None:
    first, second = Voice(talk, "a", "stable"), Voice(talk, "b", "stable")
    first.enter(session=LONG_MS)
    second.say_join_with_id(session=LONG_MS)
    talk.is_silent("b")
    first.join(session=LONG_MS)
    second.hear_join()
    second.say_sync()
    first.sync((first.id, b"first"), (second.id, b"second"))
    second.hear_sync()
    first.commit(3, epoch=2, metadata="so far")
    second.commit(4, 1)
    static = Voice(talk, "c", "static", "i")
    static.enter(session=LONG_MS)
    again = Voice(talk, "d", "static", "i")
    again.join(session=LONG_MS)
    again.commit(5)
    left = Voice(talk, "e", "left")
    left.enter()
    left.commit(6)
    left.leave()
    Voice(talk, "f", "connect").enter((("default", b"x"),), protocol_type="connect", session=LONG_MS)
    gone = Voice(talk, "g", "deleted")
    gone.enter()
    gone.commit(7)
    gone.leave()
    Admin(talk, "deleted").delete()


def fill_offsets(address: str) -> None:
    commit(address, "simple", {ORDERS: {0: 1, 1: 2, 2: 3}, OTHER: {0: 4}}, metadata="m", epoch=5)
    commit(address, "simple", {ORDERS: {0: 10}}, metadata=None)
    for version in range(2, 10):
        commit(address, "old", {ORDERS: {version % 3: version}}, version)
    commit(address, "old", {OTHER: {0: 5}}, 2, retention_ms=86_400_000_000)
    commit(address, "žluť", {ORDERS: {0: 2**62}}, metadata="kůň \U0001f40e")
    commit(address, "some deleted", {ORDERS: {0: 1, 1: 2}})
    delete(address, "some deleted", {ORDERS: [0]})


def _fill_transactions(address: str) -> None:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "transactional"})
    for name, offset in (("kept", 51), ("dropped", 52)):
        producer = _in_transaction(address, name, consumer, offset)
        producer.commit_transaction(20) if name == "kept" else producer.abort_transaction(20)
    consumer.close()
    commit(address, "open", {ORDERS: {2: 1}})
    consumer = Consumer({"bootstrap.servers": address, "group.id": "open"})
    _in_transaction(address, "open", consumer, 53)
    consumer.close()


def _in_transaction(address: str, name: str, consumer: Consumer, offset: int) -> Producer:
    producer = Producer({"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": 900_000})
    producer.init_transactions(20)
    producer.begin_transaction()
    places = [TopicPartition(ORDERS, 2, offset)]
    producer.send_offsets_to_transaction(places, consumer.consumer_group_metadata(), 20)
    return producer


def fill_modern(address: str) -> list[Consumer]:
    """Members of groups of the consumer protocol; they stay until Kafka is ended."""

    def member(group: str, topics: list[str], **settings: str) -> Consumer:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        consumer = Consumer({
            "bootstrap.servers": address, "group.id": group, "group.protocol": "consumer", "client.id": group,
            "auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0, **named,
        })  # fmt: skip
        consumer.subscribe(topics)
        return consumer

    first, second = (member("modern", [ORDERS]) for _ in range(2))
    others = [member("modern static", [ORDERS, OTHER], group_instance_id="i"), member("modern pattern", ["^ord.*"])]
    left = member("modern left", [OTHER])
    everyone = [first, second, *others, left]
    shares = [2, 1, 4, 3, 1]

    def settled() -> bool:
        for one in everyone:
            one.poll(0.05)
        return sorted(len(one.assignment()) for one in everyone) == sorted(shares)

    _await(settled)
    for one in everyone:
        one.commit(offsets=[TopicPartition(*_place(one), 7)], asynchronous=False)
    left.close()
    return [first, second, *others]


def _place(consumer: Consumer) -> tuple[str, int]:
    place = consumer.assignment()[0]
    return place.topic, place.partition


# -- what is kept


def _keep(data: Path) -> None:
    shutil.rmtree(GOLDEN, ignore_errors=True)
    GOLDEN.mkdir(parents=True)
    with tarfile.open(GOLDEN / "kafka-groups.tar.xz", "w:xz") as tar:
        for number in range(PARTITIONS):
            (log,) = (data / f"__consumer_offsets-{number}").glob("*.log")
            entry = tarfile.TarInfo(f"{number}/{log.name}")
            content = log.read_bytes()
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def _found(address: str) -> dict[str, Any]:
    """What a coordinator answers that has loaded it."""
    return {
        "partitions": {group: group_hash(group) % PARTITIONS for group in (*CLASSIC, *MODERN)},
        "groups": listed(address),
        "classic": {group: described(address, group) for group in CLASSIC},
        "modern": {group: described_modern(address, group) for group in MODERN},
        "offsets": {group: offsets(address, group) for group in (*CLASSIC, *MODERN)},
    }


def listed(address: str) -> list[list[str]]:
    answer = asking.ask(address, asking.LIST_GROUPS, 5, states_filter=[], types_filter=[])
    return sorted([row.group_id, row.protocol_type, row.group_state, row.group_type] for row in answer.groups)


def described(address: str, group: str) -> dict[str, Any]:
    with Talk(int(address.rpartition(":")[2]), group, {}) as talk:
        (row,) = Admin(talk, group).describe().groups
    return {
        "state": row.group_state, "type": row.protocol_type, "protocol": row.protocol_data,
        "members": sorted(
            [one.member_id, one.group_instance_id, one.client_id, one.client_host, one.member_metadata.hex(),
             one.member_assignment.hex()] for one in row.members
        ),
    }  # fmt: skip


def described_modern(address: str, group: str) -> dict[str, Any]:
    (row,) = asking.ask(address, 69, 1, group_ids=[group], include_authorized_operations=False).groups

    def places(assignment: Any) -> list[list[Any]]:
        return sorted([topic.topic_name, sorted(topic.partitions)] for topic in assignment.topic_partitions)

    return {
        "state": row.group_state, "epoch": row.group_epoch, "assignment epoch": row.assignment_epoch,
        "assignor": row.assignor_name,
        "members": sorted(
            [one.member_id, one.instance_id, one.rack_id, one.member_epoch, one.client_id, one.client_host,
             sorted(one.subscribed_topic_names), one.subscribed_topic_regex, places(one.assignment),
             places(one.target_assignment)] for one in row.members
        ),
    }  # fmt: skip


def offsets(address: str, group: str) -> dict[str, list[list[Any]]]:
    return {str(topic): sorted(list(row) for row in rows) for topic, rows in committed(address, group).items()}


if __name__ == "__main__":
    main()
