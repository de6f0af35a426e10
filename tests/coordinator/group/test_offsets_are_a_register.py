"""Whatever happens to appends and coordinators, a committed offset is the last one that was committed, or none."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.coordinator.group.consumer.given import Coordinator

from ottla.coordinator.group.offsets import Commit, Member, Offsets, Wanted
from ottla.coordinator.machine import Outcome, StoredRecord
from ottla.coordinator.timeline import Timeline

GROUPS = st.sampled_from(["a", "b"])
PLACES = st.tuples(st.sampled_from(["orders", "payments"]), st.integers(0, 1))
Model = dict[tuple[str, str, int], int]


class Register(RuleBasedStateMachine):
    """`history[n]` is what a register would hold after the first n records."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[StoredRecord] = []
        self.history: list[Model] = [{}]
        self.committed = 0
        self.ends = [0]
        self._load()

    def _load(self) -> None:
        owners = Coordinator()
        self.timeline: Timeline = owners.timeline
        self.offsets = Offsets(self.timeline, owners.owners, lambda: 1000, lambda: 4096)
        for at, record in enumerate(self.log):
            self.timeline.offset = at
            self.offsets.replay(record, -1)
        self.timeline.commit(len(self.log))

    def _apply(self, outcome: Outcome[Any], states: list[Model]) -> None:
        assert len(outcome.records) == len(states)
        self.timeline.offset = len(self.log)
        if outcome.take_over is not None:
            outcome.take_over()
        for record, state in zip(outcome.records, states, strict=True):
            self.timeline.offset = len(self.log)
            if outcome.take_over is None:
                self.offsets.replay(record, -1)
            self.log.append(record)
            self.history.append(state)
        self.ends = [*(end for end in self.ends if end < len(self.log)), len(self.log)]

    @rule(group=GROUPS, rows=st.lists(st.tuples(PLACES, st.integers(0, 99)), min_size=1, max_size=3))
    def commit(self, group: str, rows: list[tuple[tuple[str, int], int]]) -> None:
        commits = [Commit(topic, partition, offset) for (topic, partition), offset in rows]
        states = []
        state = self.history[-1]
        for (topic, partition), offset in rows:
            state = {**state, (group, topic, partition): offset}
            states.append(state)
        self._apply(self.offsets.commit(Member(group), commits, 9), states)

    @rule(group=GROUPS, place=PLACES)
    def delete(self, group: str, place: tuple[str, int]) -> None:
        topic, partition = place
        there = (group, topic, partition) in self.history[-1]
        left = {key: offset for key, offset in self.history[-1].items() if key != (group, topic, partition)}
        self._apply(self.offsets.delete(group, [Wanted(topic, [partition])]), [left] if there else [])

    @rule(share=st.floats(0, 1))
    def advance(self, share: float) -> None:
        self.committed = self._end_of_a_batch(share)
        self.timeline.commit(self.committed)

    @rule(share=st.floats(0, 1))
    def fail(self, share: float) -> None:
        """An append fails, and all after it."""
        begin = self._end_of_a_batch(share)
        self.timeline.undo(begin)
        del self.log[begin:], self.history[begin + 1 :]
        self.ends = [end for end in self.ends if end <= begin]

    def _end_of_a_batch(self, share: float) -> int:
        """What is decided at once is in one batch, of which all is committed or nothing."""
        ends = [end for end in self.ends if self.committed <= end <= len(self.log)]
        return ends[round(share * (len(ends) - 1))]

    @rule()
    def crash(self) -> None:
        """What was not committed may have reached the log all the same: then it counts."""
        self.committed = len(self.log)
        self._load()

    @invariant()
    def readers_see_what_is_committed(self) -> None:
        assert self._seen(stable=False) == self.history[self.committed]

    @invariant()
    def the_next_decision_builds_on_the_last(self) -> None:
        assert self._seen(stable=True) == self.history[-1]

    def _seen(self, *, stable: bool) -> Model:
        return {
            (group, topic, row.partition): row.offset
            for group in ("a", "b")
            for topic, rows in self.offsets.fetch_all(group, stable=stable).items()
            for row in rows
        }


TestRegister = Register.TestCase
TestRegister.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
