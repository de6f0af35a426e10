"""The controller over a log: order, parked replies, restarts, failing disks."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.metadata import given
from tests.metadata.running import Running
from tests.waiting import PATIENCE_S

from ottla.env.clock import SystemClock
from ottla.env.executor import PoolExecutor
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.metadata import local_controller
from ottla.metadata.batches import batch_records, metadata_batch
from ottla.metadata.controller.controller import handle as decide
from ottla.metadata.controller.requests import (
    AllocateProducerIds,
    CreateTopics,
    DeleteTopics,
    FenceBroker,
    NewTopic,
    TopicRef,
    UnfenceBroker,
)
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records.abort_transaction_record import AbortTransactionRecord
from ottla.metadata.records.begin_transaction_record import BeginTransactionRecord
from ottla.metadata.records.feature_level_record import FeatureLevelRecord
from ottla.metadata.records.no_op_record import NoOpRecord
from ottla.model.errors import ErrorCode, KafkaError
from ottla.raft.memory_log import MemoryRaftLog
from ottla.record.batch import parse_header
from ottla.sim.disk import SimDisk

LEVELS = {
    "metadata.version": 30, "group.version": 1, "eligible.leader.replicas.version": 1, "transaction.version": 2,
}  # fmt: skip
FOLDER = "/data/__cluster_metadata-0"


@dataclass
class Node:
    """One controller over a log that outlives it."""

    log: MemoryRaftLog = field(default_factory=MemoryRaftLog)
    disk: SimDisk = field(default_factory=lambda: SimDisk(Random(1)))
    published: list[tuple[MetadataDelta, MetadataImage]] = field(default_factory=list)

    async def start(self, seed: int = 1) -> Running:
        self.disk.make_dirs(FOLDER)
        env = Env(SystemClock(), self.disk, TcpNetwork(), PoolExecutor(), SeededRandom(Random(seed)))
        controller = await Running.start(env, FOLDER, self.log, seed)
        await controller.subscribe(lambda delta, image: self.published.append((delta, image)))
        return controller

    async def start_with_broker(self, seed: int = 1) -> Running:
        controller = await self.start(seed)
        epoch = await controller.submit(given.registration(1, incarnation=seed))
        await controller.submit(UnfenceBroker(1, epoch))
        return controller

    def records(self) -> list[str]:
        batches = [batch for batch in self.log.batches if not parse_header(batch).is_control]
        return [type(record).__name__ for batch in batches for record in batch_records(batch)]


def run(story: Callable[[], Awaitable[None]]) -> None:
    async def to_run() -> None:
        await story()

    asyncio.run(to_run())


def test_an_empty_log_is_bootstrapped_in_a_transaction_as_kafka_does() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start()

        assert node.records() == [
            "BeginTransactionRecord", *["FeatureLevelRecord"] * 4, "ConfigRecord", "EndTransactionRecord"
        ]  # fmt: skip
        assert [parse_header(batch).base_offset for batch in node.log.batches] == [0, 1]
        assert controller.image.features == LEVELS
        assert (controller.image.offset, controller.image.epoch) == (7, 1)
        assert len(node.published) == 1

    run(story)


def test_a_restart_does_not_bootstrap_again() -> None:
    async def story() -> None:
        node = Node()
        first = await node.start_with_broker()
        await first.submit(CreateTopics((NewTopic("t", 2, 1),)))
        await first.stop()
        node.published.clear()

        second = await node.start(seed=2)

        assert node.records().count("FeatureLevelRecord") == 4
        assert second.image.topics == first.image.topics
        assert (second.image.epoch, second.image.offset) == (2, node.log.end_offset - 1)
        ((delta, image),) = node.published
        assert list(delta.created_topics.values()) == ["t"]
        assert image is second.image

    run(story)


def test_the_records_of_a_request_are_one_batch() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        batches = len(node.log.batches)

        await controller.submit(CreateTopics((NewTopic("a", 3, 1), NewTopic("b", 2, 1))))

        assert len(node.log.batches) == batches + 1
        assert parse_header(node.log.batches[-1]).record_count == 7

    run(story)


def test_a_reply_waits_for_the_commit_and_publishers_hear_first() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        events: list[str] = []
        await controller.subscribe(lambda delta, _: events.append(f"published {list(delta.created_topics.values())}"))
        events.clear()

        asked = asyncio.ensure_future(controller.submit(CreateTopics((NewTopic("t", 1, 1),))))
        asked.add_done_callback(lambda _: events.append("replied"))
        await asyncio.sleep(0)
        appended_not_committed = controller.image.topic("t")
        await asked
        await asyncio.sleep(0)

        assert appended_not_committed is None
        assert events == ["published ['t']", "replied"]
        assert controller.image.topic("t") is not None

    run(story)


def test_a_request_sees_what_was_appended_before_it_was_committed() -> None:
    async def story() -> None:
        controller = await Node().start_with_broker()
        create = CreateTopics((NewTopic("t", 1, 1),))

        first, second = await asyncio.gather(controller.submit(create), controller.submit(create))

        assert first[0].error.code is ErrorCode.none
        assert second[0].error.code is ErrorCode.topic_already_exists

    run(story)


def test_a_reply_without_records_does_not_overtake_what_it_is_based_on() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        order: list[str] = []
        create = CreateTopics((NewTopic("t", 1, 1),))

        first = asyncio.ensure_future(controller.submit(create))
        first.add_done_callback(lambda _: order.append("created"))
        second = asyncio.ensure_future(controller.submit(create))  # says "already exists": true only once committed
        second.add_done_callback(lambda _: order.append("already there"))
        await asyncio.gather(first, second)
        await asyncio.sleep(0)

        assert order == ["created", "already there"]

    run(story)


def test_a_reply_without_records_comes_when_what_is_being_published_is() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()

        async def slowly(delta: MetadataDelta, image: MetadataImage) -> None:
            await asyncio.sleep(0.1)

        await controller.subscribe(slowly)
        create = CreateTopics((NewTopic("t", 1, 1),))
        first = asyncio.ensure_future(controller.submit(create))
        await asyncio.sleep(0.05)  # it is committed, and not everybody has heard of it
        await asyncio.wait_for(controller.submit(create), PATIENCE_S)
        assert first.done()

    run(story)


def test_deltas_come_in_order_each_on_top_of_the_one_before() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        requests = [controller.submit(CreateTopics((NewTopic(f"t{number}", 1, 1),))) for number in range(5)]
        await asyncio.gather(*requests)
        await controller.submit(DeleteTopics((TopicRef("t3"),)))

        images = [image for _, image in node.published]
        assert [delta.base for delta, _ in node.published[1:]] == images[:-1]
        assert [image.offset for image in images] == sorted(image.offset for image in images)
        assert list(images[-1].topic_ids) == ["t0", "t1", "t2", "t4"]

    run(story)


class SlowLog(MemoryRaftLog):
    """Flushes what is there when it begins, and ends when it may."""

    def __init__(self) -> None:
        super().__init__()
        self.began = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def flush(self) -> int:
        end = self.end_offset
        self.began.set()
        await self.may_end.wait()
        self.flushed_offset = end
        return end


def test_what_a_flush_did_not_cover_is_not_published_with_it() -> None:
    async def story() -> None:
        log = SlowLog()
        node = Node(log)
        controller = await node.start_with_broker()
        seen: list[tuple[list[str], int]] = []
        await controller.subscribe(lambda _, image: seen.append((list(image.topic_ids), log.flushed_offset)))
        seen.clear()
        log.began.clear()
        log.may_end.clear()

        first = asyncio.ensure_future(controller.submit(CreateTopics((NewTopic("a", 1, 1),))))
        await log.began.wait()
        second = asyncio.ensure_future(controller.submit(CreateTopics((NewTopic("b", 1, 1),))))
        await asyncio.sleep(0)
        end = log.end_offset
        log.may_end.set()
        await asyncio.gather(first, second)

        assert [topics for topics, _ in seen] == [["a"], ["a", "b"]]
        assert all(flushed >= covered for (_, flushed), covered in zip(seen, (end - 2, end), strict=True))

    run(story)


def test_broker_epochs_are_offsets_of_this_log() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start()
        expected = node.log.end_offset

        epoch = await controller.submit(given.registration(1))

        assert epoch == expected == controller.image.brokers[1].epoch

    run(story)


def test_after_an_append_that_fails_the_image_is_as_it_was_and_the_controller_resigns() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        create = CreateTopics((NewTopic("t", 1, 1),))
        before = controller.image

        node.log.append_error = OSError(28, "No space left on device")
        with pytest.raises(KafkaError, match="No space left") as error:
            await controller.submit(create)
        node.log.append_error = None

        assert error.value.code is ErrorCode.kafka_storage_error
        assert controller.image is before
        with pytest.raises(KafkaError, match="not the active controller"):
            await controller.submit(create)

    run(story)


def test_a_flush_that_fails_refuses_everything_from_then_on() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        committed = controller.image
        node.log.flush_error = OSError(5, "Input/output error")

        requests = [controller.submit(CreateTopics((NewTopic(name, 1, 1),))) for name in ("a", "b", "a")]
        outcomes = await asyncio.gather(*requests, return_exceptions=True)

        assert [getattr(outcome, "code", None) for outcome in outcomes] == [ErrorCode.not_controller] * 3
        assert controller.image is committed
        with pytest.raises(KafkaError, match="not the active controller"):
            await controller.submit(CreateTopics((NewTopic("c", 1, 1),)))

    run(story)


def test_a_decision_during_which_the_leadership_ends_comes_to_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long one takes breaths: then all may happen."""

    async def story() -> None:
        log = SlowLog()
        node = Node(log)
        controller = await node.start_with_broker()
        await controller.submit(CreateTopics((NewTopic("t", 1, 1),)))
        log.may_end.clear()
        not_committed = asyncio.ensure_future(controller.submit(CreateTopics((NewTopic("u", 1, 1),))))
        await asyncio.sleep(0)
        decisions: list[object] = []

        def decide_slowly(*of: Any) -> Any:
            decisions.append(decide(*of))
            if controller.controller.is_active:
                log.append_error = OSError(28, "No space left on device")
                with suppress(OSError):
                    controller.raft.append(metadata_batch([NoOpRecord()], 30, 0))
            return decisions[-1]

        monkeypatch.setattr(local_controller, "handle", decide_slowly)
        with pytest.raises(KafkaError) as error:
            await asyncio.wait_for(controller.submit(CreateTopics((NewTopic("t", 1, 1),))), PATIENCE_S)

        assert error.value.code is ErrorCode.not_controller
        assert len(decisions) == 1
        with pytest.raises(KafkaError):
            await not_committed

    run(story)


