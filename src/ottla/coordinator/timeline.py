"""Tables that remember what they were: what is not committed yet can be undone, and need not be shown.

A coordinator changes its state as soon as it has decided, before the records are appended, so that the next decision
builds on it. Each change is kept with the offset of its record until that is committed. Until then readers who must
see only what is committed ask for the value from before, and if the append fails all changes from an offset on are
taken back. Values are never changed in place: a new one takes the place of the old.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar, cast

K = TypeVar("K")
V = TypeVar("V")
_NOTHING: Final = object()


class Timeline:
    """The order of all changes in all tables of one coordinator."""

    def __init__(self) -> None:
        self.offset = 0
        """Of the record that is being applied: what changes now, changes with it."""
        self.is_kept = True
        """Not while a log is replayed: what it holds is committed, and nothing will be undone."""
        self._changes: deque[tuple[int, TimelineDict[Any, Any], Sequence[Any]]] = deque()

    def note(self, table: TimelineDict[Any, Any], keys: Sequence[Any]) -> None:
        self._changes.append((self.offset, table, keys))

    def commit(self, end: int) -> None:
        """All below an offset is so for good."""
        changes = self._changes
        while changes and changes[0][0] < end:
            _, table, keys = changes.popleft()
            table.forget_oldest(keys)

    def undo(self, begin: int) -> None:
        """Nothing from an offset on has happened."""
        changes = self._changes
        while changes and changes[-1][0] >= begin:
            _, table, keys = changes.pop()
            for key in reversed(keys):
                table.take_back_newest(key)


class TimelineDict(Generic[K, V]):
    """A dict whose plain methods show everything, and whose `committed_` ones what is committed."""

    __slots__ = ("_before", "_now", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._now: dict[K, V] = {}
        self._before: dict[K, list[object]] = {}  # what was there before each change that is not committed

    def __len__(self) -> int:
        return len(self._now)

    def __contains__(self, key: K) -> bool:
        return key in self._now

    def __iter__(self) -> Iterator[K]:
        return iter(self._now)

    def __getitem__(self, key: K) -> V:
        return self._now[key]

    def get(self, key: K) -> V | None:
        return self._now.get(key)

    def items(self) -> Iterator[tuple[K, V]]:
        return iter(self._now.items())

    def __setitem__(self, key: K, value: V) -> None:
        self._keep(key)
        self._now[key] = value

    def put_all(self, keys: Sequence[K], values: Sequence[V]) -> None:
        """Of one record, or of several that are committed together."""
        now = self._now
        if self._timeline.is_kept:
            before = self._before
            for key in keys:
                was = now.get(key, _NOTHING)
                if key in before:
                    before[key].append(was)
                else:
                    before[key] = [was]
            self._timeline.note(self, keys)
        now.update(zip(keys, values, strict=True))

    def pop(self, key: K) -> V | None:
        if key not in self._now:
            return None
        self._keep(key)
        return self._now.pop(key)

    def committed_get(self, key: K) -> V | None:
        before = self._before.get(key)
        if before is None:
            return self._now.get(key)
        return None if before[0] is _NOTHING else cast(V, before[0])

    def committed_items(self) -> Iterator[tuple[K, V]]:
        for key, value in self._now.items():
            if key not in self._before:
                yield key, value
        for key, before in self._before.items():
            if before[0] is not _NOTHING:
                yield key, cast(V, before[0])

    @property
    def is_settled(self) -> bool:
        """Whether all that is so now is so for good."""
        return not self._before

    # -- for the timeline

    def _keep(self, key: K) -> None:
        if not self._timeline.is_kept:
            return
        was, before = self._now.get(key, _NOTHING), self._before.get(key)
        if before is None:
            self._before[key] = [was]
        else:
            before.append(was)
        self._timeline.note(self, (key,))

    def forget_oldest(self, keys: Sequence[K]) -> None:
        for key in keys:
            before = self._before[key]
            if len(before) == 1:
                del self._before[key]
            else:
                del before[0]

    def take_back_newest(self, key: K) -> None:
        before = self._before[key]
        value = before.pop()
        if value is _NOTHING:
            self._now.pop(key, None)
        else:
            self._now[key] = cast(V, value)
        if not before:
            del self._before[key]


class WatchedDict(TimelineDict[K, V]):
    """Tells what each change replaces by what, also when it is taken back: so that sums over it stay right."""

    __slots__ = ("_changed",)

    def __init__(self, timeline: Timeline, changed: Callable[[V | None, V | None], None]) -> None:
        super().__init__(timeline)
        self._changed = changed

    def __setitem__(self, key: K, value: V) -> None:
        before = self._now.get(key)
        super().__setitem__(key, value)
        self._changed(before, value)

    def pop(self, key: K) -> V | None:
        before = super().pop(key)
        if before is not None:
            self._changed(before, None)
        return before

    def take_back_newest(self, key: K) -> None:
        before = self._now.get(key)
        super().take_back_newest(key)
        self._changed(before, self._now.get(key))


class TimelineValue(Generic[V]):
    """A single value that remembers what it was."""

    __slots__ = ("_otherwise", "_table")

    def __init__(self, timeline: Timeline, otherwise: V) -> None:
        self._table: TimelineDict[None, V] = TimelineDict(timeline)
        self._otherwise = otherwise

    @property
    def now(self) -> V:
        value = self._table.get(None)
        return self._otherwise if value is None else value

    @property
    def committed(self) -> V:
        value = self._table.committed_get(None)
        return self._otherwise if value is None else value

    def set(self, value: V) -> None:
        self._table[None] = value

    @property
    def is_settled(self) -> bool:
        return self._table.is_settled
