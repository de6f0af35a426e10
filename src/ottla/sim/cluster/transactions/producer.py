"""A producer with a transactional id, request by request: of transactions' first version or of the second (KIP-890).

It does what clients do: looks for its coordinator again, sends again what was not answered, gives up what cannot be
saved. Before and after every request comes a `step`, at which its owner may let it die or fall asleep.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from ottla.model.errors import ErrorCode
from ottla.record.builder import build_batch
from ottla.record.records import Record
from ottla.sim.cluster.client import LOOK_AGAIN, ClusterClient, Leader
from ottla.sim.cluster.oracle import NOBODY
from ottla.sim.cluster.transactions.ledger import Told
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import INIT_PRODUCER_ID, PRODUCE, KnownTopic, NoAnswer

FIND_COORDINATOR, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = 10, 24, 25, 26, 28
GROUP, TRANSACTION = 0, 1
_NONE: Final = ErrorCode.none
_MOVED: Final = frozenset(
    {
        ErrorCode.not_coordinator,
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.request_timed_out,
    }
)
_FENCED: Final = frozenset(
    {ErrorCode.producer_fenced, ErrorCode.invalid_producer_epoch, ErrorCode.invalid_producer_id_mapping}
)  # fmt: skip
_AGAIN: Final = LOOK_AGAIN | {
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.concurrent_transactions,
    ErrorCode.network_exception,
}
Step = Callable[[str], Awaitable[None]]


class Fenced(Exception):
    """Another has taken its place, or its transaction took too long: it has to begin anew."""


class Abortable(Exception):
    """This transaction cannot be committed any more."""


class TransactionalProducer:
    def __init__(
        self, client: ClusterClient, name: str, timeout_ms: int, step: Step, *, second_version: bool
    ) -> None:  # fmt: skip
        self.producer_id, self.epoch = -1, -1
        self._client = client
        self._name = name
        self._timeout_ms = timeout_ms
        self._step = step
        self._second = second_version
        self._coordinators: dict[tuple[int, str], int] = {}
        self._sequences: dict[PartitionId, int] = {}
        self._added: set[PartitionId] = set()
        self._has_written = False

    # -- asking coordinators

    async def _coordinator(self, kind: int, key: str) -> int:
        while (kind, key) not in self._coordinators:
            try:
                answer = await self._client.ask_any(FIND_COORDINATOR, 6, {"key_type": kind, "coordinator_keys": [key]})
                row = answer.coordinators[0]
                if row.error_code is _NONE:
                    await self._client.refresh()  # where that broker is
                    self._coordinators[kind, key] = int(row.node_id)
                    break
            except NoAnswer:
                await self._client.refresh()
            await self._client.pause(0.02, 0.2)
        return self._coordinators[kind, key]

    async def ask(
        self, kind: int, key: str, api: int, version: int, values: Mapping[str, Any], code: Callable[[Any], ErrorCode]
    ) -> tuple[Any, bool]:
        """The first answer that is no reason to come again; and whether a request before it had none."""
        had_none = False
        while True:
            broker = await self._coordinator(kind, key)
            await self._step(f"before {api}")
            try:
                answer = await self._client.ask(broker, api, version, values)
            except NoAnswer:
                had_none = True
                self._coordinators.pop((kind, key), None)
                await self._client.pause(0.02, 0.2)
                continue
            await self._step(f"after {api}")
            told = code(answer)
            if told in _MOVED:
                had_none = had_none or told is ErrorCode.request_timed_out
                self._coordinators.pop((kind, key), None)
            elif told is not ErrorCode.concurrent_transactions:
                return answer, had_none
            self._client.oracle.counts[f"transactions: {told.name}"] += 1
            await self._client.pause(0.02, 0.1)

    # -- its life

    async def init(self) -> None:
        """Fences whoever had the id before, and aborts what it left open."""
        request = {
            "transactional_id": self._name, "transaction_timeout": timedelta(milliseconds=self._timeout_ms),
            "producer_id": -1, "producer_epoch": -1,
        }  # fmt: skip
        answer, _ = await self.ask(
            TRANSACTION, self._name, INIT_PRODUCER_ID, 5 if self._second else 4, request, lambda each: each.error_code
        )
        self._check(answer.error_code)
        self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
        self._sequences.clear()
        self._began()

    def _began(self) -> None:
        self._added.clear()
        self._has_written = False

    def _check(self, code: ErrorCode) -> None:
        if code is _NONE:
            return
        self._client.oracle.counts[f"transactions: {code.name}"] += 1
        raise Fenced(code.name) if code in _FENCED else Abortable(code.name)

    @property
    def _me(self) -> dict[str, Any]:
        return {"transactional_id": self._name, "producer_id": self.producer_id, "producer_epoch": self.epoch}

    # -- within a transaction

    async def send(self, topic: KnownTopic, partition: int, values: Sequence[bytes]) -> None:
        """One batch, until it is acknowledged."""
        key = PartitionId(topic.id, partition)
        if not self._second and key not in self._added:
            await self._add(topic, partition)
            self._added.add(key)
        self._has_written = True
        sequence = self._sequences.get(key, 0)
        batch = build_batch(
            [Record(None, value, self._client.env.clock.now_ms()) for value in values],
            producer_id=self.producer_id, producer_epoch=self.epoch, base_sequence=sequence, transactional=True,
        )  # fmt: skip
        request = {
            "transactional_id": self._name, "acks": -1, "timeout": timedelta(seconds=2),
            "topic_data": [{"name": topic.name, "partition_data": [{"index": partition, "records": batch}]}],
        }  # fmt: skip
        while (code := await self._send_once(key, request)) is not _NONE:
            if code is not None and code not in _AGAIN:
                self._check(code)
            await self._client.pause(0.02, 0.2)
            await self._client.refresh()
        self._sequences[key] = sequence + len(values)

    async def _send_once(self, key: PartitionId, request: dict[str, Any]) -> ErrorCode | None:
        leader = self._client.leaders.get(key, Leader()).id
        if leader == NOBODY:
            return None
        await self._step("before a batch")
        try:
            answer = await self._client.ask(leader, PRODUCE, 12 if self._second else 11, request)
        except NoAnswer:
            return None
        await self._step("after a batch")
        code: ErrorCode = answer.responses[0].partition_responses[0].error_code
        return code

    async def _add(self, topic: KnownTopic, partition: int) -> None:
        request = {
            "v3_and_below_transactional_id": self._name, "v3_and_below_producer_id": self.producer_id,
            "v3_and_below_producer_epoch": self.epoch,
            "v3_and_below_topics": [{"name": topic.name, "partitions": [partition]}],
        }  # fmt: skip

        def code(answer: Any) -> ErrorCode:
            told: ErrorCode = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
            return told if told is not ErrorCode.unknown_topic_or_partition else ErrorCode.coordinator_not_available

        answer, _ = await self.ask(TRANSACTION, self._name, ADD_PARTITIONS, 3, request, code)
        self._check(code(answer))

    async def send_offsets(self, group: str, topic: KnownTopic, offsets: Mapping[int, int]) -> None:
        if not self._second:
            answer, _ = await self.ask(
                TRANSACTION, self._name, ADD_OFFSETS, 3, {**self._me, "group_id": group}, lambda each: each.error_code
            )
            self._check(answer.error_code)
        self._has_written = True
        rows = [
            {
                "partition_index": number, "committed_offset": offset, "committed_leader_epoch": -1,
                "committed_metadata": "",
            }
            for number, offset in offsets.items()
        ]  # fmt: skip
        request = {
            **self._me, "group_id": group, "generation_id": -1, "member_id": "", "group_instance_id": None,
            "topics": [{"name": topic.name, "partitions": rows}],
        }  # fmt: skip

        def code(answer: Any) -> ErrorCode:
            codes = [row.error_code for each in answer.topics for row in each.partitions]
            told: ErrorCode = next((code for code in codes if code is not _NONE), _NONE)
            again = (ErrorCode.unknown_topic_or_partition, ErrorCode.not_enough_replicas)
            return ErrorCode.coordinator_not_available if told in again else told

        answer, _ = await self.ask(GROUP, group, TXN_OFFSET_COMMIT, 5 if self._second else 4, request, code)
        self._check(code(answer))

    async def end(self, *, commits: bool) -> Told:
        """What is known of it then. Fenced or Abortable if it was refused, and is known not to be committed."""
        if not self._has_written:
            self._began()
            return Told.NOT_COMMITTED
        answer, had_none = await self.ask(
            TRANSACTION,
            self._name,
            END_TXN,
            5 if self._second else 4,
            {**self._me, "committed": commits},
            lambda each: each.error_code,
        )
        code = answer.error_code
        if code is _NONE:
            if self._second and answer.producer_id >= 0:
                if (answer.producer_id, answer.producer_epoch) != (self.producer_id, self.epoch):
                    self._sequences.clear()
                self.producer_id, self.epoch = answer.producer_id, answer.producer_epoch
            self._began()
            return Told.COMMITTED if commits else Told.NOT_COMMITTED
        if had_none and commits:
            self._client.oracle.counts[f"transactions: {code.name}"] += 1
            raise Unknown(code.name)
        self._check(code)
        raise AssertionError("a code that is none")


class Unknown(Exception):
    """It was refused, but an attempt before had no answer and may have been carried out."""