def test_what_was_acknowledged_survives_a_loss_of_power() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        await controller.submit(CreateTopics((NewTopic("kept", 1, 1),)))
        block = await controller.submit(AllocateProducerIds(1, controller.image.brokers[1].epoch))

        node.log.lose_power()
        again = await node.start_with_broker(seed=2)
        next_block = await again.submit(AllocateProducerIds(1, again.image.brokers[1].epoch))

        assert again.image.topic("kept") is not None
        assert next_block.first == block.first + block.size

    run(story)


def test_a_restart_of_the_node_bumps_the_leader_epochs_of_what_it_leads_by_two() -> None:
    async def story() -> None:
        node = Node()
        first = await node.start_with_broker(seed=1)
        await first.submit(CreateTopics((NewTopic("t", 1, 1),)))

        second = await node.start_with_broker(seed=2)

        topic = second.image.topic("t")
        assert topic is not None
        assert (topic.partitions[0].leader, topic.partitions[0].leader_epoch) == (1, 2)

    run(story)


def test_a_transaction_that_a_dead_leader_left_open_is_aborted() -> None:
    async def story() -> None:
        node = Node()
        half = [BeginTransactionRecord(name="Bootstrap records"), FeatureLevelRecord(name="x.version", feature_level=1)]
        node.log.append(metadata_batch(half, 30, 0), 1)

        controller = await node.start()

        assert node.records()[2:4] == [AbortTransactionRecord.__name__, BeginTransactionRecord.__name__]
        assert controller.image.features == LEVELS

    run(story)


