"""A toy service with a log on disk, its client, and a run of both with everything going wrong.

Run as a program it prints the hash of its trace, so that tests can compare runs in processes of their own.
"""

import asyncio
import sys
from functools import partial

from ottla.env.ports import Env, File
from ottla.sim.faults import Moment
from ottla.sim.host import Host
from ottla.sim.trace import Trace
from ottla.sim.weather import Weather
from ottla.sim.world import World

PORT = 7000
LINE = 12


class JournalServer(asyncio.BufferedProtocol):
    """Appends each line that it gets to a file and answers it after the sync; one line at a time."""

    def __init__(self, env: Env, journal: File) -> None:
        self._env = env
        self._journal = journal
        self._buffer = bytearray(64)
        self._filled = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._buffer)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        while self._filled >= LINE:
            line = bytes(self._buffer[:LINE])
            self._buffer[: self._filled - LINE] = self._buffer[LINE : self._filled]
            self._filled -= LINE
            self._journal.write([line], self._journal.size())
            self._env.executor.blocking(self._journal.sync).add_done_callback(partial(self._ack, line))

    def _ack(self, line: bytes, done: "asyncio.Future[None]") -> None:
        if done.exception() is None:
            self._transport.write(line)


async def serve(env: Env) -> None:
    env.disk.make_dirs("/data")
    env.disk.sync_dir("/")
    release = env.disk.lock("/data/.lock")
    journal = env.disk.open("/data/journal", create=True)
    env.disk.sync_dir("/data")
    journal.truncate(journal.size() - journal.size() % LINE)
    try:
        await (await env.network.listen(lambda: JournalServer(env, journal), "", PORT)).serve()
        await asyncio.Event().wait()
    finally:
        release()


class LineClient(asyncio.Protocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._got = b""

    def data_received(self, data: bytes) -> None:
        self._got += data
        while len(self._got) >= LINE:
            self.answers.put_nowait(self._got[:LINE])
            self._got = self._got[LINE:]

    def connection_lost(self, exc: Exception | None) -> None:
        self.answers.put_nowait(None)


async def send_lines(env: Env, numbers: range, acknowledged: list[bytes]) -> None:
    """Sends each line until it is acknowledged, over as many connections as it takes."""
    for number in numbers:
        line = b"%011d\n" % number
        while not await send_once(env, line):
            await asyncio.sleep(0.05)
        acknowledged.append(line)
        await asyncio.sleep(env.random.below(100) / 1000)


async def send_once(env: Env, line: bytes) -> bool:
    try:
        async with asyncio.timeout(2):
            transport, protocol = await env.network.connect(LineClient, "server", PORT)
            assert isinstance(protocol, LineClient)
            try:
                transport.write(line)
                return await protocol.answers.get() == line
            finally:
                transport.close()
    except OSError:  # TimeoutError is one
        return False


async def wreck(world: World, server: Host, rounds: int) -> None:
    random = world.random("wreck")
    for _ in range(rounds):
        await asyncio.sleep(random.uniform(0.05, 0.5))
        match random.randrange(5):
            case 0:
                server.crash()
            case 1:
                server.power_loss()
            case 2:
                server.crash_at(random.randint(1, 10), random.choice(list(Moment)), power_loss=random.random() < 0.5)
            case 3:
                world.network.partition("client", "server")
            case 4:
                world.network.partition_one_way("server", "client")
        await asyncio.sleep(random.uniform(0.05, 0.5))
        world.network.heal()
        if not server.is_up:
            server.start(serve)
    server.restart(serve)


def run(seed: int, lines: int = 60) -> tuple[Trace, list[bytes], list[bytes]]:
    """Gives the trace, the lines that were acknowledged, and those in the journal at the end."""
    acknowledged: list[bytes] = []
    with World(seed, weather=Weather(cut=0.02)) as world:
        server, client = world.host("server"), world.host("client", skew_ms=-5000)

        async def story() -> None:
            server.start(serve)
            sending = client.start(lambda env: send_lines(env, range(lines), acknowledged))
            await wreck(world, server, rounds=10)
            await sending
            server.power_loss()

        world.run(story(), limit_s=600)
        journal = server.disk.snapshot()["/data/journal"] or b""
        # Not by newlines: where the power failed, a line may have become zeros.
        return world.trace, acknowledged, [journal[start : start + LINE] for start in range(0, len(journal), LINE)]


if __name__ == "__main__":
    told = run(int(sys.argv[1]))[0]
    print(len(told.events), told.hash())
