"""Single stories of a node and a client on virtual time, each about one promise."""

from __future__ import annotations

import asyncio
import errno

import pytest
from tests.sim.stage import Stage, tell

from ottla.model.errors import ErrorCode
from ottla.sim.workload.consumer import Consumer

METADATA_APART = {"metadata_log_dir": "/meta", "log_dirs": "/data,/spare"}  # so that a node outlives its disk


@pytest.mark.parametrize("seed", range(3))
def test_what_was_acknowledged_survives_kill_minus_nine_without_any_sync(seed: int) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "500"})
        for _ in range(5):
            for _ in range(10):
                assert await stage.send(stage.batch(topic)) is ErrorCode.none
            await stage.restart()

    assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(10))
def test_a_retry_after_a_kill_is_not_acknowledged_before_the_record_is_synced(seed: int) -> None:
    """The batch is only in the page cache, and a loss of power would take it: flush.messages=1 promises otherwise."""

    async def story(stage: Stage) -> None:
        topic = await stage.topic({"flush.messages": "1"})
        producer_id = await stage.producer_id()
        first = stage.batch(topic, producer_id, 0)
        await stage.send_until_acknowledged(first)
        # given a batch that is appended and not synced when the process dies
        stage.node.slow_down(1000.0)
        second = stage.batch(topic, producer_id, len(first.values))
        sending = asyncio.ensure_future(stage.send(second))
        await asyncio.sleep(0.5)
        stage.node.kill()
        assert await sending is None
        # when it is sent again, acknowledged, and then the power goes
        await stage.send_until_acknowledged(second)
        stage.node.power_loss()

    assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(5))
def test_a_new_node_survives_the_loss_of_power_folder_and_all(seed: int) -> None:
    async def story(stage: Stage) -> None:
        await stage.topic({})
        stage.node.power_loss()
        await stage.node.serving()
        assert stage.node.node is not None
        assert stage.node.node.image.topic("topic") is not None

    assert tell(story, seed) == []


@pytest.mark.parametrize("file", ["*.log", "*.index", "*.timeindex"])
def test_a_segment_that_could_not_be_begun_does_not_cost_what_comes_after_it(file: str) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "3000"})
        stage.node.disk.fail(file, errno.EIO, ("create",), times=1)
        for _ in range(30):  # some larger, some smaller than what is left in the segment
            await stage.send(stage.batch(topic))
        await stage.restart()
        for _ in range(5):
            await stage.send_until_acknowledged(stage.batch(topic))
        await stage.restart()

    for seed in range(5):
        assert tell(story, seed) == []


@pytest.mark.parametrize("seed", range(3))
def test_records_of_a_deleted_topic_do_not_come_back_in_its_namesake(seed: int) -> None:
    async def story(stage: Stage) -> None:
        old = await stage.topic({}, "again")
        await stage.send_until_acknowledged(stage.batch(old))
        # given a folder that keeps its name although its topic is gone
        stage.node.disk.fail("/data/again-0", errno.EIO, ("rename",), times=1)
        assert await stage.keeper.delete(old)
        assert stage.node.disk.failures["rename"] == 1
        # when a topic of that name is made
        new = await stage.topic({}, "again")
        await stage.send_until_acknowledged(stage.batch(new))
        await stage.restart()

    assert tell(story, seed, **METADATA_APART) == []


@pytest.mark.parametrize("seed", range(10))
def test_what_was_cut_off_after_a_failed_write_stays_cut_off(seed: int) -> None:
    """In a segment that is flushed and closed, and after a clean stop, nobody would look again."""

    async def story(stage: Stage) -> None:
        topic = await stage.topic({"internal.segment.bytes": "3000", "flush.messages": "1"})
        await stage.send_until_acknowledged(stage.batch(topic, size=100))
        await asyncio.sleep(1)  # until the recovery point says that it is flushed
        stage.node.disk.fail("*.log", errno.ENOSPC, ("write",), times=1)
        assert await stage.send(stage.batch(topic, size=100)) is ErrorCode.kafka_storage_error
        large = stage.batch(topic, size=3000)  # which goes into the next segment
        assert await stage.send(large) is ErrorCode.kafka_storage_error
        await stage.restart()
        await stage.send_until_acknowledged(large)
        await stage.stop_and_lose_power()

    assert tell(story, seed, **METADATA_APART) == []


def test_a_long_poll_whose_data_cannot_be_read_is_answered_all_the_same() -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({})
        await stage.send_until_acknowledged(stage.batch(topic))
        consumer = Consumer(
            stage.client, 12, sessions=False, committed=False, max_wait_s=2, max_bytes=1 << 20, min_bytes=1 << 20
        )
        consumer.assign([topic])
        polling = asyncio.ensure_future(consumer.poll())
        await asyncio.sleep(1)
        stage.node.disk.fail("*.log", errno.EIO, ("read",))
        assert await polling is False
        assert stage.history.counts["fetch: kafka_storage_error"] == 1
        stage.node.disk.heal()

    assert tell(story, 0) == []


@pytest.mark.parametrize("seed", range(10))
def test_whose_a_folder_is_stays_known_after_a_kill_a_clean_stop_and_a_loss_of_power(seed: int) -> None:
    async def story(stage: Stage) -> None:
        topic = await stage.topic({})
        await stage.send_until_acknowledged(stage.batch(topic))
        await stage.restart()
        await stage.stop_and_lose_power()

    assert tell(story, seed) == []
