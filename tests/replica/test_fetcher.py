"""A follower's requests: what it says that it has, and when."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from datetime import timedelta
from typing import Any, cast

import pytest
from kio.schema.fetch.v17.response import FetchResponse
from tests.log.given import FOLDER, PARTITION, TOPIC_ID, Machine, batch
from tests.replica.given import NODE
from tests.replica.test_leading import Around

from ottla.env.ports import Buffer
from ottla.log.partition_log import PartitionLog
from ottla.log.truncation import Before, truncate_fully_and_start_at, truncate_to
from ottla.model.errors import ErrorCode
from ottla.replica.fetch_wire import Limits
from ottla.replica.fetcher import Condition, Fetcher, FetchSettings, Leader, Quota
from ottla.replica.partition import Leadership, Partition
from ottla.sim.executor import SimExecutor
from ottla.wire import codec
from ottla.wire.build import build
from ottla.wire.client import ConnectionFailed, PromptAnswer

EPOCH = 5
FOLLOWING = Leadership(2, EPOCH, (1, 2), (1, 2), partition_epoch=10)
SETTINGS = FetchSettings(1 << 20, Limits(500, 1, 10 << 20), 1.0, 30.0)


class NoQuota:
    def holds_back(self, partition: Partition) -> bool:
        return False

    def count(self, partition: Partition, size: int) -> None:
        pass


class LeaderOfTwo:
    """Keeps what it is asked, and answers when the test wants it to."""

    broker_id = 2

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self._unanswered: list[PromptAnswer] = []

    async def connection(self) -> LeaderOfTwo:
        return self

    async def close(self) -> None:
        pass

    def send_now(
        self, key: int, version: int, body: Sequence[Buffer], answered: Callable[[PromptAnswer], None]
    ) -> PromptAnswer:
        self.asked.append(codec.decode_request(key, version, b"".join(body)))
        self._unanswered.append(PromptAnswer(answered))
        return self._unanswered[-1]

    def answer(self, records: bytes, diverging: tuple[int, int] | None = None) -> None:
        row: dict[str, Any] = {
            "partition_index": 0,
            "error_code": ErrorCode.none,
            "high_watermark": 0,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "records": records,
        }
        if diverging is not None:
            row["diverging_epoch"] = {"epoch": diverging[0], "end_offset": diverging[1]}
        self._say(ErrorCode.none, 77, [{"topic_id": TOPIC_ID, "partitions": [row]}])

    def answer_nothing(self) -> None:
        self._say(ErrorCode.none, 77, [])

    def refuse(self, code: ErrorCode) -> None:
        """The whole request."""
        self._say(code, 0, [])

    def _say(self, code: ErrorCode, session_id: int, topics: list[dict[str, Any]]) -> None:
        values = {"throttle_time": timedelta(0), "error_code": code, "session_id": session_id, "responses": topics}
        self._unanswered.pop(0).set_result(memoryview(codec.encode_body(build(FetchResponse, values))))

    def hang_up(self) -> None:
        self._unanswered.pop(0).set_exception(ConnectionFailed("it has gone"))

    def abort(self) -> None:
        pass

    @property
    def session(self) -> tuple[int, int]:
        """Of the last request: its id and epoch."""
        return self.asked[-1].session_id, self.asked[-1].session_epoch

    @property
    def offsets(self) -> list[int]:
        """All that a follower has claimed to have."""
        return [row.fetch_offset for asked in self.asked for topic in asked.topics for row in topic.partitions]


class Cutting(Around):
    """Cuts logs as a node does, but for what is to survive a loss of power; `meanwhile` happens before."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self.meanwhile: Callable[[], None] = lambda: None
        self.start_moved: Callable[[Partition], None] = lambda _: None

    def log_start_moved(self, partition: Partition) -> None:
        self.start_moved(partition)

    async def cut(
        self,
        log: PartitionLog,
        offset: int,
        is_wanted: Callable[[], bool],
        *,
        fully: bool = False,
        before: Before | None = None,
    ) -> bool:
        self.meanwhile()
        if not is_wanted():
            return False
        (truncate_fully_and_start_at if fully else truncate_to)(self._machine.env, log, offset)
        return True


