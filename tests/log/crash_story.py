"""A day in the life of a log dir, to be cut short at any disk operation, and what must be true of what is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from random import Random
from uuid import UUID

from tests.log.given import (
    Machine,
    append,
    batch,
    config,
    everything,
    marker,
    producer_state,
)
from tests.log.history import History, judge

from ottla.log.manager import LogManager
from ottla.log.partition_log import PartitionLog
from ottla.model.config.topic import LogConfig
from ottla.model.names import TopicPartition
from ottla.record.batch import parse_header
from ottla.sim.disk import SimDisk
from ottla.sim.faults import Moment
from ottla.sim.host import HostCrashed
from ottla.sim.incarnation import SimulatedCrash
from ottla.sim.world import START_MS

PLAIN = TopicPartition("plain", 0)
SYNCED = TopicPartition("synced", 0)
SHORT = TopicPartition("short", 1)
GONE = TopicPartition("gone", 0)
SHORT_DAY, LONG_DAY = 7, 14

KNOWN: dict[TopicPartition, tuple[UUID, LogConfig]] = {
    PLAIN: (UUID(int=1), config(segment_bytes=500, index_interval_bytes=120)),
    SYNCED: (UUID(int=2), config(segment_bytes=450, index_interval_bytes=0, flush_messages=1)),
    SHORT: (UUID(int=3), config(segment_bytes=300, retention_bytes=300, file_delete_delay_ms=20, flush_ms=15)),
    GONE: (UUID(int=4), config(segment_bytes=300, file_delete_delay_ms=20)),
}
RECREATED = (UUID(int=5), KNOWN[GONE][1])


Histories = dict[UUID, History]


class Day:
    def __init__(self, machine: Machine, histories: Histories, turns: int) -> None:
        self.machine = machine
        self.turns = turns
        self.histories = histories
        self.random = Random(1)
        self.sequences: dict[tuple[UUID, int], int] = {}

    async def run(self) -> None:
        manager = self.machine.manager(KNOWN, high_watermark_checkpoint_ms=40, checkpoint_ms=50)
        manager.start()
        logs = {partition: self.log(manager, partition, KNOWN[partition]) for partition in KNOWN}
        for turn in range(self.turns):
            for log in logs.values():
                if not log.closed:
                    self.work(log, turn)
            await asyncio.sleep(0.012)
            if turn in (3, 5, 10):
                await manager.enforce_retention()
            if turn == 4:
                self.histories[RECREATED[0]] = History()
                manager.delete(GONE)
                logs[GONE] = self.log(manager, GONE, RECREATED)
            if turn in (2, 8):
                manager.checkpoint()
            if turn in (1, 5, 9):
                await self.cut(manager, logs[PLAIN], batches=3)
                await self.cut(manager, logs[SYNCED], batches=2 + turn)
        await manager.stop(broker_epoch=3)

    def log(self, manager: LogManager, partition: TopicPartition, topic: tuple[UUID, LogConfig]) -> PartitionLog:
        history = self.histories.setdefault(topic[0], History())
        log = manager.get_or_create(partition, *topic)

        def flushed(offset: int) -> None:
            history.flushed = offset
            history.acknowledged = max(history.acknowledged, log.committable_offset)

        def advance_start(offset: int) -> None:
            history.start = max(history.start, offset)
            PartitionLog.advance_start(log, offset)

        log.on_flushed = flushed
        log.advance_start = advance_start  # type: ignore[method-assign]
        return log

    def work(self, log: PartitionLog, turn: int) -> None:
        random = self.random
        for _ in range(random.randint(1, 2)):
            producer = random.choice((-1, -1, 7, 8))
            sequence = self.sequences.get((log.topic_id, producer), 0)
            count = random.randint(1, 3)
            data = batch(
                count,
                timestamp=START_MS + turn * 10 + random.randint(-20, 20),
                size=random.randint(0, 60),
                producer_id=producer,
                sequence=sequence,
                transactional=producer == 8,
            )
            self.sequences[log.topic_id, producer] = sequence + count
            self.put(log, data, epoch=turn // 3)
        if turn % 3 == 2:
            ending = marker(8, commit=turn % 2 == 0, timestamp=START_MS + turn * 10, coordinator=turn)
            self.put(log, ending, epoch=turn // 3)

    async def cut(self, manager: LogManager, log: PartitionLog, batches: int) -> None:
        """As a follower does that has more than its leader. What is cut off counts no more, but may be there still."""
        history = self.histories[log.topic_id]
        offset = parse_header(history.batches[max(len(history.batches) - batches, 0)]).base_offset
        if offset < log.start_offset:
            return

        def go_on() -> bool:
            history.flushed, history.acknowledged = min(history.flushed, offset), min(history.acknowledged, offset)
            return True

        history.flushed = min(history.flushed, offset)
        if await manager.cut(log, offset, go_on):
            history.batches = history.before(offset)

    def put(self, log: PartitionLog, data: bytes, epoch: int) -> None:
        history = self.histories[log.topic_id]
        head = log.end_offset.to_bytes(8, "big") + data[8:12] + epoch.to_bytes(4, "big")
        history.batches.append(head + data[16:])  # before the append: the crash may come in its middle
        append(log, data, epoch=epoch, now_ms=self.machine.env.clock.now_ms())
        history.acknowledged = max(history.acknowledged, log.committable_offset)


def live_until(operation: int, moment: Moment, seed: int, turns: int = SHORT_DAY) -> tuple[SimDisk, Histories, bool]:
    """A day that ends at a disk operation; gives the dead disk, and whether it ended before that, by a clean stop."""
    histories: Histories = {}
    with Machine(seed) as machine:
        disk = machine.disk
        assert machine.env is not None
        if operation:
            machine.host.crash_at(operation, moment)
        day = Day(machine, histories, turns)

        async def story() -> bool:
            try:
                await machine.host.start(lambda env: day.run())
            except HostCrashed:
                return False
            return True

        finished = machine.world.run(story())
    return disk, histories, finished


def operations_of_a_day(turns: int = SHORT_DAY) -> int:
    """How many mutating disk operations there are to crash at."""
    disk, _, finished = live_until(0, Moment.BEFORE, 0, turns)
    assert finished
    return disk.operations


State = dict[TopicPartition, tuple[object, ...]]


def state_of(logs: list[PartitionLog]) -> State:
    """All that can be seen of the logs. Segments wholly before a log's start may be there or not."""
    return {
        log.partition: (
            log.topic_id,
            log.start_offset,
            log.end_offset,
            tuple(segment.base_offset for segment in log.segments[log.segment_for(log.start_offset) :]),
            tuple(log.epochs.starts),
            tuple(sorted(producer_state(log.producers).items())),
            tuple(sorted(log.producers._ongoing.items())),
            tuple(txn for s in log.segments for txn in s.txn_index.aborted if txn.last_offset >= log.start_offset),
        )
        for log in logs
    }


