"""Tables that remember: against a list of plain dicts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.coordinator.timeline import Timeline, TimelineDict

KEYS = st.sampled_from("abc")


class TimelineAgainstCopies(RuleBasedStateMachine):
    """`history[n]` is what the table was after the record at offset n - 1."""

    def __init__(self) -> None:
        super().__init__()
        self.timeline = Timeline()
        self.table: TimelineDict[str, int] = TimelineDict(self.timeline)
        self.history: list[dict[str, int]] = [{}]
        self.committed = 0

    @rule(changes=st.lists(st.tuples(KEYS, st.none() | st.integers(0, 9)), max_size=3))
    def write(self, changes: list[tuple[str, int | None]]) -> None:
        self.timeline.offset = len(self.history) - 1
        now = dict(self.history[-1])
        for key, value in changes:
            if value is None:
                assert self.table.pop(key) == now.pop(key, None)
            else:
                self.table[key] = now[key] = value
        self.history.append(now)

    @rule(share=st.floats(0, 1))
    def commit(self, share: float) -> None:
        self.committed += round(share * (len(self.history) - 1 - self.committed))
        self.timeline.commit(self.committed)

    @rule(share=st.floats(0, 1))
    def undo(self, share: float) -> None:
        kept = self.committed + round(share * (len(self.history) - 1 - self.committed))
        self.timeline.undo(kept)
        del self.history[kept + 1 :]

    @invariant()
    def it_is_what_it_should_be(self) -> None:
        assert dict(self.table.items()) == self.history[-1]
        assert dict(self.table.committed_items()) == self.history[self.committed]
        for key in "abc":
            assert self.table.get(key) == self.history[-1].get(key)
            assert self.table.committed_get(key) == self.history[self.committed].get(key)
            assert (key in self.table) == (key in self.history[-1])


TestTimeline = TimelineAgainstCopies.TestCase
TestTimeline.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
