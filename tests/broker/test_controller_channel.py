"""How a broker finds the active controller: here, there, or after a while."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest
from tests.waiting import NEVER_MS, PATIENCE_S
from tests.wire.listening import Listening

from ottla.broker.controller_channel import ChannelSettings, ControllerChannel, channel_settings
from ottla.broker.controller_rpc.registry import BY_REQUEST
from ottla.env.network import TcpNetwork
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.metadata.controller.requests import (
    AllocateProducerIds,
    AlteredPartition,
    AlterPartition,
    AlterPartitionReassignments,
    AssignReplicasToDirs,
    BrokerHeartbeat,
    CreateTopics,
    ElectionType,
    ElectLeaders,
    HeartbeatReply,
    IsrMember,
    NewTopic,
    PartitionAlteration,
    PartitionsOf,
    ProducerIdBlock,
    Reassignment,
    RegisterBroker,
    RegisterController,
    ReplicaDirectory,
    Request,
    TopicCreated,
    UnregisterBroker,
)
from ottla.metadata.controller.result import ApiError
from ottla.metadata.image import Endpoint, VersionRange
from ottla.model.config import broker_config, standalone
from ottla.model.errors import ErrorCode, KafkaError
from ottla.raft.messages import Destination
from ottla.wire.build import build, response_type

HEARTBEAT = BrokerHeartbeat(1, 7, 100)
ALL_WELL = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
OFFERS = {19: (2, 7), 43: (0, 2), 45: (0, 1), 56: (2, 3), 62: (0, 4), 63: (0, 2), 67: (0, 0), 70: (0, 0), 73: (0, 0)}
SETTINGS = ChannelSettings("broker-1", heartbeat_ms=1000, request_ms=2000, connect_ms=1000)
TOPIC, OTHER_TOPIC, DIR = UUID(int=11), UUID(int=12), UUID(int=13)


def env() -> Env:
    nothing = cast(Any, None)
    return Env(nothing, nothing, TcpNetwork(), nothing, SeededRandom(Random(1)))


def tell(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, PATIENCE_S))


def answer(request: Any, **values: Any) -> Any:
    values = {"throttle_time": timedelta(0), "error_code": ErrorCode.none} | values
    return build(response_type(int(request.__api_key__), int(request.__version__)), values)


def alive(request: Any) -> Any:
    return answer(request, is_caught_up=True, is_fenced=False, should_shut_down=False)


def not_active(request: Any) -> Any:
    return answer(
        request, error_code=ErrorCode.not_controller, is_caught_up=False, is_fenced=True, should_shut_down=False
    )


class Here:
    """The controller of this node."""

    def __init__(self, is_active: bool, refusals: int = 0) -> None:
        self.is_active = is_active
        self.refusals = refusals
        self.heard: list[Request[Any]] = []

    async def submit(self, request: Request[Any]) -> Any:
        self.heard.append(request)
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.not_controller, "not any more")
        return "from here"


class Quorum:
    """Who leads, as the channel is told."""

    def __init__(self, here: Here | None = None, settings: ChannelSettings = SETTINGS) -> None:
        self.leader: Destination | None = None
        self.channel = ControllerChannel(env(), settings, lambda: self.leader, here)

    def led_by(self, node: Listening | None) -> None:
        self.leader = Destination(9, "127.0.0.1", node.port) if node is not None else None
        self.channel.leader_changed()


def test_the_own_controller_is_asked_while_it_is_active() -> None:
    async def story() -> None:
        here = Here(is_active=True)
        channel: Any = Quorum(here).channel
        assert await channel.submit(HEARTBEAT) == "from here"
        assert await channel.submit(UnregisterBroker(3)) == "from here"
        assert here.heard == [HEARTBEAT, UnregisterBroker(3)]

    tell(story())


def test_what_the_own_controller_gives_up_goes_to_the_next_one() -> None:
    async def story() -> None:
        here = Here(is_active=True, refusals=1)
        quorum = Quorum(here)
        node = Listening(alive, OFFERS)
        await node.open()
        asked = asyncio.ensure_future(quorum.channel.submit(HEARTBEAT))
        await asyncio.sleep(0)
        here.is_active = False
        quorum.led_by(node)
        assert await asked == ALL_WELL
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_a_request_waits_for_a_leader_and_is_sent_as_soon_as_there_is_one() -> None:
    async def story() -> None:
        quorum = Quorum()
        node = Listening(alive, OFFERS)
        await node.open()
        asked = asyncio.ensure_future(quorum.channel.submit(HEARTBEAT))
        await asyncio.sleep(0.3)
        assert not asked.done()
        quorum.led_by(node)
        assert await asked == ALL_WELL
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_it_is_tried_again_after_not_controller_and_after_a_lost_connection() -> None:
    async def story() -> None:
        tries: list[Any] = []

        def handle(request: Any) -> Any:
            tries.append(request)
            return [not_active(request), None, alive(request)][len(tries) - 1]

        quorum = Quorum()
        node = Listening(handle, OFFERS)
        await node.open()
        quorum.led_by(node)
        assert await quorum.channel.submit(HEARTBEAT) == ALL_WELL
        assert len(tries) == 3
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_a_leader_that_hangs_is_left_when_another_is_known() -> None:
    async def story() -> None:
        quorum = Quorum(settings=ChannelSettings("broker-1", heartbeat_ms=NEVER_MS, request_ms=NEVER_MS))
        hangs = Listening(lambda _: asyncio.get_running_loop().create_future(), OFFERS)
        lives = Listening(alive, OFFERS)
        await hangs.open()
        await lives.open()
        quorum.led_by(hangs)
        asked = asyncio.ensure_future(quorum.channel.submit(HEARTBEAT))
        await asyncio.sleep(0.1)
        quorum.led_by(lives)
        assert await asked == ALL_WELL
        await quorum.channel.stop()
        hangs.shut()
        lives.shut()

    tell(story())


@pytest.mark.parametrize("leader", ["nobody", "refuses", "hangs", "not active"])
def test_when_the_time_is_up_the_request_has_failed(leader: str) -> None:
    async def story() -> None:
        quorum = Quorum(settings=ChannelSettings("broker-1", heartbeat_ms=200))
        handle = not_active if leader == "not active" else lambda _: asyncio.get_running_loop().create_future()
        node = Listening(handle, OFFERS)
        await node.open()
        if leader == "refuses":
            node.shut()
        quorum.led_by(None if leader == "nobody" else node)
        with pytest.raises(KafkaError) as failed:
            await quorum.channel.submit(HEARTBEAT)
        assert failed.value.code is ErrorCode.request_timed_out
        assert "no active controller has answered within 0.2 s" in str(failed.value)
        await quorum.channel.stop()
        node.shut()

    tell(story())


def configured(**values: int) -> ChannelSettings:
    return channel_settings(broker_config(standalone("nowhere", 0) | {name: str(v) for name, v in values.items()}))


def test_a_controller_that_hangs_is_asked_again_after_a_while() -> None:
    async def story() -> None:
        times: list[float] = []

        def handle(request: Any) -> Any:
            times.append(asyncio.get_running_loop().time())
            if len(times) < 3:
                return asyncio.get_running_loop().create_future()
            return answer(request, producer_id_start=5000, producer_id_len=1000)

        quorum = Quorum(settings=configured(**{"controller.socket.timeout.ms": 200}))
        node = Listening(handle, OFFERS)
        await node.open()
        quorum.led_by(node)
        assert await quorum.channel.submit(AllocateProducerIds(1, 7)) == ProducerIdBlock(5000, 1000)
        assert 0.4 < times[2] - times[0] < 2
        await quorum.channel.stop()
        node.shut()

    tell(story())


class Silent:
    """A network in which nobody answers."""

    def __init__(self) -> None:
        self.dialled = 0

    async def connect(self, *_: Any) -> Any:
        self.dialled += 1
        await asyncio.sleep(3600)


def test_a_connection_that_does_not_come_to_be_is_given_up() -> None:
    async def story() -> None:
        nothing, network = cast(Any, None), Silent()
        world: Any = Env(nothing, nothing, cast(Any, network), nothing, SeededRandom(Random(1)))
        settings = configured(**{"socket.connection.setup.timeout.ms": 100, "broker.heartbeat.interval.ms": 1000})
        channel = ControllerChannel(world, settings, lambda: Destination(9, "127.0.0.1", 1))
        with pytest.raises(KafkaError, match=r"no connection to 127.0.0.1:1 within 0.1 s"):
            await channel.submit(HEARTBEAT)
        assert network.dialled > 3
        await channel.stop()

    tell(story())


def test_other_errors_of_the_controller_are_the_askers() -> None:
    async def story() -> None:
        quorum = Quorum()
        node = Listening(
            lambda request: answer(request, error_code=ErrorCode.duplicate_broker_registration, broker_epoch=-1), OFFERS
        )
        await node.open()
        quorum.led_by(node)
        with pytest.raises(KafkaError) as failed:
            await quorum.channel.submit(RegisterBroker(1, "c", UUID(int=1), (), (), ()))
        assert failed.value.code is ErrorCode.duplicate_broker_registration
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_a_controller_that_lacks_an_api_says_so() -> None:
    async def story() -> None:
        quorum = Quorum()
        node = Listening(alive, {63: (0, 0)})
        await node.open()
        quorum.led_by(node)
        assert await quorum.channel.submit(HEARTBEAT) == ALL_WELL
        with pytest.raises(KafkaError) as failed:
            await quorum.channel.submit(AllocateProducerIds(1, 7))
        assert failed.value.code is ErrorCode.unsupported_version
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_heartbeats_do_not_wait_behind_what_takes_long() -> None:
    async def story() -> None:
        quorum = Quorum()
        forever: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        node = Listening(lambda request: alive(request) if request.__api_key__ == 63 else forever, OFFERS)
        await node.open()
        quorum.led_by(node)
        slow = [
            asyncio.ensure_future(quorum.channel.submit(CreateTopics((NewTopic("t"),)))),
            asyncio.ensure_future(quorum.channel.submit(AllocateProducerIds(1, 7))),
        ]
        await asyncio.sleep(0.05)
        assert await quorum.channel.submit(HEARTBEAT) == ALL_WELL
        for task in slow:
            task.cancel()
        await quorum.channel.stop()
        node.shut()

    tell(story())


REGISTRATION = RegisterBroker(
    1,
    "cluster",
    UUID(int=5),
    (Endpoint("PLAINTEXT", "host", 9092, 0),),
    (("metadata.version", VersionRange(7, 30)),),
    (DIR,),
    "rack",
    previous_broker_epoch=41,
)
ALTERATION = AlterPartition(
    1,
    7,
    (
        PartitionAlteration(TOPIC, 0, 3, (IsrMember(1, 7), IsrMember(2, 8)), 4),
        PartitionAlteration(OTHER_TOPIC, 1, 5, (IsrMember(1, 7),), 6),
        PartitionAlteration(TOPIC, 2, 3, (IsrMember(1),), 4, 1),
    ),
)


def altered(topic: UUID, index: int, code: ErrorCode = ErrorCode.none) -> dict[str, Any]:
    row = {"partition_index": index, "error_code": code, "leader_id": 1, "leader_epoch": 3, "isr": (1, 2)}
    return {"topic_id": topic, "partitions": [row | {"leader_recovery_state": 0, "partition_epoch": 5}]}


@pytest.mark.parametrize(
    ("request_", "answered", "reply", "seen"),
    [
        (REGISTRATION, {"broker_epoch": 99}, 99, {"previous_broker_epoch": 41, "rack": "rack", "log_dirs": (DIR,)}),
        (
            BrokerHeartbeat(1, 7, 100, True, True, (DIR,), (TOPIC,)),
            {"is_caught_up": False, "is_fenced": True, "should_shut_down": True},
            HeartbeatReply(False, True, True),
            {"want_fence": True, "want_shut_down": True, "offline_log_dirs": (DIR,), "cordoned_log_dirs": (TOPIC,)},
        ),
        (
            ALTERATION,
            {"topics": [altered(TOPIC, 0), altered(OTHER_TOPIC, 1, ErrorCode.invalid_update_version)]},
            (
                AlteredPartition(TOPIC, 0, ApiError(ErrorCode.none), 1, 3, (1, 2), 0, 5),
                AlteredPartition(OTHER_TOPIC, 1, ApiError(ErrorCode.invalid_update_version), 1, 3, (1, 2), 0, 5),
            ),
            {"broker_epoch": 7},
        ),
        (
            AllocateProducerIds(1, 7),
            {"producer_id_start": 5000, "producer_id_len": 1000},
            ProducerIdBlock(5000, 1000),
            {"broker_id": 1, "broker_epoch": 7},
        ),
        (
            AssignReplicasToDirs(1, 7, (ReplicaDirectory(TOPIC, 0, DIR), ReplicaDirectory(TOPIC, 1, DIR))),
            {
                "directories": [
                    {
                        "id_": DIR,
                        "topics": [
                            {
                                "topic_id": TOPIC,
                                "partitions": [
                                    {"partition_index": 0, "error_code": ErrorCode.none},
                                    {"partition_index": 1, "error_code": ErrorCode.not_leader_or_follower},
                                ],
                            }
                        ],
                    }
                ]
            },
            (
                (ReplicaDirectory(TOPIC, 0, DIR), ApiError(ErrorCode.none)),
                (ReplicaDirectory(TOPIC, 1, DIR), ApiError(ErrorCode.not_leader_or_follower)),
            ),
            {"broker_id": 1},
        ),
        (
            CreateTopics((NewTopic("t", 3, 2, (), (("cleanup.policy", "compact"),)),)),
            {
                "topics": [
                    {
                        "name": "t",
                        "topic_id": TOPIC,
                        "error_code": ErrorCode.none,
                        "error_message": None,
                        "num_partitions": 3,
                        "replication_factor": 2,
                        "configs": [],
                    }
                ]
            },
            (TopicCreated("t", ApiError(ErrorCode.none), TOPIC, 3, 2),),
            {"validate_only": False},
        ),
        (
            ElectLeaders(ElectionType.PREFERRED, (PartitionsOf("t", (1, 2)),)),
            {
                "replica_election_results": [
                    {
                        "topic": "t",
                        "partition_result": [
                            {"partition_id": 1, "error_code": ErrorCode.none, "error_message": None},
                            {"partition_id": 2, "error_code": ErrorCode.election_not_needed, "error_message": "no"},
                        ],
                    }
                ]
            },
            (("t", ((1, ApiError(ErrorCode.none)), (2, ApiError(ErrorCode.election_not_needed, "no")))),),
            {"election_type": 0},
        ),
        (
            AlterPartitionReassignments((("t", (Reassignment(1, (3, 2)), Reassignment(2, None))),)),
            {
                "error_message": None,
                "responses": [
                    {
                        "name": "t",
                        "partitions": [
                            {"partition_index": 1, "error_code": ErrorCode.none, "error_message": None},
                            {"partition_index": 2, "error_code": ErrorCode.none, "error_message": None},
                        ],
                    }
                ],
            },
            (("t", ((1, ApiError(ErrorCode.none)), (2, ApiError(ErrorCode.none)))),),
            {},
        ),
        (
            RegisterController(2, UUID(int=5), (Endpoint("CONTROLLER", "host", 9093, 0),), ()),
            {"error_message": None},
            None,
            {"controller_id": 2},
        ),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else "",
)
def test_requests_as_kafka_has_them(
    request_: Request[Any], answered: dict[str, Any], reply: Any, seen: dict[str, Any]
) -> None:
    async def story() -> None:
        heard: list[Any] = []

        def handle(request: Any) -> Any:
            heard.append(request)
            return answer(request, **answered)

        quorum = Quorum()
        node = Listening(handle, OFFERS)
        await node.open()
        quorum.led_by(node)
        assert await quorum.channel.submit(request_) == reply
        assert int(heard[0].__api_key__) == BY_REQUEST[type(request_)].key
        assert {name: getattr(heard[0], name) for name in seen} == seen
        await quorum.channel.stop()
        node.shut()

    tell(story())


def test_partitions_are_told_topic_by_topic() -> None:
    asked = BY_REQUEST[AlterPartition].ask(ALTERATION)
    rows = [(topic["topic_id"], [row["partition_index"] for row in topic["partitions"]]) for topic in asked["topics"]]
    assert rows == [(TOPIC, [0, 2]), (OTHER_TOPIC, [1])]
