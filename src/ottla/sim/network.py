"""The network port in one process: hosts by name, connections of sim/transport.py between them, and what may go wrong.

network = SimNetwork(loop, Random(1))
server, client = network.attach("server"), network.attach("client")
await server.listen(Protocol, "", 9092)
await client.connect(Protocol, "server", 9092)
network.partition("client", "server")
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from contextvars import Context
from random import Random

from ottla.env.ports import BY_DEFAULT, Gate, SocketOptions
from ottla.sim.cable import Cable, End
from ottla.sim.incarnation import Incarnation, SimulatedCrash
from ottla.sim.transport import Address, SimTransport, connected
from ottla.sim.weather import Weather

Factory = Callable[[], asyncio.BaseProtocol]

_HERE = frozenset({"", "localhost", "127.0.0.1", "0.0.0.0", "::", "::1"})
_FIRST_FREE_PORT = 40_000


class SimListener:
    def __init__(
        self, network: SimNetwork, incarnation: Incarnation, factory: Factory, host: str, port: int, gate: Gate | None
    ) -> None:
        self._network = network
        self.incarnation = incarnation
        self.factory = factory
        self.host = host
        self.port = port
        self.gate = gate
        self.is_serving = False

    def resume(self) -> None:
        """Those who wait call again by themselves."""

    async def serve(self) -> None:
        self.is_serving = True

    def close(self) -> None:
        if self.incarnation.alive:
            self._network.unlisten(self)


class HostNetwork:
    """The network as one incarnation of a host sees it: the port."""

    def __init__(self, network: SimNetwork, incarnation: Incarnation) -> None:
        self._network = network
        self._incarnation = incarnation

    async def listen(
        self, factory: Factory, host: str, port: int, gate: Gate | None = None, options: SocketOptions = BY_DEFAULT
    ) -> SimListener:
        self._check_alive()
        return self._network.listen(self._incarnation, factory, host, port, gate)

    async def connect(self, factory: Factory, host: str, port: int) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        self._check_alive()
        call = _Call(self._network, self._incarnation, host, port)
        try:
            transport = await call.answered
        except asyncio.CancelledError:
            call.hang_up()
            raise
        try:
            protocol = factory()
            transport.begin(protocol)
        except Exception:
            transport.abort()
            raise
        return transport, protocol

    def _check_alive(self) -> None:
        if not self._incarnation.alive:
            raise SimulatedCrash(f"{self._incarnation} has no network any more")


class SimNetwork:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        random: Random,
        *,
        weather: Weather | None = None,
        observe: Callable[[str, str, str], None] = lambda host, event, details: None,
    ) -> None:
        self.loop = loop
        self.random = random
        self.weather = Weather() if weather is None else weather
        self.observe = observe
        self.context = Context()  # the world's: belongs to no host, so it outlives them all
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._up: dict[str, Incarnation] = {}
        self._listeners: dict[tuple[str, int], SimListener] = {}
        self._transports: list[SimTransport] = []
        self._holding: dict[Cable, None] = {}
        self._blocked: set[tuple[str, str]] = set()
        self._delays: dict[tuple[str, str], float] = {}
        self._cuts: dict[tuple[str, str], int] = {}
        self._next_port: dict[str, int] = {}
        self._connections = 0

    # Hosts

    def attach(self, host: str, incarnation: Incarnation | None = None) -> HostNetwork:
        """Brings a host up, and gives it its network."""
        incarnation = Incarnation(host, 1) if incarnation is None else incarnation
        if host not in self._addresses:
            self._addresses[host] = address = f"10.0.0.{len(self._addresses) + 1}"
            self._names |= {host: host, address: host}
        self._up[host] = incarnation
        self._release()
        return HostNetwork(self, incarnation)

    def detach(self, host: str, *, vanish: bool) -> None:
        """A host's process dies and its kernel closes what it had open; or its power goes, and nobody does."""
        if vanish:
            self._up.pop(host, None)
        for key in [key for key in self._listeners if key[0] == host]:
            del self._listeners[key]
        for transport in self._transports:
            if transport.host == host:
                transport.die(vanish=vanish)

    def address(self, host: str, port: int) -> Address:
        return self._addresses[host], port

    def find(self, host: str, caller: str) -> str:
        if host in _HERE:
            return caller
        if (name := self._names.get(host)) is None:
            raise socket.gaierror(socket.EAI_NONAME, f"no simulated host is called {host!r}")
        return name

    # What goes wrong

    def partition(self, one: str, other: str) -> None:
        self.partition_one_way(one, other)
        self.partition_one_way(other, one)

    def partition_one_way(self, source: str, target: str) -> None:
        """Nothing from source reaches target. Connections stay, and their senders repeat, for a while."""
        self._blocked.add((source, target))
        self.observe("", "net partition", f"{source} to {target}")

    def reconnect(self, one: str, other: str) -> None:
        """Ends a partition between two hosts, in both directions."""
        self._blocked -= {(one, other), (other, one)}
        self.observe("", "net reconnect", f"{one} and {other}")
        self._release()

    def delay(self, source: str, target: str, seconds: float) -> None:
        """All that source sends to target takes that much longer; 0 ends it."""
        self._delays[source, target] = seconds
        self.observe("", "net delay", f"{source} to {target} {seconds:g}")

    def heal(self) -> None:
        self._blocked.clear()
        self._delays.clear()
        self.observe("", "net heal", "")
        self._release()

    def cut_after(self, source: str, target: str, size: int) -> None:
        """Ends the connection that carries the size-th byte from now on, right after that byte."""
        self._cuts[source, target] = size

    def cut(self, one: str, other: str) -> None:
        """Ends all connections between two hosts."""
        for transport in list(self._transports):
            if {transport.host, transport.out.target.host} == {one, other}:
                transport.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))

    def is_reachable(self, source: str, target: str) -> bool:
        return (source, target) not in self._blocked

    def travel_s(self, source: str, target: str) -> float:
        travels = self.random.uniform(self.weather.shortest_s, self.weather.longest_s)
        return travels + self._delays.get((source, target), 0.0) if self._delays else travels

    def is_up(self, host: str) -> bool:
        return host in self._up

    def bytes_until_cut(self, source: str, target: str, size: int) -> int | None:
        if (left := self._cuts.pop((source, target), None)) is not None:
            if left <= size:
                return left
            self._cuts[source, target] = left - size
        elif self.weather.cut and self.random.random() < self.weather.cut:
            return self.random.randint(0, size)
        return None

    def hold(self, cable: Cable) -> None:
        self._holding[cable] = None

    def _release(self) -> None:
        held, self._holding = self._holding, {}
        self._holding |= {cable: None for cable in held if not cable.release()}

    # Connections

    def listen(
        self, incarnation: Incarnation, factory: Factory, host: str, port: int, gate: Gate | None = None
    ) -> SimListener:
        if self.find(host, incarnation.host) != incarnation.host:
            raise OSError(errno.EADDRNOTAVAIL, f"{incarnation.host} cannot listen on the address of {host!r}")
        port = port or self.free_port(incarnation.host)
        if (incarnation.host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = SimListener(self, incarnation, factory, host, port, gate)
        self._listeners[incarnation.host, port] = listener
        return listener

    def unlisten(self, listener: SimListener) -> None:
        key = listener.incarnation.host, listener.port
        if self._listeners.get(key) is listener:
            del self._listeners[key]

    def listener(self, host: str, port: int) -> SimListener | None:
        listener = self._listeners.get((host, port))
        return listener if listener is not None and listener.is_serving else None

    def free_port(self, host: str) -> int:
        port = self._next_port.get(host, _FIRST_FREE_PORT)
        self._next_port[host] = port + 1
        return port

    def establish(self, caller: Incarnation, listener: SimListener, near_port: int) -> SimTransport:
        self._connections += 1
        answerer = listener.incarnation
        local, remote = self.address(caller.host, near_port), self.address(answerer.host, listener.port)
        near, far = connected(self, self._connections, caller, answerer, local, remote)
        self._transports = [each for each in self._transports if each.end is End.OPEN]
        self._transports += (near, far)
        self.observe(answerer.host, "net accept", near.name)
        self.loop.call_soon(lambda: far.begin(listener.factory()), context=far.context)
        return near


class _Call:
    """A connection being made: the call goes out, is repeated while nobody answers, and is answered or refused."""

    def __init__(self, network: SimNetwork, caller: Incarnation, host: str, port: int) -> None:
        self._network = network
        self._caller = caller
        self._target = network.find(host, caller.host)
        self._port = port
        self._near_port = network.free_port(caller.host)
        self._wait_s = 1.0
        self._give_up_at = network.loop.time() + network.weather.patience_s
        self._transport: SimTransport | None = None
        self.answered: asyncio.Future[SimTransport] = network.loop.create_future()
        self._after_a_trip(self._arrive, caller.host, self._target)

    def hang_up(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _after_a_trip(self, step: Callable[[], None], source: str, target: str) -> None:
        travels = self._network.travel_s(source, target)
        self._network.loop.call_later(travels, step, context=self._network.context)

    def _on_the_way_back(self, step: Callable[[], None]) -> None:
        self._after_a_trip(step, self._target, self._caller.host)

    def _arrive(self) -> None:
        network = self._network
        if self.answered.done() or not self._caller.alive:
            return
        if not network.is_reachable(self._caller.host, self._target) or not network.is_up(self._target):
            self._repeat(self._arrive)
        elif (listener := network.listener(self._target, self._port)) is None:
            self._on_the_way_back(self._refused)
        elif listener.gate is not None and listener.gate.wait() > 0:
            self._repeat(self._arrive)
        elif listener.gate is not None and not listener.gate.accepted(network.address(self._caller.host, 0)[0]):
            self._on_the_way_back(self._refused)
        else:
            self._transport = network.establish(self._caller, listener, self._near_port)
            self._on_the_way_back(self._accepted)

    def _accepted(self) -> None:
        if self.answered.done() or self._transport is None or not self._caller.alive:
            return
        if self._network.is_reachable(self._target, self._caller.host):
            self.answered.set_result(self._transport)
        else:
            self._repeat(self._accepted)

    def _refused(self) -> None:
        if self.answered.done():
            return
        if not self._network.is_reachable(self._target, self._caller.host):
            self._repeat(self._arrive)
        else:
            place = f"{self._target}:{self._port}"
            self._network.observe(self._caller.host, "net refused", place)
            error = ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED), place)
            self.answered.set_exception(error)

    def _repeat(self, step: Callable[[], None]) -> None:
        now = self._network.loop.time()
        if now >= self._give_up_at:
            if self._transport is not None:
                self._transport.lose(None)
            place = f"{self._target}:{self._port}"
            self.answered.set_exception(TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), place))
        else:
            again = min(now + self._wait_s, self._give_up_at)
            self._wait_s *= 2
            self._network.loop.call_at(again, step, context=self._network.context)
