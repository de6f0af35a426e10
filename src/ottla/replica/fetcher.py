"""Follows one leader: fetches all partitions that were given to it, over one connection, and appends what comes.

One request is under way at a time, which the leader holds until it has something to say. Requests are those of an
incremental session (KIP-227): they name only partitions of which something has changed here, so that a thousand that
rest cost nothing. When partitions come or go while a request waits, the next one is sent behind it, and a leader of our
kind answers the first at once.

A partition rests for replica.fetch.backoff.ms after an error, and is not fetched while its log is being cut. One that
has failed for good is left alone until the metadata gives it a new epoch.

To ask for what comes from an offset on is to say that all before is here. Where flush.messages wants it durable before
it is acknowledged, the next fetch therefore waits for the sync, as a follower of Apache Kafka syncs before it asks.
Other partitions wait for it too, but no longer than a usual sync takes: then they are asked for without it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple, Protocol

from ottla.env.files import is_shortage
from ottla.env.ports import Env
from ottla.env.tasks import Tasks
from ottla.log.epochs import EpochEnd, EpochStart
from ottla.log.fetched_batches import CorruptFetch, UnexpectedOffset
from ottla.log.truncation import Before
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.replica.fetch_wire import (
    API_KEY,
    VERSION,
    AnswerRow,
    Key,
    Limits,
    Wish,
    read_head,
    read_rows,
    request,
)
from ottla.replica.following import FromLeader, StartsEarlier, cut_for, take
from ottla.replica.partition import Partition
from ottla.wire.client import Connection, PromptAnswer
from ottla.wire.varint import Malformed

_log = logging.getLogger("ottla.replica")

_NEW: Final = 0  # the epoch with which a session begins; one that is named with it ends
_NO_SESSION: Final = (0, _NEW)
_MAX_EPOCH: Final = 0x7FFFFFFF
_PIPELINED: Final = 2
_NOT_ASKED: Final = 1 << 62
_A_SYNC_S: Final = 0.005
# The leader has forgotten the session, or understands something else by it: all is told anew.
_SESSION_ERRORS: Final = frozenset(
    {
        ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error, ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id,
    }
)  # fmt: skip


class FetchSettings(NamedTuple):
    max_bytes: int  # of one partition
    limits: Limits
    backoff_s: float
    timeout_s: float
    after_tier: bool = (
        False  # whether an empty log begins where the remote tier ends, not where the leader's disk begins
    )


class Quota(Protocol):
    """follower.replication.throttled.rate"""

    def holds_back(self, partition: Partition) -> bool: ...
    def count(self, partition: Partition, size: int) -> None: ...


class Leader(Protocol):
    """The way to a leader."""

    broker_id: int

    async def connection(self) -> Connection: ...
    async def list_offset(self, partition: Partition, leader_epoch: int, *, earliest: bool) -> int:
        """KafkaError with the leader's code; OttlaError if it cannot be asked."""

    async def earliest_local(self, partition: Partition, leader_epoch: int) -> EpochStart:
        """Where the leader's own disk begins, and in which epoch; the errors are the same."""

    async def pending_upload(self, partition: Partition, leader_epoch: int) -> EpochStart | None:
        """Where what is in the remote tier ends; None if the leader does not know."""

    async def end_of_epoch(self, partition: Partition, leader_epoch: int, epoch: int) -> EpochEnd: ...
    async def close(self) -> None: ...


class Tier(Protocol):
    """What is known of the remote part of logs."""

    async def before(self, partition: Partition, epoch: int, offset: int, start_offset: int) -> Before:
        """What a log that begins after an offset of an epoch would know of all before. OttlaError if that cannot be."""


class Condition(Enum):
    FETCHING = "fetching"
    RESTING = "resting after an error"
    CUTTING = "its log is being cut"
    SYNCING = "flush.messages: what it has is being synced"
    FAILED = "left alone until the metadata changes"


class Fetching:
    """One partition, in one leader epoch."""

    __slots__ = ("asked_in", "condition", "epoch", "is_told", "lag", "partition")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.epoch = partition.leader_epoch
        self.condition = Condition.FETCHING
        self.is_told = False  # whether the leader's session has it
        self.asked_in = _NOT_ASKED  # the first request whose answer is for where the log ends now
        self.lag: int | None = None  # behind the leader's high watermark; None until the first answer

    def wish(self, max_bytes: int) -> Wish:
        log = self.partition.log
        return Wish(self.epoch, log.end_offset, log.epochs.latest, log.start_offset, max_bytes)


