"""Runs the nodes of a cluster: starts them together, shows how they are, stops them in order.

It restarts none by itself. One thread, which waits for signals, for nodes that begin to serve or end, and for who asks
over the socket; so a fork takes nothing along that it should not.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.cli.detach import LOG_NAME
from ottla.cli.supervise import control
from ottla.cli.supervise.child import Child, State
from ottla.cli.supervise.control import Asking
from ottla.cli.supervise.layout import Layout, Place
from ottla.cli.supervise.order import next_to_stop, nodes_without_quorum
from ottla.model.errors import OttlaError

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
_START_WITHIN_S: Final = 60.0
HURRY_AFTER_S: Final = 20.0
"""When all are to stop: what has not by then is killed; its next start recovers its logs."""


class _Wish(NamedTuple):
    """What somebody asked for and waits for."""

    client: Asking
    verb: str
    child: Child


class Supervisor:
    """`show` is called when something has changed and every second: with all nodes, and a line to tell, if any.

    Without a folder nobody can ask, and nodes write their logs where the supervisor does.
    """

    def __init__(
        self,
        folder: Path | None,
        layout: Layout,
        configs: Mapping[int, BrokerConfig],
        show: Callable[[Sequence[Child], str | None], None],
        forget: Callable[[], None],
        prepare: Callable[[BrokerConfig], object],
    ) -> None:
        self.folder = folder
        self.layout = layout
        self._show = show
        self._forget_more = forget
        self._life, self._life_end = os.pipe()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._woken, False)
        os.set_blocking(self._wake, False)
        self._listener: socket.socket | None = None
        self._selector = selectors.DefaultSelector()
        self._asking: set[Asking] = set()
        self._wishes: list[_Wish] = []
        self._stopping_since: float | None = None
        self._is_told = False
        self._begun = time.monotonic()
        self.children = {
            place.id: Child(
                place, configs[place.id], self._log(place), self._forget, partial(prepare, configs[place.id])
            )
            for place in layout.nodes
        }

    def run(self, on_started: Callable[[], None]) -> None:
        """Until all nodes have stopped because they were told to. OttlaError if none could be started."""
        signal.set_wakeup_fd(self._wake)
        for number in _SIGNALS:
            signal.signal(number, lambda *_: None)
        if self.folder is not None:
            self._listener = control.listen(self.folder)
            self._selector.register(self._listener, selectors.EVENT_READ, self._accept)
        self._selector.register(self._woken, selectors.EVENT_READ, self._signalled)
        for child in self.children.values():
            self._start(child)
        try:
            while not self._is_over():
                for key, _ in self._selector.select(self._patience()):
                    if self._selector.get_map().get(key.fd) is key:  # what came before it may have done away with it
                        key.data()
                self._tell_started(on_started)
                self._stop_further()
                self._grant()
                self._show(list(self.children.values()), None)
        finally:
            self._end()

    def _log(self, place: Place) -> Path | None:
        return None if self.folder is None else self.folder / place.folder_name / LOG_NAME

    def _patience(self) -> float:
        return 0.05 if self._stopping_since is not None else 1.0

    def _is_over(self) -> bool:
        return self._stopping_since is not None and not any(child.lives for child in self.children.values())

    # -- nodes

    def _start(self, child: Child) -> None:
        child.start(self._life)
        self._selector.register(child.ready, selectors.EVENT_READ, lambda: self._serves(child))

    def _serves(self, child: Child) -> None:
        self._selector.unregister(child.ready)
        child.serves()
        if child.state is State.UP:
            self._tell(f"Node {child.place.id} is up at {child.address}.")

    def _reap(self) -> None:
        for child in self.children.values():
            if not child.lives:
                continue
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                if child.ready >= 0:
                    self._selector.unregister(child.ready)
                child.ended(os.waitstatus_to_exitcode(status))
                self._tell_ended(child)

    def _tell_ended(self, child: Child) -> None:
        number = child.place.id
        if child.state is State.STOPPED:
            self._tell(f"Node {number} has stopped.")
        else:
            again = "It stays down until all are started anew"
            if child.log is not None:
                again = f"Its log is {child.log}; `ottla node start {number}` starts it again"
            self._tell(f"Node {number} {child.why}. {again}.")
        if self._stopping_since is None and (lost := nodes_without_quorum(self.layout, self.children)):
            self._tell(f"Most voters of the metadata quorum are down ({lost}): nothing can be elected or changed.")

    def _tell(self, line: str) -> None:
        self._show(list(self.children.values()), line)

    def _tell_started(self, on_started: Callable[[], None]) -> None:
        """Once each node serves or has ended. Nodes that wait for a quorum are waited for no longer than a minute."""
        if self._is_told or self._stopping_since is not None:
            return
        states = {child.state for child in self.children.values()}
        late = time.monotonic() - self._begun > _START_WITHIN_S
        if State.STARTING in states and not late:
            return
        if State.UP not in states:
            told = "; ".join(
                f"node {child.place.id} {child.why or 'has not started'}" for child in self.children.values()
            )  # fmt: skip
            raise OttlaError(f"no node could be started: {told}")
        self._is_told = True
        on_started()

    # -- the end

    def _signalled(self) -> None:
        for number in os.read(self._woken, 64):
            if number == signal.SIGCHLD:
                self._reap()
            elif self._stopping_since is None:
                self._stopping_since = time.monotonic()
                self._tell("Stopping all nodes; Ctrl-C again kills them.")
            elif number == signal.SIGINT:
                self._kill_all()

    def _stop_further(self) -> None:
        if self._stopping_since is None:
            return
        self._reap()
        if time.monotonic() - self._stopping_since > HURRY_AFTER_S:
            self._kill_all()
        for child in next_to_stop(list(self.children.values())):
            child.tell(signal.SIGTERM)

    def _kill_all(self) -> None:
        for child in self.children.values():
            child.tell(signal.SIGKILL)

    def _end(self) -> None:
        for child in self.children.values():  # only after an error: otherwise none is left
            child.tell(signal.SIGKILL)
        for child in self.children.values():
            if child.lives:
                os.waitpid(child.pid, 0)
        if self.folder is not None:
            control.remove(self.folder)
        signal.set_wakeup_fd(-1)
        self._close()

    def _forget(self) -> None:
        """In a fork, before it becomes a node: closes all that is the supervisor's alone."""
        self._close()
        self._forget_more()

    def _close(self) -> None:
        self._selector.close()
        if self._listener is not None:
            self._listener.close()
        for asking in (*self._asking, *(wish.client for wish in self._wishes)):
            asking.connection.close()
        for descriptor in (self._life_end, self._woken, self._wake):
            os.close(descriptor)
        for child in self.children.values():
            if child.ready >= 0 and child.lives:
                os.close(child.ready)

    # -- who asks

    def _accept(self) -> None:
        assert self._listener is not None
        asking = Asking(self._listener.accept()[0])
        self._asking.add(asking)
        self._selector.register(asking.connection, selectors.EVENT_READ, lambda: self._asked(asking))

    def _asked(self, asking: Asking) -> None:
        try:
            request = asking.receive()
        except (OSError, ValueError) as error:
            self._leave(asking)
            asking.answer({"error": str(error)})
            return
        if request is None:
            return
        self._leave(asking)
        verb, number = request
        if verb == "list":
            asking.answer(self._answer())
            return
        try:
            child = self.children[self.layout.node(-1 if number is None else number).id]
            self._wishes.append(_Wish(asking, self._begin(verb, child), child))
        except OttlaError as error:
            asking.answer({"error": str(error)})

    def _leave(self, asking: Asking) -> None:
        self._selector.unregister(asking.connection)
        self._asking.discard(asking)

    def _begin(self, verb: str, child: Child) -> str:
        """Gives what is to be waited for: to restart what does not run is to start it."""
        if self._stopping_since is not None:
            raise OttlaError("all nodes are being stopped")
        number = child.place.id
        if verb == "start":
            if child.lives:
                raise OttlaError(f"node {number} is {child.state.value} already (pid {child.pid})")
            self._start(child)
        elif verb in ("stop", "kill"):
            if not child.lives:
                raise OttlaError(f"node {number} does not run; `ottla node start {number}` starts it")
            child.tell(signal.SIGTERM if verb == "stop" else signal.SIGKILL)
        elif child.lives:  # restart
            child.tell(signal.SIGTERM)
        else:
            self._start(child)
            return "start"
        return verb

    def _grant(self) -> None:
        """Answers those whose wish has come true, or cannot."""
        left = []
        for wish in self._wishes:
            child = wish.child
            if wish.verb == "restart" and child.state is State.STOPPED and self._stopping_since is None:
                self._start(child)
                left.append(wish._replace(verb="start"))
            elif wish.verb in ("stop", "kill") and not child.lives:
                wish.client.answer(self._answer())
            elif wish.verb in ("start", "restart") and not child.lives:
                wish.client.answer({"error": f"node {child.place.id} {child.why or 'was stopped'}; see {child.log}"})
            elif wish.verb == "start" and child.state is State.UP:
                wish.client.answer(self._answer())
            else:
                left.append(wish)
        self._wishes = left

    def _answer(self) -> dict[str, Any]:
        return {
            "nodes": [as_row(child) for child in self.children.values()],
            "without_quorum": nodes_without_quorum(self.layout, self.children),
        }


def as_row(child: Child) -> dict[str, Any]:
    """What is told of a node."""
    return {
        "node": child.place.id,
        "roles": list(child.place.roles),
        "state": child.state.value,
        "for_s": round(time.monotonic() - child.since, 1),
        "pid": child.pid if child.lives else None,
        "address": child.address,
        "bytes": child.memory() if child.lives else None,
        "why": child.why or None,
        "folder": str(child.log and child.log.parent),
        "log": str(child.log),
    }
