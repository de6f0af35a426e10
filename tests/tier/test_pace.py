"""Copies give way to producers, go on slowly meanwhile, and no longer give way when too much waits."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from ottla.broker.tier.pace import FAST_BYTES_PER_S, LATE_S, SLOW_BYTES_PER_S, CopyPace

MIB = 1024 * 1024


class Scene:
    """A partition with closed segments of which none is copied yet, and a clock that goes on while a thread rests."""

    def __init__(self, most_waiting: int = 1 << 40) -> None:
        self.now = 100.0
        self.late = 0.0
        self.appended = 0
        segments = [SimpleNamespace(base_offset=n * 10, size=50 * MIB) for n in range(5)]
        self.partition: Any = SimpleNamespace(
            last_stable_offset=1000,
            log=SimpleNamespace(
                tiered_to=-1, start_offset=0, segments=segments, config=SimpleNamespace(copies_to_tier=True)
            ),
        )
        clock = cast(Any, SimpleNamespace(elapsed=lambda: self.now))
        lag = cast(Any, SimpleNamespace(recent=lambda: self.late))
        self.pace = CopyPace(
            clock, lag, lambda: self.appended, lambda: [self.partition], lambda: most_waiting, self.rest
        )

    def rest(self, seconds: float) -> None:
        self.now += seconds

    def look(self, appended: int) -> bool:
        self.now += 1
        self.appended += appended
        asyncio.run(self.pace.look())
        return self.pace.gives_way

    def copied_for(self, size: int) -> float:
        """The seconds that so much takes, in pieces of a MiB."""
        began = self.now
        for _ in range(size // MIB):
            self.pace.before(MIB)
        return self.now - began


def test_producers_go_first_but_copies_go_on() -> None:
    scene = Scene()
    assert not scene.look(FAST_BYTES_PER_S // 2)
    assert scene.copied_for(100 * MIB) == 0
    assert scene.look(FAST_BYTES_PER_S * 2)
    assert 0.8 * 100 * MIB / SLOW_BYTES_PER_S < scene.copied_for(100 * MIB) < 1.5 * 100 * MIB / SLOW_BYTES_PER_S
    assert not scene.look(0)
    assert scene.copied_for(100 * MIB) == 0


def test_a_loop_that_is_late_is_given_way() -> None:
    scene = Scene()
    scene.late = LATE_S
    assert scene.look(0)


def test_who_rests_goes_on_when_the_producers_have_done() -> None:
    scene = Scene()
    assert scene.look(FAST_BYTES_PER_S * 2)
    scene.copied_for(8 * MIB)
    rests = []

    def rest(seconds: float) -> None:
        rests.append(seconds)
        scene.pace.gives_way = False

    scene.pace._rest = rest
    scene.pace._free_at = scene.now + 1000
    scene.pace.before(MIB)
    assert len(rests) == 1


def test_too_much_that_waits_is_copied_at_once() -> None:
    """4 segments of 50 MiB are closed; ottla.remote.copy.backlog.bytes says how many may wait."""
    assert Scene(201 * MIB).look(FAST_BYTES_PER_S * 2)
    assert not Scene(200 * MIB).look(FAST_BYTES_PER_S * 2)
    assert not Scene(0).look(FAST_BYTES_PER_S * 2)
    scene = Scene(60 * MIB)
    scene.partition.log.tiered_to = 29  # three of them are there
    assert scene.look(FAST_BYTES_PER_S * 2)


def test_nobody_rests_while_the_node_stops() -> None:
    scene = Scene()
    assert scene.look(FAST_BYTES_PER_S * 2)
    scene.pace.end()
    assert scene.copied_for(100 * MIB) == 0
