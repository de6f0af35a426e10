"""A broker's conversation with a controller that is played by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from random import Random
from typing import Any, cast
from uuid import UUID

import pytest

from ottla.broker.lifecycle import Lifecycle, LifecycleSettings, StartGivenUp, lifecycle_settings, previous_epoch
from ottla.broker.node_state import NodeState
from ottla.env.ports import Env
from ottla.env.randomness import SeededRandom
from ottla.metadata.controller.requests import BrokerHeartbeat, HeartbeatReply, RegisterBroker
from ottla.model.config import broker_config, standalone
from ottla.model.errors import ErrorCode, KafkaError, OttlaError
from ottla.sim.loop import SimLoop

DIR, OTHER = UUID(int=1), UUID(int=2)
REGISTRATION = RegisterBroker(1, "cluster", UUID(int=9), (), (), (DIR, OTHER))
SETTINGS = LifecycleSettings(2000, 9000, 60_000, 30_000)

NOT_CAUGHT_UP = HeartbeatReply(is_caught_up=False, is_fenced=True, should_shut_down=False)
FENCED = HeartbeatReply(is_caught_up=True, is_fenced=True, should_shut_down=False)
LET_IN = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=False)
GO = HeartbeatReply(is_caught_up=True, is_fenced=False, should_shut_down=True)


def as_asked(heartbeat: BrokerHeartbeat) -> HeartbeatReply:
    return HeartbeatReply(True, heartbeat.want_fence, heartbeat.want_shut_down)


class Controller:
    """Answers with the next in `answers`, and when there is none left with `otherwise`."""

    def __init__(self, *answers: Any, otherwise: Callable[[BrokerHeartbeat], HeartbeatReply] = as_asked) -> None:
        self.answers = list(answers)
        self.otherwise = otherwise
        self.heard: list[tuple[float, Any]] = []
        self.epoch = 7

    async def submit(self, request: Any) -> Any:
        self.heard.append((asyncio.get_running_loop().time(), request))
        await asyncio.sleep(0.001)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, ErrorCode):
            raise KafkaError(answer, "so it is")
        if isinstance(request, RegisterBroker):
            return self.epoch
        return answer or self.otherwise(request)

    @property
    def heartbeats(self) -> list[BrokerHeartbeat]:
        return [request for _, request in self.heard if isinstance(request, BrokerHeartbeat)]

    @property
    def times(self) -> list[float]:
        return [when for when, _ in self.heard]


def tell(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """On virtual time: a minute takes no time."""
    loop = SimLoop()
    try:
        loop.run_until_complete(asyncio.wait_for(story(), 3600))
    finally:
        loop.close()


def lifecycle(controller: Controller, settings: LifecycleSettings = SETTINGS) -> Lifecycle:
    nothing = cast(Any, None)
    env = Env(nothing, nothing, nothing, nothing, SeededRandom(Random(1)))
    port: Any = controller
    return Lifecycle(env, port, settings, REGISTRATION, lambda: 100)


def configured(**values: int) -> LifecycleSettings:
    return lifecycle_settings(broker_config(standalone("nowhere", 0) | {name: str(v) for name, v in values.items()}))


async def running(controller: Controller, settings: LifecycleSettings = SETTINGS) -> Lifecycle:
    life = lifecycle(controller, settings)
    await life.register()
    await life.caught_up()
    await life.unfenced()
    return life


def test_a_start_waits_for_no_period() -> None:
    async def story() -> None:
        began = asyncio.get_running_loop().time()
        controller = Controller()
        life = lifecycle(controller)
        seen: list[NodeState] = []
        life.on_state = seen.append
        assert await life.register() == 7 == life.broker_epoch
        await life.caught_up()
        assert life.state is NodeState.RECOVERY
        await life.unfenced()
        assert asyncio.get_running_loop().time() - began < 0.05
        assert seen == [NodeState.RECOVERY, NodeState.RUNNING]
        assert [each.want_fence for each in controller.heartbeats] == [True, False]
        assert {each.metadata_offset for each in controller.heartbeats} == {100}
        await life.stop()

    tell(story)


@pytest.mark.parametrize("interval", [500, 2000])
def test_heartbeats_come_in_their_interval(interval: int) -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller, configured(**{"broker.heartbeat.interval.ms": interval}))
        before = len(controller.heard)
        await asyncio.sleep(20.5)
        pauses = [later - earlier for earlier, later in pairwise(controller.times[before:])]
        assert len(pauses) >= 8 and all(abs(pause - interval / 1000) < 0.05 for pause in pauses)
        await life.stop()

    tell(story)


@pytest.mark.parametrize(
    ("session", "warnings"),
    [
        (1500, ["this broker is fenced between two heartbeats"]),
        (2000, ["this broker is fenced between two heartbeats"]),
        (3999, ["one late heartbeat fences"]),
        (4000, []),
    ],
)
def test_sessions_that_are_too_short_for_the_heartbeats_are_warned_of(
    session: int, warnings: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        life = await running(Controller(), configured(**{"broker.session.timeout.ms": session}))
        await life.stop()

    tell(story)
    told = [record.message for record in caplog.records if "broker.session.timeout.ms" in record.message]
    assert len(told) == len(warnings) and all(words in each for words, each in zip(warnings, told, strict=True))


def test_a_broker_behind_asks_often_whether_it_has_caught_up() -> None:
    async def story() -> None:
        controller = Controller(None, NOT_CAUGHT_UP, NOT_CAUGHT_UP, NOT_CAUGHT_UP)
        life = lifecycle(controller)
        began = asyncio.get_running_loop().time()
        await life.register()
        await life.caught_up()
        assert len(controller.heartbeats) == 4 and asyncio.get_running_loop().time() - began < 0.2
        await life.stop()

    tell(story)


def test_a_duplicate_registration_is_tried_until_the_old_session_is_over() -> None:
    async def story() -> None:
        controller = Controller(*[ErrorCode.duplicate_broker_registration] * 6)
        life = lifecycle(controller)
        assert await life.register() == 7
        rests = [round(later - earlier, 1) for earlier, later in pairwise(controller.times[:7])]
        assert rests == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
        await life.stop()

    tell(story)


def test_a_registration_that_nobody_takes_is_given_up_with_the_reason() -> None:
    async def story() -> None:
        life = lifecycle(Controller(*[ErrorCode.duplicate_broker_registration] * 100))
        with pytest.raises(
            OttlaError, match=r"could not register within 60 s .*DUPLICATE_BROKER_REGISTRATION, another .*node\.id"
        ):
            await life.register()
        await life.stop()

    tell(story)


def test_a_registration_can_be_given_up_while_it_is_tried() -> None:
    async def story() -> None:
        life = lifecycle(Controller(*[ErrorCode.duplicate_broker_registration] * 100))
        asyncio.get_running_loop().call_later(1.5, life.give_up)
        with pytest.raises(StartGivenUp):
            await life.register()
        assert asyncio.get_running_loop().time() < 2
        await life.stop()

    tell(story)


@pytest.mark.parametrize(
    "code", [ErrorCode.inconsistent_cluster_id, ErrorCode.invalid_registration, ErrorCode.unsupported_version]
)
def test_a_registration_that_cannot_succeed_is_refused_at_once(code: ErrorCode) -> None:
    async def story() -> None:
        life = lifecycle(Controller(code))
        with pytest.raises(OttlaError, match=f"cannot join its cluster: {code.name.upper()}, so it is"):
            await life.register()
        await life.stop()

    tell(story)


@pytest.mark.parametrize("code", [ErrorCode.stale_broker_epoch, ErrorCode.request_timed_out])
def test_a_broker_that_is_not_taken_goes_on_trying_with_longer_rests(code: ErrorCode) -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller)
        controller.answers = [code] * 10
        before = len(controller.heard)
        await asyncio.sleep(60)
        times = controller.times[before : before + 10]
        rests = [later - earlier for earlier, later in pairwise(times)]
        assert rests[0] < 0.2 and 8 < max(rests) < 10
        assert all(isinstance(request, BrokerHeartbeat) for _, request in controller.heard[before:])
        assert life.state is NodeState.RUNNING and not controller.answers
        await life.stop()

    tell(story)


def test_directories_are_told_of_at_once_and_with_every_heartbeat() -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller)
        before = asyncio.get_running_loop().time()
        life.fail_directories((DIR,))
        life.cordon((OTHER,))
        await life.tell()
        assert asyncio.get_running_loop().time() - before < 0.1
        await asyncio.sleep(5)
        for heartbeat in controller.heartbeats[-3:]:
            assert heartbeat.offline_directories == (DIR,) and heartbeat.cordoned_directories == (OTHER,)
        assert controller.heartbeats[0].cordoned_directories is None
        await life.stop()

    tell(story)


@pytest.mark.parametrize("is_told", [True, False])
def test_a_broker_that_cannot_tell_of_a_failed_directory_stops(is_told: bool) -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller, configured(**{"log.dir.failure.timeout.ms": 5000}))
        failed: list[str] = []
        life.on_failed = failed.append
        if not is_told:
            controller.answers = [ErrorCode.request_timed_out] * 100
        life.fail_directories((DIR,))
        await asyncio.sleep(4.9)
        assert not failed
        await asyncio.sleep(0.2)
        assert bool(failed) is not is_told
        assert is_told or "log.dir.failure.timeout.ms" in failed[0]
        await life.stop()

    tell(story)


def test_leaving_waits_until_the_controller_has_moved_all_leaders() -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller)
        controller.answers = [LET_IN, LET_IN, LET_IN, GO]
        began, before = asyncio.get_running_loop().time(), len(controller.heartbeats)
        await life.leave()
        assert [each.want_shut_down for each in controller.heartbeats[before:]] == [True] * 4
        took = asyncio.get_running_loop().time() - began
        assert 0.35 < took < 0.4  # at once, after 50, 100 and 200 ms
        assert life.state is NodeState.SHUTTING_DOWN
        await asyncio.sleep(10)
        assert len(controller.heartbeats) == before + 4
        await life.stop()

    tell(story)


def test_leaving_without_a_controller_ends_too() -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller)
        controller.answers = [ErrorCode.request_timed_out] * 1000
        began = asyncio.get_running_loop().time()
        await life.leave()
        assert asyncio.get_running_loop().time() - began < 2.1
        await life.stop()

    tell(story)


def test_one_that_never_ran_just_goes() -> None:
    async def story() -> None:
        controller = Controller()
        life = lifecycle(controller)
        await life.register()
        await life.leave()
        await life.stop()
        assert not any(each.want_shut_down for each in controller.heartbeats)

    tell(story)


def test_a_registration_can_be_sent_again() -> None:
    async def story() -> None:
        controller = Controller()
        life = await running(controller)
        controller.epoch = 8
        life.resend_registration()
        await asyncio.sleep(1)
        assert life.broker_epoch == 8 and life.state is NodeState.RUNNING
        assert controller.heartbeats[-1].broker_epoch == 8
        await life.stop()

    tell(story)


class Dir:
    def __init__(self, epoch: int | None) -> None:
        self.clean_broker_epoch = epoch


@pytest.mark.parametrize(
    ("epochs", "all_online", "expected"),
    [
        ((5,), True, 5),
        ((5, 5), True, 5),
        ((5, 5), False, -1),
        ((5, 6), True, -1),
        ((5, None), True, -1),
        ((None,), True, -1),
        ((), True, -1),
    ],
)
def test_the_previous_epoch_counts_only_after_a_clean_stop_everywhere(
    epochs: tuple[int | None, ...], all_online: bool, expected: int
) -> None:
    dirs: Any = [Dir(epoch) for epoch in epochs]
    assert previous_epoch(dirs, all_online=all_online) == expected
