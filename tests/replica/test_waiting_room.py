"""Requests that wait, keyed by what they wait for."""

from collections.abc import Hashable

from tests.log.given import Machine

from ottla.env.timers import TimerWheel
from ottla.replica.waiting import WaitingRoom


class Request:
    def __init__(self, room: WaitingRoom, enough: int = 1) -> None:
        self.room = room
        self.enough = enough
        self.touches: list[Hashable] = []
        self.expirations = 0

    def touched(self, key: Hashable) -> None:
        self.touches.append(key)
        if len(self.touches) >= self.enough:
            self.room.leave(self)

    def expired(self) -> None:
        self.expirations += 1


def room_on(machine: Machine) -> WaitingRoom:
    return WaitingRoom(TimerWheel(machine.world.loop))


def test_one_who_is_touched_decides_when_it_has_seen_enough() -> None:
    with Machine() as machine:
        room = room_on(machine)
        request = Request(room, enough=2)
        room.enter(request, ["a", "b"], 1000)
        room.touch("c")
        room.touch("a")
        assert request.touches == ["a"]
        assert len(room) == 1
        room.touch("b")
        assert len(room) == 0
        assert room.watched == {}
        room.touch("a")
        assert request.touches == ["a", "b"]


def test_all_who_watch_a_key_are_touched_in_the_order_in_which_they_came() -> None:
    with Machine() as machine:
        room = room_on(machine)
        order: list[int] = []

        class Numbered(Request):
            def __init__(self, number: int) -> None:
                super().__init__(room)
                self.number = number

            def touched(self, key: Hashable) -> None:
                order.append(self.number)
                super().touched(key)

        for number in range(5):
            room.enter(Numbered(number), ["a"], 1000)
        room.touch("a")
        assert order == list(range(5))


def test_one_whose_time_is_up_leaves_and_is_told() -> None:
    with Machine() as machine:
        room = room_on(machine)
        request = Request(room)
        room.enter(request, ["a"], 500)
        machine.pass_time(0.4)
        assert request.expirations == 0
        machine.pass_time(0.2)
        assert request.expirations == 1
        assert room.watched == {}
        room.touch("a")
        assert request.touches == []


def test_one_who_has_left_does_not_expire() -> None:
    with Machine() as machine:
        room = room_on(machine)
        request = Request(room)
        room.enter(request, ["a"], 500)
        assert room.leave(request)
        assert not room.leave(request)
        machine.pass_time(1)
        assert request.expirations == 0


def test_one_may_enter_again_from_its_own_touch() -> None:
    with Machine() as machine:
        room = room_on(machine)

        class Persistent(Request):
            def touched(self, key: Hashable) -> None:
                super().touched(key)
                if len(self.touches) < 3:
                    self.room.enter(self, ["a"], 500)

        request = Persistent(room)
        room.enter(request, ["a"], 500)
        for _ in range(5):
            room.touch("a")
        assert request.touches == ["a"] * 3
        assert len(room) == 0