def known_to(histories: Histories) -> dict[TopicPartition, tuple[UUID, LogConfig]]:
    """The metadata was changed before the log dir was."""
    return {**KNOWN, GONE: RECREATED} if RECREATED[0] in histories else KNOWN


def check_what_is_left(disk: SimDisk, histories: Histories, *, power_lost: bool) -> State:
    """Loads, judges, loads again, goes on, stops cleanly, and loads once more."""
    with Machine("after", disk=disk) as machine:
        known = known_to(histories)
        manager = machine.manager(known)
        for log in manager.all_logs():
            judge(log, histories[log.topic_id], power_lost=power_lost)
        missing = {topic_id for topic_id, _ in known.values()} - {log.topic_id for log in manager.all_logs()}
        for topic_id in missing & histories.keys():
            history = histories[topic_id]
            assert history.flushed == 0 if power_lost else not history.acknowledged
        state = state_of(manager.all_logs())

        machine.host.crash()
        manager = machine.manager(known)
        assert state_of(manager.all_logs()) == state

        ends = {}
        for log in manager.all_logs():
            machine.call(append, log, batch(), epoch=9)
            ends[log.partition] = log.end_offset
        machine.pass_time(0.5)
        machine.stop(manager)
        manager = machine.manager(known)
        assert {log.partition: log.end_offset for log in manager.all_logs()} == ends
        for log in manager.all_logs():
            everything(log)
            assert log.epochs.latest == 9
        return state


def outcomes(disk: SimDisk, losses: int, seed: int) -> list[tuple[SimDisk, bool]]:
    """What the next process may find: once after kill -9, and after so many different losses of power."""
    found = [(disk.crash(), False)]
    found += [(disk.power_loss(Random(f"{seed}/{loss}")), True) for loss in range(losses)]
    return found


def recovery_operations(disk: SimDisk, histories: Histories) -> int:
    """How many disk operations a load takes; the disk is left as it was for others who hold it."""
    copy = disk.crash()
    with Machine("counting", disk=copy) as machine:
        machine.manager(known_to(histories))
        return copy.operations


def crash_while_loading(disk: SimDisk, histories: Histories, operation: int, moment: Moment) -> SimDisk:
    with Machine("loading", disk=disk) as machine:
        disk.crash_at(operation, moment)
        with suppress(SimulatedCrash):
            machine.manager(known_to(histories))
    return disk
