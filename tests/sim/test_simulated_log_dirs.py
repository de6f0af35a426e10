"""A node with two disks, one of which fails: what lies on the other goes on, and nothing that was promised is lost."""

from __future__ import annotations

import asyncio
import errno
from contextlib import suppress
from typing import Any

import pytest
from tests.sim.stage import Stage, tell

from ottla.model.errors import ErrorCode
from ottla.sim.faults import Moment, Operation
from ottla.sim.workload.client import METADATA, METADATA_VERSION, KnownTopic, NoAnswer

ALTER_REPLICA_LOG_DIRS = 34
TWO_DISKS = {"log_dirs": "/data,/more"}
PARTITIONS = 4
FAILURES: list[tuple[int, tuple[Operation, ...], dict[str, str]]] = [
    (errno.ENOSPC, ("write",), {}),
    (errno.EIO, ("sync",), {"flush.messages": "1"}),
    (errno.EIO, ("create",), {"internal.segment.bytes": "100"}),
    (errno.EROFS, ("write", "create", "truncate", "rename", "remove", "make_dir", "sync", "sync_dir"), {}),
]


def on_disk(stage: Stage, folder: str) -> list[int]:
    """The partitions that lie in a log dir."""
    assert stage.node.node is not None
    (log_dir,) = (log_dir for log_dir in stage.node.node.logs.dirs if log_dir.path == folder)
    return sorted(partition.partition for partition in log_dir.logs)