def test_a_request_that_is_refused_as_a_whole_raises() -> None:
    async def story() -> None:
        controller = await Node().start_with_broker()

        with pytest.raises(KafkaError, match="No broker registration") as error:
            await controller.submit(AllocateProducerIds(9, 1))

        assert error.value.code is ErrorCode.stale_broker_epoch

    run(story)


def test_a_publisher_that_fails_keeps_nobody_from_the_news() -> None:
    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        heard: list[int] = []

        def failing(delta: MetadataDelta, image: MetadataImage) -> None:
            raise RuntimeError("a bug")

        await controller.subscribe(failing)
        await controller.subscribe(lambda _, image: heard.append(image.offset))
        await controller.submit(CreateTopics((NewTopic("t", 1, 1),)))

        assert heard[-1] == controller.image.offset == node.log.end_offset - 1

    run(story)


def test_who_subscribes_late_is_told_all_there_is() -> None:
    async def story() -> None:
        controller = await Node().start_with_broker()
        await controller.submit(CreateTopics((NewTopic("t", 2, 1),)))
        heard: list[tuple[MetadataDelta, MetadataImage]] = []

        await controller.subscribe(lambda delta, image: heard.append((delta, image)))

        ((delta, image),) = heard
        assert list(delta.created_topics.values()) == ["t"]
        assert len(delta.changed_partitions) == 2
        assert image is controller.image

    run(story)


def test_a_broker_that_is_in_very_many_isrs_is_fenced_in_several_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_controller, "MAX_RECORDS", 4)

    async def story() -> None:
        node = Node()
        controller = await node.start_with_broker()
        await controller.submit(CreateTopics((NewTopic("t", 10, 1),)))
        batches, epoch = len(node.log.batches), controller.image.brokers[1].epoch

        await controller.submit(FenceBroker(1, epoch))

        assert len(node.log.batches) == batches + 3
        topic = controller.image.topic("t")
        assert topic is not None
        assert {partition.leader for partition in topic.partitions.values()} == {-1}
        assert controller.image.brokers[1].fenced

    run(story)