class _Sent(NamedTuple):
    number: int
    answer: PromptAnswer
    deadline: float


class Fetcher:
    def __init__(
        self,
        env: Env,
        node_id: int,
        leader: Leader,
        settings: Callable[[], FetchSettings],
        broker_epoch: Callable[[], int],
        quota: Quota,
    ) -> None:
        self.leader = leader
        self.partitions: dict[Key, Fetching] = {}
        self.bytes_fetched = 0
        self.lost_at: float | None = None  # by the loop's clock: when the connection ended, until there is another
        self.requests = 0
        self.tier: Tier | None = None
        self._env = env
        self._node_id = node_id
        self._settings = settings
        self._broker_epoch = broker_epoch
        self._quota = quota
        self._tasks = Tasks(lambda error: _log.error("following broker %d: %s", leader.broker_id, error))
        self._connection: Connection | None = None
        self._is_connecting = self._is_stopped = False
        self._session = _NO_SESSION
        self._news: dict[Key, None] = {}  # to be told with the next request
        self._forgotten: dict[Key, None] = {}
        self._under_way: deque[_Sent] = deque()
        self._watchdog: asyncio.TimerHandle | None = None
        self._awaiting_sync: asyncio.TimerHandle | None = None
        self._is_due = False

    # -- what is followed

    def follow(self, partition: Partition) -> None:
        """From its epoch on. One that is followed already in this epoch goes on as it is."""
        key: Key = (partition.topic_id, partition.key.partition)
        before = self.partitions.get(key)
        if before is not None and before.epoch == partition.leader_epoch and before.partition is partition:
            return
        following = self.partitions[key] = Fetching(partition)
        following.is_told = before is not None and before.is_told
        self._has_news(key)

    def leave(self, key: Key) -> None:
        following = self.partitions.pop(key, None)
        if following is not None:
            self._hold(key, following)

    def start_moved(self, key: Key) -> None:
        """Of the log here. The leader counts on what it was told: it sends consumers here, and waits for deletions."""
        following = self.partitions.get(key)
        if following is not None and following.is_told:
            self._has_news(key)

    @property
    def is_idle(self) -> bool:
        return not self.partitions

    async def stop(self) -> None:
        self._is_stopped = True
        for timer in (self._watchdog, self._awaiting_sync):
            if timer is not None:
                timer.cancel()
        await self._tasks.stop()
        await self.leader.close()

    # -- asking

    def _has_news(self, key: Key) -> None:
        self._news[key] = None
        if not self._is_due:  # once for all that come in this turn
            self._is_due = True
            self._env.loop.call_soon(self._go_on)

    def _hold(self, key: Key, following: Fetching) -> None:
        """It is not to be fetched now."""
        self._news.pop(key, None)
        if following.is_told:
            following.is_told = False
            following.asked_in = _NOT_ASKED
            self._forgotten[key] = None

    def _go_on(self) -> None:
        self._is_due = False
        if self._is_stopped:
            return
        if self._connection is None:
            if self.partitions and not self._is_connecting:
                self._is_connecting = True
                self._tasks.start(self._connect(), f"connect to leader {self.leader.broker_id}")
            return
        if self._awaiting_sync is not None:
            if not self._news:
                return
            self._awaiting_sync.cancel()
            self._awaiting_sync = None
        has_news = bool(self._news or self._forgotten)
        in_session = self._session[0] != 0 and self._session[1] != _NEW
        has_room = not self._under_way or (has_news and in_session and len(self._under_way) < _PIPELINED)
        if has_room and (has_news or any(each.is_told for each in self.partitions.values())):
            self._ask(self._connection)

    async def _connect(self) -> None:
        try:
            self._connection = await self.leader.connection()
            self.lost_at = None
            self._is_connecting = False
        except OttlaError as error:
            _log.debug("broker %d cannot be followed now: %s", self.leader.broker_id, error)
            await asyncio.sleep(self._settings().backoff_s)
            self._is_connecting = False
        self._go_on()

    def _ask(self, connection: Connection) -> None:
        settings = self._settings()
        news: list[tuple[Key, Wish]] = []
        held, unsynced = [], []
        session_id, epoch = self._session
        if epoch == _NEW:  # all there is
            self._forgotten.clear()
            self._news = dict.fromkeys(
                key for key, each in self.partitions.items() if each.condition is Condition.FETCHING
            )
        for key in self._news:
            following = self.partitions[key]
            if following.condition is not Condition.FETCHING:
                continue
            partition = following.partition
            if partition.is_being_cut or (following.lag != 0 and self._quota.holds_back(partition)):
                held.append(key)
                continue
            if partition.awaits_sync:
                unsynced.append(key)
                continue
            following.is_told = True
            following.asked_in = self.requests
            self._forgotten.pop(key, None)
            news.append((key, following.wish(settings.max_bytes)))
        for key in held:
            self._rest(key, self.partitions[key])
        for key in unsynced:
            self._wait_for_sync(key, self.partitions[key])
        self._news.clear()
        if unsynced and not news and epoch != _NEW and not self._under_way:
            # Without it this request would be in the way of the one that follows in a moment.
            self._awaiting_sync = self._env.loop.call_later(_A_SYNC_S, self._go_on_without_sync)
            return
        forgotten, self._forgotten = self._forgotten, {}
        if epoch == _NEW and not news:
            return
        body = request(self._node_id, self._broker_epoch(), settings.limits, self._session, news, forgotten)
        try:
            answer = connection.send_now(API_KEY, VERSION, (body,), self._answered)
        except OttlaError as error:
            self._lost(error)
            return
        self._session = (session_id if epoch != _NEW else 0, 1 if epoch == _MAX_EPOCH else epoch + 1)
        self.requests += 1
        self._under_way.append(_Sent(self.requests - 1, answer, self._env.loop.time() + settings.timeout_s))
        if self._watchdog is None:
            self._watchdog = self._env.loop.call_later(settings.timeout_s, self._watch)

    def _go_on_without_sync(self) -> None:
        self._awaiting_sync = None
        self._go_on()

    def _watch(self) -> None:
        self._watchdog = None
        if self._is_stopped or not self._under_way:
            return
        left = self._under_way[0].deadline - self._env.loop.time()
        if left > 0:
            self._watchdog = self._env.loop.call_later(left, self._watch)
        elif self._connection is not None:
            self._connection.abort()  # answers come in order: behind one that does not come all others wait

    # -- taking

    def _answered(self, answer: PromptAnswer) -> None:
        if not self._under_way or self._under_way[0].answer is not answer:
            return  # of a connection that was given up
        number = self._under_way.popleft().number
        if self._is_stopped:
            return
        if answer.error is not None or answer.body is None:
            self._lost(answer.error)
            return
        try:
            self._take(answer.body, number)
        except Malformed as malformed:
            self._lost(malformed)
            return
        self._go_on()

    def _lost(self, error: BaseException | None) -> None:
        """The connection has ended or is of no use. Others elsewhere find out why; here it is tried again."""
        if self._is_stopped:
            return
        _log.info("lost the leader %d, going on in a moment: %s", self.leader.broker_id, error)
        if self._connection is not None:
            self._connection.abort()
        self._connection = None
        self.lost_at = self._env.loop.time()
        self._under_way.clear()
        self._begin_anew()
        self._is_connecting = True
        self._tasks.start(self._reconnect(), f"reconnect to leader {self.leader.broker_id}")

    async def _reconnect(self) -> None:
        await asyncio.sleep(self._settings().backoff_s)
        self._is_connecting = False
        self._go_on()

    def _begin_anew(self) -> None:
        """The leader may still have the session, and would look after it for long: the next request ends it."""
        self._session = (self._session[0], _NEW)
        for key, following in self.partitions.items():
            following.is_told = False
            self._news[key] = None

    def _take(self, body: memoryview, number: int) -> None:
        head = read_head(body)
        if head.code:
            code = ErrorCode(head.code)
            if code not in _SESSION_ERRORS:
                raise Malformed(f"the leader answered {code.name}")
            _log.debug("the session with leader %d ends: %s", self.leader.broker_id, code.name)
            self._begin_anew()
            if code is ErrorCode.fetch_session_id_not_found:
                self._session = _NO_SESSION
            return
        if not head.session_id:
            self._session = _NO_SESSION
        elif head.session_id != self._session[0]:
            self._session = (head.session_id, 1)
        now_ms = self._env.clock.now_ms()
        for row in read_rows(body):
            following = self.partitions.get(row.key)
            if following is not None and following.is_told and number >= following.asked_in:
                self._take_row(row, following, now_ms)
        if head.throttle_ms:
            _log.debug("the leader %d throttles for %d ms", self.leader.broker_id, head.throttle_ms)

    def _take_row(self, row: AnswerRow, following: Fetching, now_ms: int) -> None:
        if row.code:
            self._failed(row, following, ErrorCode(row.code))
            return
        if row.diverging is not None:
            self._cut(row.key, following, cut_for(following.partition.log, row.diverging))
            return
        partition = following.partition
        log = partition.log
        start_offset = log.start_offset
        fetched = FromLeader(row.high_watermark, row.start_offset, row.records)
        try:
            size = take(partition, fetched, now_ms)
        except StartsEarlier as early:
            kept = fetched._replace(records=bytes(row.records))
            self._cut(row.key, following, early.base_offset, fully=True, then=kept)
            return
        except Exception as error:  # also by a mistake of ours: all others of this leader are to go on
            self._could_not_take(row.key, following, error)
            return
        is_first = following.lag is None
        following.lag = max(row.high_watermark - log.end_offset, 0)
        if size:
            self.bytes_fetched += size
            self._quota.count(partition, size)
        if size or is_first or log.start_offset != start_offset:
            following.asked_in = _NOT_ASKED
            self._news[row.key] = None

    def _could_not_take(self, key: Key, following: Fetching, error: Exception) -> None:
        partition = following.partition
        if isinstance(error, CorruptFetch):
            _log.error("%s of leader %d: %s", partition.key, self.leader.broker_id, error)
            self._rest(key, following)
        elif isinstance(error, OSError) and is_shortage(error):  # which passes, and has been told of
            self._rest(key, following)
        else:
            unexpected = None if isinstance(error, (UnexpectedOffset, OSError)) else error
            _log.error("%s does not follow any more: %r", partition.key, error, exc_info=unexpected)
            self._give_up(key, following)

    def _failed(self, row: AnswerRow, following: Fetching, code: ErrorCode) -> None:
        partition = following.partition
        if code is ErrorCode.offset_out_of_range:
            self._hold(row.key, following)
            following.condition = Condition.CUTTING
            self._tasks.start(self._find_place(row.key, following), f"find a place for {partition.key}")
        elif code is ErrorCode.offset_moved_to_tiered_storage and self.tier is not None:
            self._hold(row.key, following)
            following.condition = Condition.CUTTING
            self._tasks.start(self._begin_after_tier(row.key, following, self.tier), f"begin {partition.key}")
        elif code is ErrorCode.fenced_leader_epoch:
            _log.info("%s: the leader is ahead of epoch %d, waiting for the metadata", partition.key, following.epoch)
            self._give_up(row.key, following)
        else:
            _log.debug("%s: leader %d answered %s", partition.key, self.leader.broker_id, code.name)
            self._rest(row.key, following)

    def _rest(self, key: Key, following: Fetching) -> None:
        if self.partitions.get(key) is not following:
            return
        self._hold(key, following)
        following.condition = Condition.RESTING
        self._env.loop.call_later(self._settings().backoff_s, self._rested, key, following)

    def _rested(self, key: Key, following: Fetching) -> None:
        if self.partitions.get(key) is following and not self._is_stopped:
            following.condition = Condition.FETCHING
            self._has_news(key)

    def _wait_for_sync(self, key: Key, following: Fetching) -> None:
        self._hold(key, following)
        following.condition = Condition.SYNCING
        partition = following.partition
        partition.appended.when(partition.log.end_offset, lambda: self._rested(key, following))

    def _give_up(self, key: Key, following: Fetching) -> None:
        if self.partitions.get(key) is following:
            self._hold(key, following)
            following.condition = Condition.FAILED

    # -- cutting

    def _cut(
        self, key: Key, following: Fetching, offset: int, *, fully: bool = False, then: FromLeader | None = None
    ) -> None:
        self._hold(key, following)
        following.condition = Condition.CUTTING
        self._tasks.start(self._cut_and_go_on(key, following, offset, fully, then), f"cut {following.partition.key}")

    async def _cut_and_go_on(
        self, key: Key, following: Fetching, offset: int, fully: bool, then: FromLeader | None = None
    ) -> None:
        partition = following.partition
        if not await self._is_cut(key, following, offset, fully=fully):
            return
        if then is not None and partition.leader_epoch == following.epoch:
            try:
                take(partition, then, self._env.clock.now_ms())
            except Exception as error:
                self._could_not_take(key, following, error)
                return
        self._rested(key, following)

    async def _is_cut(
        self, key: Key, following: Fetching, offset: int, *, fully: bool, before: Before | None = None
    ) -> bool:
        partition = following.partition
        log = partition.log
        if await partition.cut(offset, following.epoch, fully=fully, before=before):
            return True
        if partition.log is not log:  # it went on in another log dir meanwhile, and has still to be cut there
            self._rest(key, following)
        else:
            self._give_up(key, following)
        return False

    async def _find_place(self, key: Key, following: Fetching) -> None:
        """Our log ends outside of the leader's. What both can have is found out from its first and last offsets."""
        partition, epoch = following.partition, following.epoch
        try:
            last = await self.leader.list_offset(partition, epoch, earliest=False)
            ends_at = partition.log.end_offset
            if last < ends_at:
                _log.warning("%s ends at %d, its leader at %d: cut", partition.key, ends_at, last)
                await self._cut_and_go_on(key, following, last, fully=False)
                return
            first = await self.leader.list_offset(partition, epoch, earliest=True)
        except (OttlaError, KafkaError) as error:
            _log.info("%s: where leader %d begins is not known: %s", partition.key, self.leader.broker_id, error)
            self._rest(key, following)
            return
        if first > partition.log.end_offset:
            if self.tier is not None and self._wants_after_tier(partition):
                await self._begin_after_tier(key, following, self.tier)
                return
            _log.warning("%s ends at %d, its leader begins at %d: started anew", partition.key, ends_at, first)
            await self._cut_and_go_on(key, following, first, fully=True)
        else:
            self._rested(key, following)

    async def _begin_after_tier(self, key: Key, following: Fetching, tier: Tier) -> None:
        """What we lack is no longer on the leader's disk: we begin where that does, and take from the remote tier only
        what a log must know of its past (KIP-405)."""
        partition, epoch = following.partition, following.epoch
        try:
            first = await self.leader.list_offset(partition, epoch, earliest=True)
            local = await self._beginning(partition, epoch, first)
            before: Before | None = None
            if local.start_offset > first:
                wanted = local.epoch
                if local.epoch > 0:
                    end = await self.leader.end_of_epoch(partition, epoch, local.epoch - 1)
                    wanted = end.epoch if end.end_offset >= local.start_offset else local.epoch
                before = await tier.before(partition, wanted, local.start_offset - 1, first)
        except (OttlaError, KafkaError) as error:
            _log.info("%s cannot begin after what is in the remote tier yet: %s", partition.key, error)
            self._rest(key, following)
            return
        _log.info("%s begins at %d; from %d on it is in the remote tier", partition.key, local.start_offset, first)
        if await self._is_cut(key, following, local.start_offset, fully=True, before=before):
            self._rested(key, following)

    def _wants_after_tier(self, partition: Partition) -> bool:
        log = partition.log
        return self._settings().after_tier and log.config.remote_storage_enable and log.end_offset == 0

    async def _beginning(self, partition: Partition, epoch: int, first: int) -> EpochStart:
        """Where a log begins that leaves to the remote tier all that is there (KIP-1023), or what is only there."""
        if self._wants_after_tier(partition):
            pending = await self.leader.pending_upload(partition, epoch)
            if pending is not None:
                return pending
        local = await self.leader.earliest_local(partition, epoch)
        if self._wants_after_tier(partition) and local.start_offset != first:
            raise KafkaError(ErrorCode.offset_not_available)  # a new leader has still to read how far the tier goes
        return local
