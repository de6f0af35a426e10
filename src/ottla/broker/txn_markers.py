"""Tells partitions of the end of transactions, here and on other brokers, until each has heard it.

A transaction that is decided stays so: its markers are sent again after whatever went wrong, to whoever leads the
partition then, also by the next coordinator, which finds the decision in its log.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.marker_writing import write_marker
from ottla.broker.peer_brokers import PeerBrokers
from ottla.coordinator.shard import Haste, Shard, State
from ottla.coordinator.txn.transaction import Marker
from ottla.env.tasks import Tasks
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.model.names import TopicPartition

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.coordinator.txn.machine import TxnMachine

_log = logging.getLogger("ottla.coordinator")
_WRITE_TXN_MARKERS: Final = 27
_AGAIN_MS: Final = 50
_MOST_IN_A_REQUEST: Final = 1000
_NEVER: Final = frozenset({ErrorCode.invalid_producer_epoch, ErrorCode.transaction_coordinator_fenced})
"""Another has ended the transaction meanwhile, or coordinates it now."""
_DONE: Final = frozenset(
    {ErrorCode.none, ErrorCode.unsupported_for_message_format, ErrorCode.unsupported_version}
)  # fmt: skip


class _Ending:
    """One transaction whose partitions are being told."""

    __slots__ = ("is_being_completed", "is_over", "marker", "missing", "shard", "transactional_id", "waiting")

    def __init__(
        self, shard: Shard[TxnMachine], transactional_id: str, marker: Marker, partitions: Iterable[TopicPartition]
    ) -> None:
        self.shard = shard
        self.transactional_id = transactional_id
        self.marker = marker
        self.missing = dict.fromkeys(partitions)
        self.is_being_completed = False
        self.is_over = False  # as far as this node is concerned
        self.waiting: list[Callable[[], None]] = []

    def take_waiting(self) -> list[Callable[[], None]]:
        waiting, self.waiting = self.waiting, []
        return waiting

    @property
    def is_ours(self) -> bool:
        return self.shard.state is State.ACTIVE


class ShardMarkers:
    """The `MarkerPort` of one shard."""

    def __init__(self, shard: Shard[TxnMachine], markers: TxnMarkers, loop: asyncio.AbstractEventLoop) -> None:
        self._shard = shard
        self._markers = markers
        self._loop = loop

    def send(self, transactional_id: str, marker: Marker, partitions: Sequence[TopicPartition]) -> None:
        """After this turn: whoever decided has his answer first, and is not asked in the middle of it."""
        self._loop.call_soon(self._markers.send, self._shard, transactional_id, marker, partitions)


class TxnMarkers:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._peers = PeerBrokers(node.env, lambda: node.config, lambda: node.image, "txn-marker-sender")
        self._queues: dict[int, deque[tuple[_Ending, list[TopicPartition]]]] = {}  # by broker
        self._sending: set[int] = set()
        self._endings: dict[str, _Ending] = {}  # the last of each transactional id, until its markers are written
        self._tasks = Tasks(lambda error: _log.error("markers could not be sent: %s", error, exc_info=error))
        self.without_leader = 0
        """Markers for partitions that nobody leads at the moment."""
        self.completed_again = 0
        """Transactions whose end could not be written to their own log yet."""
        self.unfinished = 0
        """Transactions that are decided and of which not all partitions have heard."""

    def send(
        self, shard: Shard[TxnMachine], transactional_id: str, marker: Marker, partitions: Sequence[TopicPartition]
    ) -> None:
        ending = _Ending(shard, transactional_id, marker, partitions)
        self.unfinished += 1
        self._endings[transactional_id] = ending
        self._tell(ending, list(ending.missing))

    def waiting(self, transactional_id: str) -> int:
        """How many requests wait for the markers of an id."""
        ending = self._endings.get(transactional_id)
        return len(ending.waiting) if ending is not None else 0

    def missing(self, transactional_id: str) -> Collection[TopicPartition] | None:
        """Which partitions have not heard of the end of an id's transaction; None if nobody is being told."""
        ending = self._endings.get(transactional_id)
        return ending.missing.keys() if ending is not None else None

    def when_written(self, transactional_id: str, callback: Callable[[], None], within_ms: float) -> bool:
        """Calls back once markers of an id need not be waited for any more, or the time is over; False if none are."""
        ending = self._endings.get(transactional_id)
        if ending is None:
            return False
        timer = self._node.timers.after(within_ms, callback)

        def written() -> None:
            timer.cancel()
            callback()

        ending.waiting.append(written)
        return True

    async def stop(self) -> None:
        await self._tasks.stop()
        await self._peers.stop()

    # -- to whom

    def _tell(self, ending: _Ending, partitions: list[TopicPartition]) -> None:
        if ending.is_over:
            return
        if not ending.is_ours:
            self._over(ending)  # whoever coordinates now goes on with it
            return
        image, me = self._node.image, self._node.config.node_id
        elsewhere: dict[int, list[TopicPartition]] = {}
        for key in partitions:
            topic = image.topic(key.topic)
            known = topic.partitions.get(key.partition) if topic is not None else None
            if known is None:
                ending.missing.pop(key, None)  # it was deleted: nobody will ever read it
            elif known.leader == me:
                self._tell_here(ending, key)
            elif self._peers.is_reachable(known.leader):
                elsewhere.setdefault(known.leader, []).append(key)
            else:
                self.without_leader += 1
                self._node.timers.after(_AGAIN_MS, self._look_for_leader, ending, key)
        for broker_id, keys in elsewhere.items():
            self._queues.setdefault(broker_id, deque()).append((ending, keys))
            if broker_id not in self._sending:
                self._sending.add(broker_id)
                self._tasks.start(self._empty_queue(broker_id), f"markers for broker {broker_id}")
        self._look_whether_complete(ending)

    def _tell_here(self, ending: _Ending, key: TopicPartition) -> None:
        written = write_marker(self._node, key, ending.marker)
        if isinstance(written, ErrorCode):
            self._told(ending, key, written)
        else:
            written.add_done_callback(lambda done: self._told_later(ending, key, done.result()))

    def _told_later(self, ending: _Ending, key: TopicPartition, code: ErrorCode) -> None:
        self._told(ending, key, code)
        self._look_whether_complete(ending)

    def _look_for_leader(self, ending: _Ending, key: TopicPartition) -> None:
        self.without_leader -= 1
        self._tell(ending, [key])

    def _again(self, ending: _Ending, keys: list[TopicPartition]) -> None:
        self._node.timers.after(_AGAIN_MS, partial(self._tell, ending, keys))

    # -- what they say

    def _told(self, ending: _Ending, key: TopicPartition, code: ErrorCode) -> None:
        if code in _DONE:
            ending.missing.pop(key, None)
        elif code in _NEVER:
            _log.info(
                "%s did not take the end of a transaction of %s (%s): it is another's by now",
                *(key, ending.transactional_id, code.name.upper()),
            )
            self._over(ending)  # it stays as it is; as in Kafka the next coordinator looks at it
        else:
            _log.info(
                "%s did not take the end of a transaction of %s (%s); it is told again",
                *(key, ending.transactional_id, code.name.upper()),
            )
            self._again(ending, [key])

    def _over(self, ending: _Ending) -> None:
        if not ending.is_over:
            ending.is_over = True
            self.unfinished -= 1
            self._written(ending)

    def _written(self, ending: _Ending) -> None:
        """Whoever waits for it has his turn: what they decide builds on its end, also where that is not committed."""
        if self._endings.get(ending.transactional_id) is ending:
            del self._endings[ending.transactional_id]
        for callback in ending.take_waiting():
            callback()

    def _look_whether_complete(self, ending: _Ending) -> None:
        if ending.missing or ending.is_over or ending.is_being_completed:
            return
        try:
            ending.is_being_completed = True
            ending.shard.submit(
                lambda txns: txns.complete(ending.transactional_id, ending.marker),
                partial(self._completed, ending),
                Haste.NEXT,
            )
        except KafkaError:
            self._over(ending)  # it is no longer ours
            return
        self._written(ending)

    def _completed(self, ending: _Ending, _: None, error: KafkaError | None) -> None:
        ending.is_being_completed = False
        if error is None or not ending.is_ours:
            self._over(ending)
        else:
            _log.info("the end of a transaction of %s could not be written: %s", ending.transactional_id, error)
            self.completed_again += 1
            self._node.timers.after(_AGAIN_MS, self._complete_again, ending)

    def _complete_again(self, ending: _Ending) -> None:
        self.completed_again -= 1
        self._look_whether_complete(ending)

    # -- other brokers

    async def _empty_queue(self, broker_id: int) -> None:
        queue = self._queues[broker_id]
        try:
            while queue:
                taken = [queue.popleft() for _ in range(min(len(queue), _MOST_IN_A_REQUEST))]
                rows = []
                for ending, keys in taken:
                    if ending.is_ours:
                        rows.append((ending, keys))
                    else:
                        self._over(ending)
                if rows:
                    await self._tell_broker(broker_id, rows)
        finally:
            self._sending.discard(broker_id)

    async def _tell_broker(self, broker_id: int, rows: list[tuple[_Ending, list[TopicPartition]]]) -> None:
        codes: dict[tuple[int, str, int], ErrorCode] = {}
        with suppress(OttlaError):  # it may or may not have been written: it is told again, and takes it once more
            answer = await self._peers.call(broker_id, _WRITE_TXN_MARKERS, {"markers": [_row(*row) for row in rows]})
            codes = {
                (marker.producer_id, topic.name, row.partition_index): row.error_code
                for marker in answer.markers
                for topic in marker.topics
                for row in topic.partitions
            }
        for ending, keys in rows:
            again = []
            for key in keys:
                code = codes.get((ending.marker.producer.producer_id, *key))
                if code is None:
                    again.append(key)
                else:
                    self._told(ending, key, code)
            if again:
                self._again(ending, again)
            self._look_whether_complete(ending)


def _row(ending: _Ending, keys: list[TopicPartition]) -> dict[str, Any]:
    marker = ending.marker
    topics: dict[str, list[int]] = {}
    for topic, number in keys:
        topics.setdefault(topic, []).append(number)
    return {
        "producer_id": marker.producer.producer_id,
        "producer_epoch": marker.producer.epoch,
        "transaction_result": marker.is_commit,
        "topics": [{"name": name, "partition_indexes": numbers} for name, numbers in topics.items()],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": marker.version,
    }
