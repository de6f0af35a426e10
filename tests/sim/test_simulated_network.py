"""The simulated network: what a protocol sees of it, and what goes wrong on it."""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine, Iterator
from random import Random
from typing import Any

import pytest

from ottla.sim.loop import SimLoop
from ottla.sim.network import HostNetwork, SimNetwork
from ottla.sim.transport import SimTransport
from ottla.sim.weather import Weather


class Recorder(asyncio.Protocol):
    """Keeps what happens to a connection."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.pieces = 0
        self.events: list[str] = []
        self.transport: asyncio.Transport
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, SimTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.received += data
        self.pieces += 1

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)


class BufferedRecorder(Recorder, asyncio.BufferedProtocol):
    """The same through a small buffer of its own."""

    data_received = None  # type: ignore[assignment]

    def __init__(self, size: int = 100) -> None:
        super().__init__()
        self.buffer = bytearray(size)
        self.fills: list[int] = []

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.received += self.buffer[:nbytes]
        self.fills.append(nbytes)


class Bench:
    """Two hosts, a listener on one, and connections as wanted."""

    def __init__(self, seed: int = 1, **weather: Any) -> None:
        self.loop = SimLoop()
        self.network = SimNetwork(self.loop, Random(seed), weather=Weather(**weather))
        self.server: HostNetwork = self.network.attach("server")
        self.client: HostNetwork = self.network.attach("client")
        self.accepted: list[Recorder] = []

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(story)

    async def pair(self, kind: Callable[[], Recorder] = Recorder) -> tuple[Recorder, Recorder]:
        """A new connection: the client's side and the server's."""

        def accept() -> Recorder:
            self.accepted.append(kind())
            return self.accepted[-1]

        if self.network.listener("server", 9092) is None:
            await (await self.server.listen(accept, "", 9092)).serve()
        _, near = await self.client.connect(kind, "server", 9092)
        assert isinstance(near, Recorder)
        return near, self.accepted[-1]


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.loop.close()


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def some_bytes(size: int) -> bytes:
    return Random(size).randbytes(size)


@pytest.mark.parametrize("kind", [Recorder, BufferedRecorder])
@pytest.mark.parametrize("seed", range(5))
def test_bytes_arrive_in_order_in_pieces_of_any_size(kind: type[Recorder], seed: int) -> None:
    bench = Bench(seed)

    async def story() -> None:
        near, far = await bench.pair(kind)
        data = some_bytes(300_000)
        for start in range(0, len(data), 7001):
            near.transport.write(data[start : start + 7001])
        far.transport.writelines([b"one", memoryview(b"two"), bytearray(b"three")])
        await until(lambda: len(far.received) == len(data) and len(near.received) == 11)
        assert far.received == data
        assert near.received == b"onetwothree"
        if isinstance(far, BufferedRecorder):
            assert max(far.fills) == 100
            assert len(set(far.fills)) > 10

    bench.run(story())
    bench.loop.close()


def test_addresses_are_those_of_the_hosts(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        assert near.transport.get_extra_info("peername") == bench.network.address("server", 9092)
        assert far.transport.get_extra_info("sockname") == bench.network.address("server", 9092)
        assert near.transport.get_extra_info("sockname") == far.transport.get_extra_info("peername")
        assert near.transport.get_extra_info("socket") is None

    bench.run(story())


def test_a_listener_gives_its_port_and_a_host_reaches_itself(bench: Bench) -> None:
    async def story() -> None:
        listener = await bench.server.listen(Recorder, "localhost", 0)
        assert listener.port > 0
        with pytest.raises(ConnectionRefusedError):
            await bench.server.connect(Recorder, "127.0.0.1", listener.port)
        await listener.serve()
        _, protocol = await bench.server.connect(Recorder, "127.0.0.1", listener.port)
        assert isinstance(protocol, Recorder)
        with pytest.raises(OSError, match="in use"):
            await bench.server.listen(Recorder, "", listener.port)
        with pytest.raises(OSError, match="cannot listen"):
            await bench.server.listen(Recorder, "client", 1)

    bench.run(story())


def test_nobody_listens_nobody_answers_nobody_is_called_so(bench: Bench) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Recorder, "server", 9092)
        listener = await bench.server.listen(Recorder, "", 9092)
        await listener.serve()
        listener.close()
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Recorder, "server", 9092)
        bench.network.partition("client", "server")
        before = bench.loop.time()
        with pytest.raises(TimeoutError) as caught:
            await bench.client.connect(Recorder, "server", 9092)
        assert caught.value.errno == errno.ETIMEDOUT
        assert bench.loop.time() - before == pytest.approx(bench.network.weather.patience_s)
        with pytest.raises(socket.gaierror, match="'nowhere'"):
            await bench.client.connect(Recorder, "nowhere", 9092)

    bench.run(story())


def test_a_call_given_up_leaves_no_connection(bench: Bench) -> None:
    async def story() -> None:
        await bench.pair()
        bench.network.partition_one_way("server", "client")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await bench.client.connect(Recorder, "server", 9092)
        bench.network.heal()
        await bench.accepted[-1].lost

    bench.run(story())


def test_closing_sends_what_was_written_and_then_the_end(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        data = some_bytes(500_000)
        near.transport.write(data)
        near.transport.close()
        assert near.transport.is_closing()
        near.transport.write(b"too late")
        assert await far.lost is None
        assert await near.lost is None
        assert far.received == data
        assert far.events == ["eof"]

    bench.run(story())


def test_an_abort_loses_what_was_not_sent_and_resets_the_other_side(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        near.transport.write(some_bytes(500_000))
        near.transport.abort()
        assert await near.lost is None
        assert isinstance(await far.lost, ConnectionResetError)
        assert far.received == some_bytes(500_000)[: len(far.received)]
        assert len(far.received) <= bench.network.weather.window

    bench.run(story())


def test_half_of_a_connection_can_be_closed(bench: Bench) -> None:
    class Stays(Recorder):
        def eof_received(self) -> bool | None:
            self.events.append("eof")
            return True

    async def story() -> None:
        near, far = await bench.pair(Stays)
        near.transport.write(b"question")
        near.transport.write_eof()
        with pytest.raises(RuntimeError, match="write_eof"):
            near.transport.write(b"more")
        await until(lambda: far.events == ["eof"])
        far.transport.write(b"answer")
        far.transport.close()
        await until(lambda: near.events == ["eof"])
        assert far.received == b"question"
        assert near.received == b"answer"

    bench.run(story())


def test_writing_to_one_who_has_closed_is_answered_by_a_reset(bench: Bench) -> None:
    class Stays(Recorder):
        def eof_received(self) -> bool | None:
            return True

    async def story() -> None:
        near, far = await bench.pair(Stays)
        far.transport.close()
        await asyncio.sleep(1)
        near.transport.write(b"anyone?")
        assert isinstance(await near.lost, ConnectionResetError)

    bench.run(story())


def test_a_reader_that_pauses_stops_the_writer(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        near.transport.set_write_buffer_limits(high=10_000, low=1000)
        assert near.transport.get_write_buffer_limits() == (1000, 10_000)
        far.transport.pause_reading()
        assert not far.transport.is_reading()
        window = bench.network.weather.window
        data = some_bytes(window + 10_001)
        near.transport.write(data[: window + 10_000])
        assert near.events == []
        near.transport.write(data[window + 10_000 :])
        assert near.events == ["pause"]
        await asyncio.sleep(10)
        assert far.received == b""
        assert near.transport.get_write_buffer_size() == 10_001
        far.transport.resume_reading()
        await until(lambda: len(far.received) == len(data))
        assert near.events == ["pause", "resume"]
        assert far.received == data

    bench.run(story())


def test_impossible_write_limits_are_refused(bench: Bench) -> None:
    async def story() -> None:
        near, _ = await bench.pair()
        with pytest.raises(ValueError, match="must be >="):
            near.transport.set_write_buffer_limits(high=1, low=2)
        near.transport.set_write_buffer_limits(low=5)
        assert near.transport.get_write_buffer_limits() == (5, 20)

    bench.run(story())


@pytest.mark.parametrize("size", [0, 1, 2, 4999, 5000, 5001])
def test_a_connection_can_be_cut_at_any_byte(bench: Bench, size: int) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        bench.network.cut_after("client", "server", size)
        data = some_bytes(10_000)
        near.transport.write(data)
        assert isinstance(await far.lost, ConnectionResetError)
        assert isinstance(await near.lost, ConnectionResetError)
        assert far.received == data[:size]
        again, answer = await bench.pair()
        again.transport.write(b"hello")
        await until(lambda: answer.received == b"hello")

    bench.run(story())


def test_in_bad_weather_connections_are_cut_by_themselves() -> None:
    bench = Bench(cut=0.2)
    lengths = set()

    async def story() -> None:
        for _ in range(30):
            near, far = await bench.pair()
            data = some_bytes(10_000)
            while not near.transport.is_closing():
                near.transport.write(data)
                await asyncio.sleep(0.01)
            await far.lost
            assert bytes(far.received) == (data * 100)[: len(far.received)]
            lengths.add(len(far.received))

    bench.run(story())
    bench.loop.close()
    assert len(lengths) > 20


def test_a_partition_holds_bytes_back_until_it_heals(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        near.transport.write(b"one ")
        bench.network.partition("client", "server")
        near.transport.write(b"two ")
        near.transport.close()
        await asyncio.sleep(5)
        assert far.received == b""
        bench.network.heal()
        assert await far.lost is None
        assert far.received == b"one two "

    bench.run(story())


def test_a_partition_may_be_one_way(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        bench.network.partition_one_way("server", "client")
        near.transport.write(b"question")
        far.transport.write(b"answer")
        await asyncio.sleep(5)
        assert far.received == b"question"
        assert near.received == b""
        # without the acknowledgements of the other way, no more than a window gets through
        near.transport.write(bytes(2 * bench.network.weather.window))
        await asyncio.sleep(5)
        assert len(far.received) == bench.network.weather.window
        bench.network.heal()
        await until(lambda: near.received == b"answer")
        await until(lambda: len(far.received) == 8 + 2 * bench.network.weather.window)

    bench.run(story())


def test_two_hosts_can_be_reconnected_while_others_stay_apart(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        bench.network.attach("third")
        bench.network.partition("client", "server")
        bench.network.partition("third", "server")
        near.transport.write(b"data")
        await asyncio.sleep(1)
        bench.network.reconnect("server", "client")
        await until(lambda: far.received == b"data")
        assert not bench.network.is_reachable("third", "server")

    bench.run(story())


def test_one_way_between_two_hosts_can_be_slow(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        bench.network.delay("client", "server", 2.0)
        began = bench.loop.time()
        near.transport.write(b"question")
        far.transport.write(b"told")
        await until(lambda: near.received == b"told")
        assert bench.loop.time() - began < 0.1
        await until(lambda: far.received == b"question")
        assert 2.0 <= bench.loop.time() - began < 2.1
        bench.network.heal()
        near.transport.write(b" again")
        await until(lambda: far.received == b"question again")
        assert bench.loop.time() - began < 2.2

    bench.run(story())


def test_a_refusal_does_not_get_through_a_partition(bench: Bench) -> None:
    async def story() -> None:
        bench.network.partition_one_way("server", "client")
        with pytest.raises(TimeoutError):
            await bench.client.connect(Recorder, "server", 1234)
        bench.network.heal()
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Recorder, "server", 1234)

    bench.run(story())


def test_a_sender_gives_up_when_a_partition_lasts(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        bench.network.partition("client", "server")
        near.transport.write(b"anyone?")
        assert isinstance(await near.lost, TimeoutError)
        bench.network.heal()
        await asyncio.sleep(100)
        assert far.received == b""
        assert not far.lost.done(), "who only listens never learns of it"
        far.transport.write(b"still there?")
        assert isinstance(await far.lost, ConnectionResetError)

    bench.run(story())


def test_all_connections_between_two_hosts_can_be_cut(bench: Bench) -> None:
    async def story() -> None:
        pairs = [await bench.pair() for _ in range(3)]
        bench.network.cut("server", "client")
        for side in (side for pair in pairs for side in pair):
            assert isinstance(await side.lost, ConnectionResetError)

    bench.run(story())


def test_a_dead_process_is_said_goodbye_for_by_its_kernel(bench: Bench) -> None:
    async def story() -> None:
        near, far = await bench.pair()
        far.transport.write(b"last words")
        bench.network.detach("server", vanish=False)
        await near.lost
        assert near.received == b"last words"
        assert not far.lost.done()
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Recorder, "server", 9092)

    bench.run(story())


def test_of_a_machine_without_power_one_hears_nothing_until_it_is_back(bench: Bench) -> None:
    async def story() -> None:
        near, _ = await bench.pair()
        silent, _ = await bench.pair()
        bench.network.detach("server", vanish=True)
        near.transport.write(b"anyone?")
        await asyncio.sleep(10)
        assert not near.lost.done()
        bench.network.attach("server")
        assert isinstance(await near.lost, ConnectionResetError)
        await asyncio.sleep(1000)
        assert not silent.lost.done()

    bench.run(story())


def test_an_error_in_a_protocol_ends_its_connection_and_is_told(bench: Bench) -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("broken")

    told: list[str] = []
    bench.loop.set_exception_handler(lambda _, context: told.append(f"{context['message']}: {context['exception']}"))

    async def story() -> None:
        near, far = await bench.pair(Broken)
        near.transport.write(b"x")
        assert isinstance(await near.lost, ConnectionResetError)
        assert await far.lost is None

    bench.run(story())
    assert told == ["#1 client:40000-server:9092: protocol.data_received() failed: broken"]


def test_streams_work_over_it(bench: Bench) -> None:
    """asyncio's own protocols run unchanged."""

    async def story() -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                writer.write(line.upper())
                await writer.drain()
            writer.close()

        def server_side() -> asyncio.StreamReaderProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(loop=bench.loop), echo, loop=bench.loop)

        await (await bench.server.listen(server_side, "", 7)).serve()
        reader = asyncio.StreamReader(loop=bench.loop)
        transport, protocol = await bench.client.connect(
            lambda: asyncio.StreamReaderProtocol(reader, loop=bench.loop), "server", 7
        )
        assert isinstance(protocol, asyncio.StreamReaderProtocol)
        writer = asyncio.StreamWriter(transport, protocol, reader, bench.loop)
        for number in range(100):
            writer.write(b"line %d\n" % number)
            assert await reader.readline() == b"LINE %d\n" % number
        writer.write_eof()
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()

    bench.run(story())
