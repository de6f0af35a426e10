"""A follower's requests: what it says that it has, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pytest
from kio.schema.fetch.v17.response import FetchResponse
from tests.log.given import PARTITION, TOPIC_ID, Machine, batch
from tests.replica.given import NODE
from tests.replica.test_leading import Around

from ottla.env.ports import Buffer
from ottla.model.errors import ErrorCode
from ottla.replica.fetch_wire import Limits
from ottla.replica.fetcher import Condition, Fetcher, FetchSettings, Leader
from ottla.replica.partition import Leadership, Partition
from ottla.wire import codec
from ottla.wire.build import build
from ottla.wire.client import PromptAnswer

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

    def answer(self, records: bytes) -> None:
        row = {
            "partition_index": 0,
            "error_code": ErrorCode.none,
            "high_watermark": 0,
            "log_start_offset": 0,
            "aborted_transactions": None,
            "records": records,
        }
        values = {
            "throttle_time": timedelta(0),
            "error_code": ErrorCode.none,
            "session_id": 77,
            "responses": [{"topic_id": TOPIC_ID, "partitions": [row]}],
        }
        self._unanswered.pop(0).set_result(memoryview(codec.encode_body(build(FetchResponse, values))))

    @property
    def offsets(self) -> list[int]:
        """All that a follower has claimed to have."""
        return [row.fetch_offset for asked in self.asked for topic in asked.topics for row in topic.partitions]


class Stage:
    def __init__(self, machine: Machine, **overrides: object) -> None:
        self.machine = machine
        self.leader = LeaderOfTwo()
        log = machine.open(**overrides)  # type: ignore[arg-type]
        self.partition = Partition(machine.env, NODE, PARTITION, TOPIC_ID, log, 0, Around())
        self.partition.lead_or_follow(FOLLOWING)
        self.fetcher = Fetcher(machine.env, NODE, cast("Leader", self.leader), lambda: SETTINGS, lambda: 10, NoQuota())
        self.follow()
        machine.pass_time(0.0)
        assert self.leader.offsets == [0]

    @property
    def condition(self) -> Condition:
        (following,) = self.fetcher.partitions.values()
        return following.condition

    def take(self, records: bytes) -> None:
        """What the leader has sent; nothing else happens yet."""
        self._do(self.leader.answer, records)

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
