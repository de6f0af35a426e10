"""One simulated TCP connection: two transports, and a cable for each direction.

Bytes wait in three places, as with a real socket: in the sender's transport (what `pause_writing` is about), on the way
or in the receiver's kernel (at most a window), and nowhere else. A reader that pauses thus fills the window, then the
sender's buffer. Protocols are only ever called from the loop, in the context of their host.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from ottla.env.ports import Buffer
from ottla.sim.cable import Cable, End, Ending, Field
from ottla.sim.incarnation import Incarnation

Address = tuple[str, int]


class SimTransport(asyncio.Transport):
    def __init__(
        self, field: Field, incarnation: Incarnation, name: str, local: Address, remote: Address, other: Incarnation
    ) -> None:
        # Which life of the other host it is tells no protocol, but a checker must know.
        super().__init__({"peername": remote, "sockname": local, "life": other.number})
        self.host = incarnation.host
        self.name = name
        self.end = End.OPEN
        self.out: Cable
        self.context = incarnation.context()
        self._incarnation = incarnation
        self._field = field
        self._inbox = bytearray()
        self._ended: Ending | None = None
        self._protocol: asyncio.BaseProtocol | None = None
        self._reading = True
        self._read_scheduled = False
        self._closing = False
        self._half_closed = False
        self._lost = False
        self._reason: Exception | None = None
        self._writing_paused = False
        self._high, self._low = 65536, 16384

    def __repr__(self) -> str:
        return f"<SimTransport {self.name} {self.end.name.lower()}>"

    # For the cables

    def arrived(self, data: bytes) -> None:
        if not self._closing and self._ended is None:
            self._inbox += data
            self._schedule_read()

    def arrived_end(self, ending: Ending) -> None:
        if self.end is not End.OPEN:
            return
        if ending is Ending.RESET and (self._closing or not self._inbox or self.out.unsent):
            self.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        else:
            self._ended = ending
            self._schedule_read()

    def lose(self, reason: Exception | None) -> None:
        """The connection is gone for this end; the protocol hears of it in its turn."""
        if self.end is End.OPEN:
            self.end = End.CLOSED
            self._reason = reason
            self._closing = True
            self._inbox.clear()
            self.out.unsent.clear()
            self.out.finishing = False
            self._in_host(self._tell_lost, reason)

    def drained(self) -> None:
        if self._writing_paused and len(self.out.unsent) <= self._low:
            self._writing_paused = False
            self._in_host(self._call, "resume_writing")
        if self._closing and not self.out.unsent:
            self.lose(None)

    def die(self, *, vanish: bool) -> None:
        """The process or the machine has died: its kernel says goodbye, or nobody does."""
        if self.end is not End.OPEN:
            return
        self.out.unsent.clear()
        self._closing = True
        if vanish:
            self.end = End.VANISHED
        else:
            self.end = End.CLOSED
            self.out.launch(Ending.RESET if self._inbox else Ending.FINISHED)

    # For the protocol's side

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Called in the context of the host."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self.end is End.OPEN:
            self._schedule_read()
        else:  # lost before anybody could be told
            self._in_host(self._tell_lost, self._reason)

    def _in_host(self, callback: Callable[..., object], *args: Any) -> None:
        self._field.loop.call_soon(callback, *args, context=self.context)

    def _schedule_read(self) -> None:
        if self._reading and not self._read_scheduled and self._protocol is not None and (self._inbox or self._ended):
            self._read_scheduled = True
            self._in_host(self._read)

    def _read(self) -> None:
        self._read_scheduled = False
        if not self._reading or self._closing:
            return
        if self._inbox:
            self._read_data()
        elif self._ended is Ending.RESET:
            self.lose(ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET)))
        elif self._ended is Ending.FINISHED:
            self._ended = None
            if not self._call("eof_received"):
                self.close()
        self._schedule_read()

    def _read_data(self) -> None:
        buffer = None
        if isinstance(self._protocol, asyncio.BufferedProtocol):
            buffer = memoryview(self._call("get_buffer", -1) or b"").cast("B")
            if not buffer and not self._closing:
                return self._fail(RuntimeError("get_buffer() returned an empty buffer"), "get_buffer")
        size = len(self._inbox) if buffer is None else min(len(self._inbox), len(buffer))
        if not size or self._closing:
            return None
        random = self._field.random
        if random.random() < self._field.weather.pieces:
            size = random.randint(1, size)
        data = bytes(self._inbox[:size])
        del self._inbox[:size]
        self.out.acknowledge(size)
        self._field.observe(self.host, "net deliver", f"{self.name} {size} crc {crc32(data):08x}")
        if buffer is None:
            self._call("data_received", data)
        else:
            buffer[:size] = data
            buffer.release()
            self._call("buffer_updated", size)
        return None

    def _call(self, method: str, *args: object) -> Any:
        """Calls the protocol. An error ends the connection, as with asyncio's own transports."""
        if self._lost:
            return None
        try:
            return getattr(self._protocol, method)(*args)
        except Exception as error:
            return self._fail(error, method)

    def _fail(self, error: Exception, method: str) -> None:
        message = f"{self.name}: protocol.{method}() failed"
        context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        self._field.loop.call_exception_handler(context)
        self.abort()

    def _tell_lost(self, reason: Exception | None) -> None:
        if not self._lost and self._protocol is not None:
            self._field.observe(self.host, "net lost", f"{self.name} {type(reason).__name__ if reason else 'closed'}")
            self._lost = True
            self._protocol.connection_lost(reason)

    # asyncio.Transport

    def write(self, data: Buffer) -> None:
        if self._half_closed:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._closing or not self._incarnation.alive:
            return
        if self._ended is Ending.RESET:
            return self.lose(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
        self.out.unsent += data
        self.out.pump()
        if len(self.out.unsent) > self._high and not self._writing_paused:
            self._writing_paused = True
            self._call("pause_writing")
        return None

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._half_closed and not self._closing and self._incarnation.alive:
            self._half_closed = True
            self.out.finishing = True
            self.out.pump()

    def close(self) -> None:
        if self._closing or not self._incarnation.alive:
            return
        self._closing = True
        if self._inbox:  # closing over unread data is a reset, by the rules of TCP
            self.out.launch(Ending.RESET)
            return self.lose(None)
        if not self._half_closed:
            self.out.finishing = True
            self.out.pump()
        if not self.out.unsent:
            self.lose(None)
        return None

    def abort(self) -> None:
        if self.end is End.OPEN and self._incarnation.alive:
            self.out.launch(Ending.RESET)
            self.lose(None)

    def is_closing(self) -> bool:
        return self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._reading and not self._closing:
            self._reading = True
            self._schedule_read()

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 65536 if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be >= low ({low}) must be >= 0")
        self._high, self._low = high, low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self.out.unsent)


def connected(
    field: Field, number: int, caller: Incarnation, answerer: Incarnation, local: Address, remote: Address
) -> tuple[SimTransport, SimTransport]:
    """Both ends of a new connection: the caller's and the answerer's."""
    name = f"#{number} {caller.host}:{local[1]}-{answerer.host}:{remote[1]}"
    near = SimTransport(field, caller, name, local, remote, answerer)
    far = SimTransport(field, answerer, name, remote, local, caller)
    near.out, far.out = Cable(field, near, far), Cable(field, far, near)
    return near, far
