"""Simulated members of a group: a partition is a member's own from the answer that gives it until it gives it back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from ottla.model.errors import ErrorCode
from ottla.sim.cluster.groups.consumer_protocol import HEARTBEAT, ConsumerMember
from ottla.sim.cluster.groups.ownership import Ownership
from ottla.sim.log_files import PartitionId
from ottla.sim.workload.client import NoAnswer

TOPIC = UUID(int=7)
KEY = PartitionId(TOPIC, 0)
SESSION_S = 6.0


class Stage:
    """A group of one partition; the coordinator gives it to whom it is told to, and never says from where to read."""

    def __init__(self) -> None:
        self.now = 0.0
        self.complaints: list[str] = []
        self.owner = ""
        self.oracle = self._oracle()
        cast = SimpleNamespace(oracle=self.oracle, client=self._client)
        ownership = Ownership(self.oracle, "group", KEY, SESSION_S)
        self.state: Any = SimpleNamespace(cast=cast, group="group", topics=(), names={KEY: "t"}, ownership=ownership)

    def _oracle(self) -> Any:
        return SimpleNamespace(
            now=lambda: self.now,
            counts=Counter[str](),
            complain=self.complaints.append,
            is_excused=lambda *_: False,
            name=str,
        )

    def _client(self, name: str) -> Any:
        async def pause(*_: float) -> None: ...

        return SimpleNamespace(name=name, oracle=self.oracle, random=random.Random(name), pause=pause)

    def member(self, name: str) -> ConsumerMember:
        member = ConsumerMember(self.state, name)
        coordinator: Any = member.coordinator

        async def ask(key: int, _version: int, _values: object) -> Any:
            if key != HEARTBEAT:
                raise NoAnswer("nobody says from where to read")
            rows = [SimpleNamespace(topic_id=TOPIC, partitions=(0,))] if self.owner == name else []
            return SimpleNamespace(
                error_code=ErrorCode.none, member_epoch=1, assignment=SimpleNamespace(topic_partitions=rows)
            )

        coordinator.ask = ask
        return member

    def go_on(self, member: ConsumerMember) -> None:
        asyncio.run(member._go_on())


def test_who_was_given_up_takes_nothing_anew_when_it_begins_to_read_late() -> None:
    stage = Stage()
    late, next_one = stage.member("late"), stage.member("next")
    stage.owner = "late"
    stage.go_on(late)
    stage.now, stage.owner = SESSION_S + 1, "next"
    stage.go_on(next_one)
    with pytest.raises(NoAnswer):
        stage.go_on(late)
    assert stage.complaints == []


def test_two_who_are_given_the_same_while_both_are_heard_are_complained_of() -> None:
    stage = Stage()
    for name in ("one", "other"):
        stage.owner = name
        stage.go_on(stage.member(name))
    (complaint,) = stage.complaints
    assert "has not given back" in complaint


def test_what_was_given_and_never_read_is_given_back_as_well() -> None:
    stage = Stage()
    one, other = stage.member("one"), stage.member("other")
    stage.owner = "one"
    stage.go_on(one)
    stage.owner = "other"
    with pytest.raises(NoAnswer):
        stage.go_on(one)  # it tries to read, in vain
    one._wanted = set()  # what the next answer would say
    stage.go_on(one)
    stage.go_on(other)
    assert stage.complaints == []