class Stage:
    def __init__(
        self, machine: Machine, *, begins_at: int = 0, quota: Quota | None = None, **overrides: object
    ) -> None:
        self.machine = machine
        self.leader = LeaderOfTwo()
        self.around = Cutting(machine)
        log = machine.open(**overrides)  # type: ignore[arg-type]
        if begins_at:
            truncate_fully_and_start_at(machine.env, log, begins_at)
        self.partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 0, self.around)
        self.partition.lead_or_follow(FOLLOWING)
        self.fetcher = Fetcher(
            machine.env, NODE, cast("Leader", self.leader), lambda: SETTINGS, lambda: 10, quota or NoQuota()
        )
        self.around.start_moved = lambda moved: self.fetcher.start_moved((moved.topic_id, moved.key.partition))
        self.follow()
        machine.pass_time(0.0)
        if quota is None:
            assert self.leader.offsets == [begins_at]

    @property
    def condition(self) -> Condition:
        (following,) = self.fetcher.partitions.values()
        return following.condition

    def take(self, records: bytes, diverging: tuple[int, int] | None = None) -> None:
        """What the leader has sent; nothing else happens yet."""
        self._do(self.leader.answer, records, diverging)

    def hear_nothing(self) -> None:
        """To what was asked while the partition rested."""
        self._do(self.leader.answer_nothing)

    def refused(self, code: ErrorCode) -> None:
        self._do(self.leader.refuse, code)

    def retain_from(self, offset: int) -> None:
        self._do(self.partition.log.advance_start, offset)

    def hung_up_on(self) -> None:
        self._do(self.leader.hang_up)

    def follow(self) -> None:
        self._do(self.fetcher.follow, self.partition)

    def _do(self, function: Callable[..., None], *args: object) -> None:
        async def story() -> None:
            self.machine.call(function, *args)

        self.machine.world.run(story())


@pytest.fixture
def machine() -> Iterator[Machine]:
    with Machine() as machine:
        yield machine


def stored(count: int, base_offset: int = 0) -> bytes:
    """A batch as the leader has it in its log."""
    data = bytearray(batch(count))
    data[0:8] = base_offset.to_bytes(8, "big")
    data[12:16] = EPOCH.to_bytes(4, "big")
    return bytes(data)


def test_what_was_appended_is_told_with_the_next_request(machine: Machine) -> None:
    stage = Stage(machine)
    stage.take(stored(3))
    assert stage.leader.offsets == [0, 3]
    stage.take(stored(2, 3))
    assert stage.leader.offsets == [0, 3, 5]


def test_with_flush_messages_not_before_it_is_synced(machine: Machine) -> None:
    """The leader would count it as on this replica, acknowledge it, and a loss of power could take it everywhere."""
    stage = Stage(machine, flush_messages=1)
    stage.take(stored(3))
    assert (stage.partition.log.end_offset, stage.partition.log.flushed_offset) == (3, 0)
    assert stage.leader.offsets == [0]
    assert stage.condition is Condition.SYNCING
    stage.machine.pass_time()
    assert stage.partition.log.flushed_offset == 3
    assert stage.leader.offsets == [0, 3]
    assert stage.condition.value == "fetching"


def test_while_a_sync_is_short_nothing_else_is_asked(machine: Machine) -> None:
    """It would only be in the way of the request that follows: the leader would have to answer it with nothing."""
    stage = Stage(machine, flush_messages=1)
    slowly(machine, 0.0)
    stage.take(stored(3))
    machine.pass_time()
    assert stage.leader.offsets == [0, 3]
    assert len(stage.leader.asked) == 2


def test_other_partitions_do_not_wait_for_a_long_sync(machine: Machine) -> None:
    stage = Stage(machine, flush_messages=1)
    slowly(machine, 1000.0)
    stage.take(stored(3))
    machine.pass_time(0.1)
    assert stage.condition is Condition.SYNCING
    first, second = stage.leader.asked
    assert (len(first.topics), len(second.topics), len(second.forgotten_topics_data)) == (1, 0, 1)
    machine.pass_time(2000.0)
    assert stage.leader.offsets == [0, 3]


def slowly(machine: Machine, longest_s: float) -> None:
    executor = machine.env.executor
    assert isinstance(executor, SimExecutor)
    executor.longest_s = longest_s


def test_what_the_leader_does_not_have_is_cut_off(machine: Machine) -> None:
    stage = Stage(machine)
    stage.take(stored(2))
    stage.take(stored(3, 2))
    stage.take(b"", diverging=(EPOCH, 2))
    machine.pass_time(0.0)
    assert stage.leader.offsets == [0, 2, 5, 2]


def test_a_log_that_went_on_in_another_log_dir_while_it_was_to_be_cut_is_cut_there(machine: Machine) -> None:
    stage = Stage(machine)
    stage.take(stored(2))
    stage.take(stored(3, 2))
    stage.around.meanwhile = lambda: stage.partition.use_log(copy(stage.partition.log))
    stage.take(b"", diverging=(EPOCH, 2))
    machine.pass_time(0.0)
    assert (stage.condition, stage.partition.log.end_offset) == (Condition.RESTING, 5)
    machine.pass_time(SETTINGS.backoff_s)
    assert stage.leader.offsets == [0, 2, 5, 5]
    stage.around.meanwhile = lambda: None
    stage.hear_nothing()
    stage.take(b"", diverging=(EPOCH, 2))
    machine.pass_time(0.0)
    assert stage.leader.offsets == [0, 2, 5, 5, 2]


