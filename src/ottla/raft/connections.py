"""Who has been asked something and has not answered yet, and who is left alone for a moment after a failure.

At most one request is under way to a node. A response counts only if it is the one awaited: after a change of role
nothing is, so that answers to what an earlier role asked are not mistaken for answers to this one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.raft.messages import Destination

FAR: Final = 1 << 62
"""A time that never comes."""


@dataclass(slots=True)
class _Connection:
    awaited: int | None
    ends_at: int
    """When the request times out, or the backoff is over."""


class Connections:
    def __init__(
        self,
        bootstrap: Sequence[Destination],
        request_timeout_ms: int,
        retry_backoff_ms: int,
        below: Callable[[int], int],
    ) -> None:
        self.bootstrap = bootstrap
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._below = below
        self._states: dict[int, _Connection] = {}
        self._next_id = 0

    def is_ready(self, node_id: int, now: int) -> bool:
        state = self._states.get(node_id)
        return state is None or now >= state.ends_at

    def is_backing_off(self, node_id: int, now: int) -> bool:
        state = self._states.get(node_id)
        return state is not None and state.awaited is None and now < state.ends_at

    def has_timed_out(self, node_id: int, now: int) -> bool:
        state = self._states.get(node_id)
        return state is not None and state.awaited is not None and now >= state.ends_at

    def ready_at(self, node_id: int, now: int) -> int:
        state = self._states.get(node_id)
        return now if state is None else max(now, state.ends_at)

    def any_under_way(self, now: int) -> int | None:
        """When the first of the requests under way times out; None if there is none."""
        ends = [state.ends_at for state in self._states.values() if state.awaited is not None and now < state.ends_at]
        return min(ends, default=None)

    def any_bootstrap(self, now: int) -> Destination | None:
        if not self.bootstrap:
            return None
        first = self._below(len(self.bootstrap))
        for i in range(len(self.bootstrap)):
            server = self.bootstrap[(first + i) % len(self.bootstrap)]
            if self.is_ready(server.id, now):
                return server
        return None

    def bootstrap_ready_at(self, now: int) -> int:
        return min((self.ready_at(server.id, now) for server in self.bootstrap), default=FAR)

    def sent(self, node_id: int, now: int) -> int:
        """The correlation id for a request that leaves now."""
        self._next_id += 1
        self._states[node_id] = _Connection(self._next_id, now + self._request_timeout_ms)
        return self._next_id

    def expects(self, node_id: int, correlation_id: int) -> bool:
        state = self._states.get(node_id)
        return state is not None and state.awaited == correlation_id

    def answered(self, node_id: int, correlation_id: int, succeeded: bool, now: int) -> None:
        if not self.expects(node_id, correlation_id):
            return
        if succeeded:
            del self._states[node_id]
        else:
            self._states[node_id] = _Connection(None, now + self._retry_backoff_ms)

    def reset(self, node_id: int) -> None:
        self._states.pop(node_id, None)

    def reset_all(self) -> None:
        self._states.clear()
