"""Producers that write in transactions, request by request, in any version. What they are told is plain JSON.

Producer ids are given names in the order in which they come to be seen (`p0`, `p1`), so that two brokers can be
compared. While markers are being written, brokers ask to come again: `settled` does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from tests.broker.apis import asking
from tests.broker.apis.asking import ask, list_offset
from tests.broker.apis.committing import await_coordinator, committed
from tests.waiting import until

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record

ADD_PARTITIONS, ADD_OFFSETS, END_TXN, WRITE_TXN_MARKERS, TXN_OFFSET_COMMIT = 24, 25, 26, 27, 28
DESCRIBE_PRODUCERS, DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS = 61, 65, 66
TRANSACTION = 1
BUSY = ErrorCode.concurrent_transactions.name
_ENOUGH_FOR_ALL_PARTITIONS = 500


class Producer(NamedTuple):
    """Who it says it is."""

    name: str
    id: str
    epoch: int

    def with_epoch(self, epoch: int) -> Producer:
        return self._replace(epoch=epoch)


class Place:
    """A broker, the topics of one story, and the producer ids that were seen."""

    def __init__(self, address: str, story: str) -> None:
        self.address = address
        self.story = story
        self.topic = f"{story}-out"
        self.group = f"{story}-group"
        self._names: dict[int, str] = {-1: "nobody"}
        self._ids: dict[str, int] = {"nobody": -1, "stranger": 987_654_321}
        asking.create(address, asking.topic_to_create(self.topic, 2))
        until(lambda: self.coordinator(story) == "none")
        until(self._coordinators_are_there)
        await_coordinator(address, self.group)
        until(lambda: self.init(f"{story}-first")[0] == "none")  # there are producer ids
        until(lambda: all(self._leads(partition) for partition in range(2)))

    def _leads(self, partition: int) -> bool:
        found = list_offset(self.address, self.topic, -1, partition=partition)
        return found.error_code is ErrorCode.none

    def coordinator(self, name: str) -> str:
        (row,) = ask(
            self.address, asking.FIND_COORDINATOR, 6, key_type=TRANSACTION, coordinator_keys=[name]
        ).coordinators
        return str(row.error_code.name)

    def _coordinators_are_there(self) -> bool:
        """All of them: a story has several ids. The topic is known before the node leads each of its partitions."""
        names = [f"anybody-{number}" for number in range(_ENOUGH_FOR_ALL_PARTITIONS)]
        rows = ask(self.address, DESCRIBE_TRANSACTIONS, 0, transactional_ids=names).transaction_states
        return all(row.error_code is ErrorCode.transactional_id_not_found for row in rows)

    def _name(self, producer_id: int) -> str:
        name = self._names.setdefault(producer_id, f"p{len(self._names) - 1}")
        self._ids[name] = producer_id
        return name

    def id_of(self, who: Producer) -> int:
        return self._ids[who.id]

    # -- the producer

    def init(
        self, name: str, timeout_ms: int = 60_000, expected: Producer | None = None, version: int = 5
    ) -> list[Any]:
        answer = ask(
            self.address, asking.INIT_PRODUCER_ID, version, transactional_id=name,
            transaction_timeout=timedelta(milliseconds=timeout_ms),
            producer_id=self._ids[expected.id] if expected is not None else -1,
            producer_epoch=expected.epoch if expected is not None else -1,
        )  # fmt: skip
        return [answer.error_code.name, self._name(answer.producer_id), answer.producer_epoch]

    def producer(self, name: str, **more: Any) -> Producer:
        """One that has been let in."""
        code, producer_id, epoch = self.settled(lambda: self.init(name, **more))
        assert code == "none", code
        return Producer(name, producer_id, epoch)

    def add(self, who: Producer, *partitions: int, version: int = 3, topic: str | None = None) -> list[str]:
        topics = [{"name": topic or self.topic, "partitions": partitions}]
        answer = ask(
            self.address, ADD_PARTITIONS, version, v3_and_below_transactional_id=who.name,
            v3_and_below_producer_id=self._ids[who.id], v3_and_below_producer_epoch=who.epoch,
            v3_and_below_topics=topics,
        )  # fmt: skip
        return [
            row.partition_error_code.name
            for each in answer.results_by_topic_v3_and_below
            for row in each.results_by_partition
        ]

    def tell(self, who: Producer, *partitions: int, verify_only: bool = False, version: int = 5) -> list[str]:
        """As one broker asks another."""
        transaction = {
            "transactional_id": who.name, "producer_id": self._ids[who.id], "producer_epoch": who.epoch,
            "verify_only": verify_only, "topics": [{"name": self.topic, "partitions": partitions}],
        }  # fmt: skip
        answer = ask(self.address, ADD_PARTITIONS, version, transactions=[transaction])
        assert answer.error_code is ErrorCode.none
        rows = [
            row
            for each in answer.results_by_transaction
            for topic in each.topic_results
            for row in topic.results_by_partition
        ]
        return [row.partition_error_code.name for row in sorted(rows, key=lambda row: row.partition_index)]

    def add_offsets(self, who: Producer, version: int = 4) -> str:
        answer = ask(
            self.address, ADD_OFFSETS, version, transactional_id=who.name, producer_id=self._ids[who.id],
            producer_epoch=who.epoch, group_id=self.group,
        )  # fmt: skip
        return str(answer.error_code.name)

    def commit_offsets(
        self, who: Producer, offset: int, version: int = 5, *, generation: int = -1, member: str = "",
        instance: str | None = None, partition: int = 0, topic: str | None = None, metadata: str = "",
        group: str | None = None,
    ) -> list[str]:  # fmt: skip
        row = {
            "partition_index": partition, "committed_offset": offset, "committed_leader_epoch": -1,
            "committed_metadata": metadata,
        }  # fmt: skip
        answer = ask(
            self.address, TXN_OFFSET_COMMIT, version, transactional_id=who.name, group_id=group or self.group,
            producer_id=self._ids[who.id], producer_epoch=who.epoch, generation_id=generation, member_id=member,
            group_instance_id=instance, topics=[{"name": topic or self.topic, "partitions": [row]}],
        )  # fmt: skip
        return [row.error_code.name for topic in answer.topics for row in topic.partitions]

    def produce(
        self, who: Producer, sequence: int = 0, version: int = 12, *, partition: int = 0, transactional: bool = True,
        name: str | None = "its own",
    ) -> list[Any]:  # fmt: skip
        batch = build_batch(
            [Record(b"k", b"v", int(time.time() * 1000))], producer_id=self._ids[who.id], producer_epoch=who.epoch,
            base_sequence=sequence, transactional=transactional,
        )  # fmt: skip
        answer = ask(
            self.address, asking.PRODUCE, version, transactional_id=who.name if name == "its own" else name, acks=-1,
            timeout=timedelta(seconds=5),
            topic_data=[{"name": self.topic, "partition_data": [{"index": partition, "records": batch}]}],
        )  # fmt: skip
        row = answer.responses[0].partition_responses[0]
        return [row.error_code.name, row.base_offset]

    def end(self, who: Producer, is_commit: bool = True, version: int = 5) -> list[Any]:
        answer = ask(
            self.address, END_TXN, version, transactional_id=who.name, producer_id=self._ids[who.id],
            producer_epoch=who.epoch, committed=is_commit,
        )  # fmt: skip
        told = [answer.error_code.name]
        return [*told, self._name(answer.producer_id), answer.producer_epoch] if version >= 5 else told

    def settled(self, request: Callable[[], Any]) -> Any:
        """The first answer that is not to come again."""
        found: list[Any] = []

        def is_settled() -> bool:
            found[:] = [request()]
            return BUSY not in (found[0] if isinstance(found[0], list) else [found[0]])

        until(is_settled)
        return found[0]

    # -- looking

    def at_rest(self, name: str) -> dict[str, Any]:
        """What the coordinator says once all markers are written."""
        found: list[Any] = []

        def is_at_rest() -> bool:
            found[:] = [self.describe(name)]
            return not str(found[0]["state"]).startswith("Prepare")

        until(is_at_rest)
        described: dict[str, Any] = found[0]
        return described

    def describe(self, name: str) -> dict[str, Any]:
        (row,) = ask(self.address, DESCRIBE_TRANSACTIONS, 0, transactional_ids=[name]).transaction_states
        return {
            "code": row.error_code.name, "id": row.transactional_id, "state": row.transaction_state,
            "timeout": row.transaction_timeout // timedelta(milliseconds=1),
            "has started": row.transaction_start_time.timestamp() > 0,
            "producer": self._name(row.producer_id) if row.error_code is ErrorCode.none else row.producer_id,
            "epoch": row.producer_epoch,
            "topics": sorted([topic.topic, sorted(topic.partitions)] for topic in row.topics),
        }  # fmt: skip

    def listed(
        self, states: Sequence[str] = (), producers: Sequence[str] = (), duration_ms: int = -1,
        pattern: str | None = None, version: int = 2,
    ) -> list[Any]:  # fmt: skip
        answer = ask(
            self.address, LIST_TRANSACTIONS, version, state_filters=states,
            producer_id_filters=[self._ids[each] for each in producers], duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )  # fmt: skip
        rows = [
            [row.transactional_id, self._name(row.producer_id), row.transaction_state]
            for row in sorted(answer.transaction_states, key=lambda row: row.transactional_id)
            if row.transactional_id.startswith(self.story) and not row.transactional_id.endswith("-first")
        ]
        return [answer.error_code.name, sorted(answer.unknown_state_filters), rows]

    def producers(self, partition: int = 0, topic: str | None = None) -> list[Any]:
        asked = [{"name": topic or self.topic, "partition_indexes": [partition]}]
        (row,) = ask(self.address, DESCRIBE_PRODUCERS, 0, topics=asked).topics[0].partitions
        return [
            row.error_code.name,
            [
                [self._name(each.producer_id), each.producer_epoch, each.last_sequence, each.current_txn_start_offset]
                for each in row.active_producers
            ],
        ]

    def mark(
        self, who: Producer, is_commit: bool, coordinator_epoch: int, version: int = 2, transaction_version: int = 2,
        partition: int = 0,
    ) -> list[str]:  # fmt: skip
        """As a coordinator, or an administrator."""
        marker = {
            "producer_id": self._ids[who.id], "producer_epoch": who.epoch, "transaction_result": is_commit,
            "topics": [{"name": self.topic, "partition_indexes": [partition]}],
            "coordinator_epoch": coordinator_epoch, "transaction_version": transaction_version,
        }  # fmt: skip
        answer = ask(self.address, WRITE_TXN_MARKERS, version, markers=[marker])
        return [row.error_code.name for each in answer.markers for topic in each.topics for row in topic.partitions]

    def ends(self, partition: int = 0) -> list[int]:
        """Where readers get to: of everything, and of what is committed."""
        return [
            list_offset(self.address, self.topic, -1, partition=partition, isolation_level=level).offset
            for level in (0, 1)
        ]

    def delete_records(self, before: int) -> list[Any]:
        rows = [{"partition_index": 0, "offset": before}]
        answer = ask(
            self.address, asking.DELETE_RECORDS, 2, topics=[{"name": self.topic, "partitions": rows}],
            timeout=timedelta(seconds=30),
        )  # fmt: skip
        return [[row.error_code.name, row.low_watermark] for row in answer.topics[0].partitions]

    def fetched(self, partition: int = 0, level: int = 1) -> dict[str, Any]:
        row = {
            "partition": partition, "current_leader_epoch": -1, "fetch_offset": 0, "last_fetched_epoch": -1,
            "log_start_offset": -1, "partition_max_bytes": 1 << 20,
        }  # fmt: skip
        answer = ask(
            self.address, asking.FETCH, 12, replica_id=-1, max_wait=timedelta(0), min_bytes=1, max_bytes=1 << 20,
            isolation_level=level, session_id=0, session_epoch=-1, forgotten_topics_data=[], rack_id="",
            topics=[{"topic": self.topic, "partitions": [row]}],
        )  # fmt: skip
        found = answer.responses[0].partitions[0]
        aborted = found.aborted_transactions
        return {
            "high watermark": found.high_watermark, "last stable offset": found.last_stable_offset,
            "aborted": aborted and [[self._name(each.producer_id), each.first_offset] for each in aborted],
            "has records": bool(found.records),
        }  # fmt: skip

    def committed(self) -> Any:
        """Offsets of the group, pending ones waited for."""
        return [list(row) for row in committed(self.address, self.group, {self.topic: [0, 1]})[self.topic]]

    def stored(self) -> dict[str, Any]:
        """All that requests of a producer could have changed."""
        return {
            "ends": [self.ends(partition) for partition in range(2)],
            "producers": [self.producers(partition) for partition in range(2)],
            "offsets": self.committed(),
            "pending": self.stable(),
            "transaction": self.describe(self.story),
        }

    def changed(self, before: dict[str, Any]) -> list[str]:
        after = self.stored()
        return [name for name in before if before[name] != after[name]]

    # -- a group with a member

    def join(self, group: str) -> str:
        """As its only member, of generation 1; its id."""
        await_coordinator(self.address, group)
        joined = ask(
            self.address, asking.JOIN_GROUP, 3, group_id=group, member_id="", protocol_type="consumer",
            session_timeout=timedelta(minutes=5), rebalance_timeout=timedelta(minutes=5),
            protocols=[{"name": "range", "metadata": b""}],
        )  # fmt: skip
        member = str(joined.member_id)
        synced = ask(
            self.address, asking.SYNC_GROUP, 2, group_id=group, generation_id=1, member_id=member,
            assignments=[{"member_id": member, "assignment": b""}],
        )  # fmt: skip
        assert (joined.error_code, synced.error_code) == (ErrorCode.none, ErrorCode.none)
        return member

    def join_as_consumer(self, group: str, member: str) -> int:
        """By the protocol of KIP-848; its epoch."""
        await_coordinator(self.address, group)
        joined = ask(
            self.address, asking.CONSUMER_GROUP_HEARTBEAT, 1, group_id=group, member_id=member, member_epoch=0,
            instance_id=None, rack_id=None, rebalance_timeout=timedelta(minutes=5),
            subscribed_topic_names=[self.topic], subscribed_topic_regex=None, server_assignor=None,
            topic_partitions=[],
        )  # fmt: skip
        assert joined.error_code is ErrorCode.none, joined
        return int(joined.member_epoch)

    def stable(self) -> list[str]:
        (group,) = ask(
            self.address, asking.OFFSET_FETCH, 9,
            groups=[{"group_id": self.group, "topics": [{"name": self.topic, "partition_indexes": [0]}]}],
            require_stable=True,
        ).groups  # fmt: skip
        return [row.error_code.name for topic in group.topics for row in topic.partitions]
