"""The controller in this process: runs the pure controller over the raft log, while this node leads the quorum.

    activate   once all that is committed up to the LeaderChange record of this leadership is published here
    submit     decide on the speculative image (all that was appended), append the records as one batch, park the reply
    committed  the feed publishes (delta, image), then the reply is sent
    resign     what was not committed fails with NOT_CONTROLLER, and nothing of it stays in any image

Everything is on one loop, and between deciding and appending nothing waits: requests cannot overtake each other. (A
decision on thousands of rows takes breaths; it counts only if nothing was decided meanwhile.)
Publishers hear of a change before whoever asked for it does, so that a client which created a topic can use it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.env.metrics import Times
from ottla.env.ports import Env
from ottla.env.slices import whole
from ottla.env.tasks import Tasks
from ottla.metadata.batches import metadata_batch
from ottla.metadata.controller.controller import handle
from ottla.metadata.controller.features import MIN_ISR, activation_records
from ottla.metadata.controller.requests import FenceBroker, Request
from ottla.metadata.controller.result import MAX_RECORDS, ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.feed import MetadataFeed
from ottla.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage
from ottla.metadata.records.base import MetadataRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.transactions import Transactions
from ottla.model.errors import ErrorCode, KafkaError
from ottla.raft.node import NotLeaderError, RaftNode

R = TypeVar("R")
_log = logging.getLogger("ottla.controller")
_TRIES: Final = 3


@dataclass(slots=True)
class _Pending:
    """A reply that depends on records up to an offset which are not yet committed and published."""

    last_offset: int
    reply: Any
    done: asyncio.Future[Any]


class LocalController:
    def __init__(
        self,
        env: Env,
        raft: RaftNode,
        feed: MetadataFeed,
        settings: ControllerSettings,
        bootstrap: Sequence[MetadataRecord],
    ) -> None:
        self.is_active = False
        self.on_active: list[Callable[[], None]] = []
        self.on_inactive: list[Callable[[], None]] = []
        self.decided = self.sessions_over = 0
        self.deciding = Times()
        self._env = env
        self._raft = raft
        self._feed = feed
        self._settings = settings
        self._bootstrap = bootstrap
        self._speculative = EMPTY_IMAGE
        self._soft = self._fresh_soft_state()
        self._alarm: asyncio.TimerHandle | None = None
        self._own = Tasks(lambda error: _log.error("The controller failed by itself: %s", error, exc_info=error))
        self._transactions = Transactions()
        self._pending: deque[_Pending] = deque()

    def start(self) -> None:
        """Before raft starts."""
        self._raft.on_leader.append(self._led_by)
        self._raft.on_failed.append(self._fail)
        self._feed.on_published.append(self._published)

    async def stop(self) -> None:
        """After raft has stopped."""
        if self._alarm is not None:
            self._alarm.cancel()
        await self._own.stop()

    async def until_active(self) -> None:
        """Returns at once if it is; waits for as long as it takes."""
        if self.is_active:
            return
        active = asyncio.Event()
        self.on_active.append(active.set)
        try:
            await active.wait()
        finally:
            self.on_active.remove(active.set)

    @property
    def waiting(self) -> int:
        """Replies whose records are not committed yet."""
        return len(self._pending)

    async def submit(self, request: Request[R]) -> R:
        self._demand_active()
        began = self._env.loop.time()
        result = self._decide(request)
        self.decided += 1
        self.deciding.note(self._env.loop.time() - began)
        if isinstance(result, Refused):
            raise KafkaError(result.error.code, result.error.message)
        if result.records:
            reply: R = await self._append_all(result)
            return reply
        if self._feed.published_offset < self._speculative.offset:
            # The decision looked at records that may still be lost; its reply must not get ahead of them.
            reply = await self._park(self._speculative.offset, result.reply)
            return reply
        return result.reply

    def _decide(self, request: Request[R]) -> ControllerResult[R] | Refused:
        """On what is there when the decision is made: a long one is made again if others came in between.

        While it took breaths this node may have ceased to lead: then there is no state to decide on any more.
        """
        for _ in range(_TRIES):
            image = self._latest()
            result = handle(request, image, self._settings, self._soft)
            self._demand_active()
            if image is self._latest():
                return result
        return whole(lambda request: handle(request, self._latest(), self._settings, self._soft), request)

    def _demand_active(self) -> None:
        if not self.is_active or not self._raft.is_leader:
            raise KafkaError(ErrorCode.not_controller, "this node is not the active controller")

    def _latest(self) -> MetadataImage:
        """The image of all that is in the log. The quorum itself appends too, when voters change."""
        last = self._raft.log.end_offset - 1
        if self._feed.image.offset == last:
            self._speculative = self._feed.image
        elif self._speculative.offset < last:
            self._go_to(MetadataDelta(self._speculative), last, 0, 0)
        return self._speculative

    def _go_to(self, delta: MetadataDelta, offset: int, size: int, now_ms: int) -> None:
        self._speculative = delta.apply(offset, self._raft.epoch)
        self._soft.follow(delta, self._speculative)
        self._feed.offer(delta, self._speculative, size, now_ms)

    def _append_all(self, result: ControllerResult[R]) -> asyncio.Future[Any]:
        records, size = result.records, len(result.records) if result.is_whole else MAX_RECORDS
        for first in range(0, len(records) - size, size):
            # nobody waits for these: the last batch is committed after them
            self._append(records[first : first + size], None).add_done_callback(lambda done: done.exception())
        return self._append(records[(len(records) - 1) // size * size :], result.reply)

    def _append(self, records: Sequence[MetadataRecord], reply: Any) -> asyncio.Future[Any]:
        """Replayed before it is appended: a record that contradicts the state must not get into the log."""
        image = self._latest()
        delta = MetadataDelta(image)
        delta.replay_all(self._transactions.effective(records))
        metadata_version = image.metadata_version or _version_in(records)
        now_ms = self._env.clock.now_ms()
        batch = metadata_batch(records, metadata_version, now_ms)
        limit = self._settings.max_batch_bytes
        if len(batch) > limit:
            message = f"{len(records)} metadata records take {len(batch)} bytes, more than {limit} in a batch"
            raise KafkaError(ErrorCode.policy_violation, message)
        try:
            base_offset = self._raft.append(batch)
        except NotLeaderError as error:
            raise KafkaError(ErrorCode.not_controller, str(error)) from error
        except OSError as error:
            # The image is only swapped below: what failed has left no trace in it. The quorum has resigned.
            _log.error("Metadata could not be appended: %s", error)
            raise KafkaError(ErrorCode.kafka_storage_error, f"the metadata log cannot be written: {error}") from error
        if base_offset != image.offset + 1:
            raise AssertionError(f"appended at {base_offset}, but {image.offset} was the last offset")
        last_offset = base_offset + len(records) - 1
        self._go_to(delta, last_offset, len(batch), now_ms)
        return self._park(last_offset, reply)

    def _park(self, last_offset: int, reply: Any) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = self._env.loop.create_future()
        self._pending.append(_Pending(last_offset, reply, done))
        return done

    def _published(self, image: MetadataImage) -> None:
        while self._pending and self._pending[0].last_offset <= image.offset:
            entry = self._pending.popleft()
            if not entry.done.done():  # the asker may have gone
                entry.done.set_result(entry.reply)
        self._activate_if_ready()

    # -- what it does without being asked

    def _fresh_soft_state(self) -> SoftState:
        return SoftState(self._speculative, self._settings, lambda: self._env.loop.time() * 1000)

    def _set_alarm(self) -> None:
        self._alarm = self._env.loop.call_later(self._soft.wake_in_ms() / 1000, self._wake)

    def _wake(self) -> None:
        if not self.is_active or not self._raft.is_leader:
            return
        for request in self._soft.due():
            self.sessions_over += isinstance(request, FenceBroker)
            self._own.start(self._submit_own(request), "decided by the controller itself")
        self._set_alarm()

    async def _submit_own(self, request: Request[Any]) -> None:
        try:
            await self.submit(request)
        except KafkaError as error:
            _log.info("%s came to nothing: %s", request, error)

    # -- with and without the leadership

    def _led_by(self, leader_id: int, epoch: int) -> None:
        self._deactivate(f"node {leader_id} leads the quorum in epoch {epoch}" if leader_id >= 0 else "it resigned")
        self._activate_if_ready()

    def _activate_if_ready(self) -> None:
        """The LeaderChange record is in the log too: the next offset is a broker epoch to be."""
        begins = self._raft.leads_from
        if self.is_active or begins is None or self._feed.published_offset < begins:
            return
        self.is_active = True
        self._speculative = self._feed.image
        self._soft = self._fresh_soft_state()
        self._transactions = Transactions()
        try:
            self._write_first_records()
        except KafkaError as error:
            _log.error("The controller cannot begin: %s", error)
            self._deactivate(str(error))
            return
        _log.info("The controller is active here in epoch %d", self._raft.epoch)
        self._set_alarm()
        for hears in list(self.on_active):
            hears()

    def _write_first_records(self) -> None:
        self._transactions = self._feed.transactions.copy()
        records = activation_records(
            self._latest(),
            self._transactions.is_open,
            self._bootstrap,
            self._settings.configs.inherited(MIN_ISR) or "1",
        )
        if records:
            self._append(records, None).add_done_callback(lambda done: done.exception())

    def _deactivate(self, reason: str) -> None:
        """Replies to what is committed come when it is published; the rest may be lost or not, nobody here can say."""
        was_active, self.is_active = self.is_active, False
        self._feed.drop_offers()
        self._speculative = EMPTY_IMAGE
        self._soft = self._fresh_soft_state()
        if self._alarm is not None:
            self._alarm.cancel()
        waiting, self._pending = self._pending, deque()
        for entry in waiting:
            if entry.last_offset < self._raft.committed_offset:
                self._pending.append(entry)
            elif not entry.done.done():
                entry.done.set_exception(KafkaError(ErrorCode.not_controller, f"not committed: {reason}"))
        if was_active:
            _log.info("The controller is no longer active here: %s", reason)
            for hears in list(self.on_inactive):
                hears()

    def _fail(self, error: BaseException) -> None:
        self._deactivate(str(error))


def _version_in(records: Sequence[MetadataRecord]) -> int:
    """The level that the bootstrap records are about to set."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0
