"""The active controller in this process: runs the pure controller over the raft log.

    submit     decide on the speculative image (all that was appended), append the records as one batch, park the reply
    committed  publish (delta, image), send the reply

Everything is on one loop, and between deciding and appending nothing waits: requests cannot overtake each other. (A
decision on thousands of rows takes breaths; it counts only if nothing was decided meanwhile.)
Publishers hear of a change before whoever asked for it does, so that a client which created a topic can use it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from ottla.env.ports import Env
from ottla.env.slices import whole
from ottla.env.tasks import Tasks
from ottla.metadata import loader
from ottla.metadata.batches import metadata_batch
from ottla.metadata.controller.controller import handle
from ottla.metadata.controller.features import MIN_ISR, activation_records
from ottla.metadata.controller.requests import Request
from ottla.metadata.controller.result import ControllerResult, Refused
from ottla.metadata.controller.settings import ControllerSettings
from ottla.metadata.controller.soft_state import SoftState
from ottla.metadata.delta import MetadataDelta, Publisher
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
    """Appended and not yet committed; without a delta only a reply that depends on what stands before it."""

    last_offset: int
    delta: MetadataDelta | None
    image: MetadataImage
    reply: Any
    done: asyncio.Future[Any]


class LocalController:
    def __init__(
        self, env: Env, raft: RaftNode, settings: ControllerSettings, bootstrap: Sequence[MetadataRecord]
    ) -> None:
        self._env = env
        self._raft = raft
        self._settings = settings
        self._bootstrap = bootstrap
        self._committed = EMPTY_IMAGE
        self._speculative = EMPTY_IMAGE
        self._soft = self._fresh_soft_state()
        self._alarm: asyncio.TimerHandle | None = None
        self._transactions = Transactions()
        self._pending: deque[_Pending] = deque()
        self._to_publish: deque[_Pending] = deque()
        self._is_publishing = False
        self._tasks = Tasks(lambda error: _log.error("Metadata could not be published: %s", error, exc_info=error))
        self._publishers: list[Publisher] = []
        self._is_started = False

    @property
    def image(self) -> MetadataImage:
        return self._committed

    async def subscribe(self, publisher: Publisher) -> None:
        self._publishers.append(publisher)
        if self._is_started:
            await _tell(publisher, MetadataDelta.everything(self._committed), self._committed)

    async def start(self) -> None:
        """Replays the log, becomes leader, bootstraps an empty log, and publishes the first image."""
        loaded = loader.load(self._raft.log.read_from(0))
        self._transactions = loaded.transactions
        await self._raft.start()
        # The LeaderChange record is in the log too: the next offset is a broker epoch to be.
        self._committed = self._speculative = MetadataDelta(loaded.image).apply(
            self._raft.log.end_offset - 1, self._raft.epoch
        )
        self._raft.on_committed.append(self._commit)
        self._raft.on_failed.append(self._fail)
        records = activation_records(
            loaded.image, loaded.transactions.is_open, self._bootstrap, self._settings.configs.inherited(MIN_ISR) or "1"
        )
        if records:
            await self._append(records, None)
        self._is_started = True
        self._soft = self._fresh_soft_state()
        self._set_alarm()
        await self._publish(MetadataDelta.everything(self._committed), self._committed)

    async def submit(self, request: Request[R]) -> R:
        if not self._is_started or not self._raft.is_leader:
            raise KafkaError(ErrorCode.not_controller, "this node is not the active controller")
        result = self._decide(request)
        if isinstance(result, Refused):
            raise KafkaError(result.error.code, result.error.message)
        if result.records:
            reply: R = await self._append(result.records, result.reply)
            return reply
        if self._pending or self._to_publish:
            # The decision looked at records that may still be lost; its reply must not get ahead of them.
            done: asyncio.Future[R] = self._env.loop.create_future()
            last = (self._pending or self._to_publish)[-1]
            waiting = self._pending if self._pending else self._to_publish
            waiting.append(_Pending(last.last_offset, None, last.image, result.reply, done))
            return await done
        return result.reply

    def _decide(self, request: Request[R]) -> ControllerResult[R] | Refused:
        """On what is there when the decision is made: a long one is made again if others came in between."""
        for _ in range(_TRIES):
            image = self._speculative
            result = handle(request, image, self._settings, self._soft)
            if image is self._speculative:
                return result
        return whole(lambda request: handle(request, self._speculative, self._settings, self._soft), request)

    def _fresh_soft_state(self) -> SoftState:
        return SoftState(self._speculative, self._settings, lambda: self._env.loop.time() * 1000)

    def _set_alarm(self) -> None:
        self._alarm = self._env.loop.call_later(self._soft.wake_in_ms() / 1000, self._wake)

    def _wake(self) -> None:
        for request in self._soft.due():
            self._tasks.start(self._submit_own(request), "decide by itself")
        self._set_alarm()

    async def _submit_own(self, request: Request[Any]) -> None:
        try:
            await self.submit(request)
        except KafkaError as error:
            _log.info("%s came to nothing: %s", request, error)

    async def stop(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        await self._raft.stop()
        await self._tasks.stop()

    def _append(self, records: Sequence[MetadataRecord], reply: Any) -> asyncio.Future[Any]:
        """Replayed before it is appended: a record that contradicts the state must not get into the log."""
        delta = MetadataDelta(self._speculative)
        delta.replay_all(self._transactions.effective(records))
        metadata_version = self._speculative.metadata_version or _version_in(records)
        batch = metadata_batch(records, metadata_version, self._env.clock.now_ms())
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
        if base_offset != self._speculative.offset + 1:
            raise AssertionError(f"appended at {base_offset}, but {self._speculative.offset} was the last offset")
        last_offset = base_offset + len(records) - 1
        self._speculative = delta.apply(last_offset, self._raft.epoch)
        self._soft.follow(delta, self._speculative)
        done: asyncio.Future[Any] = self._env.loop.create_future()
        self._pending.append(_Pending(last_offset, delta, self._speculative, reply, done))
        return done

    def _commit(self, high_watermark: int) -> None:
        while self._pending and self._pending[0].last_offset < high_watermark:
            self._to_publish.append(self._pending.popleft())
        if self._to_publish and not self._is_publishing:
            self._is_publishing = True
            self._tasks.start(self._publish_committed(), "publish metadata")

    async def _publish_committed(self) -> None:
        """One change after the other: a publisher with much to do gives the loop away in between."""
        try:
            while self._to_publish:
                entry = self._to_publish[0]
                if entry.delta is not None:
                    self._committed = entry.image
                    if self._is_started:
                        await self._publish(entry.delta, entry.image)
                self._to_publish.popleft()
                if not entry.done.done():  # the asker may have gone
                    entry.done.set_result(entry.reply)
        finally:
            self._is_publishing = False

    async def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for publisher in self._publishers:
            await _tell(publisher, delta, image)

    def _fail(self, error: BaseException) -> None:
        self._speculative = self._committed
        waiting, self._pending = self._pending, deque()
        for entry in waiting:
            if not entry.done.done():
                entry.done.set_exception(KafkaError(ErrorCode.not_controller, f"not committed: {error}"))


async def _tell(publisher: Publisher, delta: MetadataDelta, image: MetadataImage) -> None:
    try:
        work = publisher(delta, image)
        if work is not None:
            await work
    except Exception:
        # A mistake in one part of the node must not keep the others, or the quorum, from what is committed.
        _log.exception("%r could not take over the metadata at offset %d", publisher, image.offset)


def _version_in(records: Sequence[MetadataRecord]) -> int:
    """The level that the bootstrap records are about to set."""
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == METADATA_VERSION:
            return record.feature_level
    return 0