def test_a_batch_that_begins_before_the_log_and_is_damaged_is_asked_for_again(machine: Machine) -> None:
    """The leader's log begins in the middle of it, so that ours is to begin with the whole of it."""
    stage = Stage(machine, begins_at=3)
    damaged = bytearray(stored(5, 1))
    damaged[-1] ^= 1
    stage.take(bytes(damaged))
    machine.pass_time(0.0)
    assert (stage.condition, stage.partition.log.end_offset) == (Condition.RESTING, 1)
    machine.pass_time(SETTINGS.backoff_s)
    assert stage.leader.offsets == [3, 1]
    stage.hear_nothing()
    stage.take(stored(5, 1))
    assert stage.leader.offsets == [3, 1, 6]


@pytest.mark.parametrize("code", [ErrorCode.invalid_fetch_session_epoch, ErrorCode.fetch_session_topic_id_error])
def test_a_session_that_is_of_no_use_is_ended_with_the_next_that_begins(machine: Machine, code: ErrorCode) -> None:
    """Else a leader would tell it of every batch for as long as it has room for sessions."""
    stage = Stage(machine)
    assert stage.leader.session == (0, 0)
    stage.take(b"")
    assert stage.leader.session == (77, 1)
    stage.refused(code)
    assert stage.leader.session == (77, 0)
    assert stage.leader.offsets == [0, 0, 0], "and everything is told anew"
    stage.take(b"")
    assert stage.leader.session == (77, 1)


def test_so_is_that_of_a_connection_that_was_lost(machine: Machine) -> None:
    stage = Stage(machine)
    stage.take(b"")
    stage.hung_up_on()
    machine.pass_time(SETTINGS.backoff_s)
    assert stage.leader.session == (77, 0)


def test_one_that_the_leader_does_not_know_is_forgotten(machine: Machine) -> None:
    stage = Stage(machine)
    stage.take(b"")
    stage.refused(ErrorCode.fetch_session_id_not_found)
    assert stage.leader.session == (0, 0)


class Exceeded(NoQuota):
    def holds_back(self, partition: Partition) -> bool:
        return True


def test_what_is_throttled_waits_also_if_it_is_not_known_how_far_behind_it_is(machine: Machine) -> None:
    stage = Stage(machine, quota=Exceeded())
    machine.pass_time(SETTINGS.backoff_s * 3)
    assert stage.leader.asked == []


def test_where_the_log_begins_is_told_also_if_retention_has_moved_it(machine: Machine) -> None:
    """The leader sends consumers here by it, and waits with deletions until it is there."""
    stage = Stage(machine)
    stage.take(stored(3))
    stage.take(b"")
    stage.take(b"")
    before = len(stage.leader.asked)
    stage.retain_from(2)
    machine.pass_time(0.0)
    rows = [row for asked in stage.leader.asked[before:] for topic in asked.topics for row in topic.partitions]
    assert [(row.fetch_offset, row.log_start_offset) for row in rows] == [(3, 2)]


def test_a_partition_that_cannot_be_appended_to_costs_no_other(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(machine)

    def mistaken(*_: object) -> None:
        raise ValueError("nobody has thought of this")

    monkeypatch.setattr(stage.partition.log, "append_as_is", mistaken)
    stage.take(stored(3))
    assert stage.condition is Condition.FAILED
    assert len(stage.leader.asked) == 2
    assert [topic.topic_id for topic in stage.leader.asked[-1].forgotten_topics_data] == [TOPIC_ID]


def test_a_shortage_of_open_files_passes(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(machine)
    append = stage.partition.log.append_as_is
    short = [OSError(errno.EMFILE, "Too many open files")]

    def append_later(*args: Any) -> None:
        if short:
            raise short.pop()
        append(*args)

    monkeypatch.setattr(stage.partition.log, "append_as_is", append_later)
    stage.take(stored(3))
    assert stage.condition is Condition.RESTING
    machine.pass_time(SETTINGS.backoff_s)
    stage.hear_nothing()
    stage.take(stored(3))
    assert stage.partition.log.end_offset == 3


def test_a_log_that_is_deleted_while_it_was_to_be_cut_is_left_alone(machine: Machine) -> None:
    """Another topic's files may be in its folder, under the same names."""
    stage = Stage(machine, begins_at=3)
    before = machine.disk.list_dir(FOLDER)

    def delete() -> None:
        stage.partition.resign()
        stage.partition.log.close()

    stage.around.meanwhile = delete
    stage.take(stored(5, 1))
    machine.pass_time(0.0)
    assert machine.disk.list_dir(FOLDER) == before