async def described(stage: Stage, topic: KnownTopic) -> dict[int, Any]:
    request = {
        "topics": [{"name": topic.name, "topic_id": None}],
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    answer, _ = await stage.client.ask(METADATA, METADATA_VERSION, request)
    return {partition.partition_index: partition for partition in answer.topics[0].partitions}


async def send_to(stage: Stage, topic: KnownTopic, *partitions: int) -> list[ErrorCode | None]:
    return [await stage.send(stage.batch(topic, partition=number)) for number in partitions]


async def until_leaderless(stage: Stage, topic: KnownTopic, number: int) -> None:
    while (await described(stage, topic))[number].leader_id >= 0:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(("error", "operations", "configs"), FAILURES)
def test_a_disk_that_fails_takes_its_partitions_along_and_no_others(
    seed: int, error: int, operations: tuple[Operation, ...], configs: dict[str, str]
) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic(configs, partitions=PARTITIONS)
        sound, lost = on_disk(stage, "/data"), on_disk(stage, "/more")
        assert (len(sound), len(lost)) == (2, 2)
        assert await send_to(stage, topic, *range(PARTITIONS)) == [ErrorCode.none] * PARTITIONS
        # when one partition of the second disk finds out
        stage.node.disk.fail("/more/*", error, operations)
        stage.node.disk.fail("/more", error, operations)
        assert await send_to(stage, topic, lost[0]) == [ErrorCode.kafka_storage_error]
        # then all that lie there are offline, and the metadata says so
        assert await send_to(stage, topic, *lost) == [ErrorCode.kafka_storage_error] * 2
        await until_leaderless(stage, topic, lost[1])
        partitions = await described(stage, topic)
        assert stage.node.node is not None
        for number in lost:
            told = partitions[number]
            assert (told.error_code, told.leader_id) == (ErrorCode.leader_not_available, -1)
            assert list(told.offline_replicas) == list(told.replica_nodes)
            assert list(told.isr_nodes) == []  # eligible to lead again when the disk is back (KIP-966)
        for number in sound:
            told = partitions[number]
            assert (told.error_code, list(told.offline_replicas)) == (ErrorCode.none, [])
            assert told.leader_id in told.replica_nodes
        assert await send_to(stage, topic, *sound) == [ErrorCode.none] * 2
        # new partitions go to what is left
        other = await stage.topic({}, "other", 2)
        assert await send_to(stage, other, 0, 1) == [ErrorCode.none] * 2
        # and after the repair everything is back
        stage.node.disk.heal()
        await stage.restart()
        for number in range(PARTITIONS):
            await stage.send_until_acknowledged(stage.batch(topic, partition=number))
        assert all(told.leader_id >= 0 for told in (await described(stage, topic)).values())

    assert tell(story, seed, **TWO_DISKS) == []


@pytest.mark.parametrize("broken", ["/more/meta.properties", "/more/topic-*/*.log", "/more/topic-*/partition.metadata"])
def test_a_disk_that_is_broken_at_the_start_keeps_nobody_from_starting(broken: str) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({}, partitions=PARTITIONS)
        sound, lost = on_disk(stage, "/data"), on_disk(stage, "/more")
        for number in range(PARTITIONS):
            await stage.send_until_acknowledged(stage.batch(topic, partition=number))
        stage.node.kill()
        stage.node.disk.fail(broken, errno.EIO, ("read",))
        await stage.node.serving()

        assert await send_to(stage, topic, *sound) == [ErrorCode.none] * 2
        assert await send_to(stage, topic, *lost) == [ErrorCode.kafka_storage_error] * 2
        partitions = await described(stage, topic)
        assert [number for number, told in partitions.items() if told.leader_id < 0] == lost
        assert [number for number, told in partitions.items() if told.offline_replicas] == lost
        # and what is made anew does not take their place
        other = await stage.topic({}, "other", 3)
        assert await send_to(stage, other, 0, 1, 2) == [ErrorCode.none] * 3
        assert [path for path in stage.node.disk.list_dir("/more") if path.startswith("other")] == []

        stage.node.disk.heal()
        await stage.restart()
        for number in range(PARTITIONS):
            await stage.send_until_acknowledged(stage.batch(topic, partition=number))

    assert tell(story, 0, **TWO_DISKS) == []


def test_without_any_disk_or_without_that_of_the_metadata_a_node_ends() -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({}, partitions=PARTITIONS)
        for folder in ("/data", "/more", "/more"):
            life = stage.node.life
            (number, *_) = on_disk(stage, folder)
            stage.node.disk.fail(f"{folder}/*", errno.ENOSPC, ("write",))
            try:
                assert await stage.send(stage.batch(topic, partition=number)) is not ErrorCode.none
            except NoAnswer:
                pass
            if folder == "/more":
                assert stage.node.life == life
                await stage.restart()
            else:
                while stage.node.life == life or stage.node.node is None:
                    await asyncio.sleep(0.01)

    assert tell(story, 0, **TWO_DISKS) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_topic_that_was_deleted_while_its_disk_was_away_does_not_come_back(seed: int) -> None:
    async def story(stage: Stage) -> None:
        old = await stage.topic({}, "again", partitions=PARTITIONS)
        lost = on_disk(stage, "/more")
        for number in range(PARTITIONS):
            await stage.send_until_acknowledged(stage.batch(old, partition=number))
        stage.node.disk.fail("/more/*", errno.EIO, ("write",))
        assert await send_to(stage, old, lost[0]) == [ErrorCode.kafka_storage_error]
        assert await stage.keeper.delete(old)
        new = await stage.topic({}, "again", partitions=PARTITIONS)
        assert await send_to(stage, new, *range(PARTITIONS)) == [ErrorCode.none] * PARTITIONS
        stage.node.disk.heal()
        await stage.restart()
        assert on_disk(stage, "/more") == []
        assert sum(name.endswith("-stray") for name in stage.node.disk.list_dir("/more")) == len(lost)
        for number in range(PARTITIONS):
            await stage.send_until_acknowledged(stage.batch(new, partition=number))

    assert tell(story, seed, **TWO_DISKS) == []


@pytest.mark.parametrize("flush_messages", ["1", "1000000"])
@pytest.mark.parametrize("seed", range(25))
def test_a_move_that_is_cut_off_anywhere_loses_nothing(seed: int, flush_messages: str) -> None:
    async def story(stage: Stage) -> None:
        random = stage.world.random("moves")
        configs = {"internal.segment.bytes": "2000", "flush.messages": flush_messages}
        topic = await stage.topic(configs)
        for _ in range(20):
            await stage.send_until_acknowledged(stage.batch(topic))
        for _ in range(4):
            (target,) = (folder for folder in ("/data", "/more") if not on_disk(stage, folder))
            dirs = [{"path": target, "topics": [{"name": topic.name, "partitions": [0]}]}]
            answer, life = await stage.client.ask(ALTER_REPLICA_LOG_DIRS, 2, {"dirs": dirs})
            assert answer.results[0].partitions[0].error_code is ErrorCode.none
            stage.node.die_at(random.randint(1, 60), random.choice(list(Moment)), power_loss=random.random() < 0.5)
            for _ in range(100):
                if stage.node.life != life:
                    break
                with suppress(NoAnswer):
                    await stage.send(stage.batch(topic))
            await stage.node.serving()
            for _ in range(20):  # it goes on by itself, unless the power took all traces of it
                await stage.send_until_acknowledged(stage.batch(topic))
        await stage.send_until_acknowledged(stage.batch(topic))

    assert tell(story, seed, **TWO_DISKS) == []
