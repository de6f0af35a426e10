"""The server's end of a connection: frames in, answers out, in order, with bounded memory.

Small requests are handled right out of one scratch buffer that all connections of the loop share: it is filled and
consumed within one callback, so an idle connection owns no buffer at all. A request that does not fit is received into
a buffer lent by the pool. While a connection rests (an answer is awaited, or the client does not read), what was
already read is kept aside and nothing more is read, so that neither a flood nor a slow reader makes memory grow.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from struct import Struct
from typing import Any, Final, cast

from ottla.env.tcp import BorrowedSocket, socket_of, tune
from ottla.wire.buffers import Lent
from ottla.wire.codec import MalformedRequest
from ottla.wire.connection_settings import ConnectionSettings as ConnectionSettings
from ottla.wire.reply import CloseConnection, FileRange, Later, Message, Part
from ottla.wire.turn import Turn

_log = logging.getLogger("ottla.wire")

READ_BYTES: Final = 128 * 1024  # how much of a file is read and handed to the transport at once
SEND_BYTES: Final = 1024 * 1024  # how much of it goes from the page cache to the socket at once
DIRECT_BYTES: Final = 32 * 1024  # from here on a file's bytes go straight from the page cache to the socket
JOIN_BYTES: Final = 16 * 1024  # up to here copying is cheaper than another buffer in the transport
MAX_OVERLAPPING: Final = 1024
MAX_UNSENT_BYTES: Final = 64 * 1024  # of small answers, before they are handed to the transport
MAX_HELD_BYTES: Final = 512 * 1024  # of answers that wait for one before them
MAX_ASIDE_BYTES: Final = 4 * 1024  # what a connection may keep that came when there was no time for it
STALL_SECONDS: Final = 30.0
STALL_SHARE: Final = 0.1  # of a request must come in that time: a drip of bytes is a stall too
_LOOK_AT_CLOCK: Final = 16  # requests
_SIZE: Final = Struct(">i")
_MORE_FOLLOWS: Final = getattr(socket, "MSG_MORE", 0)


class ServerConnection(asyncio.BufferedProtocol):
    def __init__(self, settings: ConnectionSettings, listener: str) -> None:
        self.listener = listener
        self.pool = settings.pool
        self.host = self.peer = "?"
        self.software = ("unknown", "unknown")  # name and version, as the client tells them (KIP-511)
        self.ended = ""  # once it has: closed, reset, or by broker
        self.memo: Any = None  # for the API that serves this connection most: what it need not find out again
        self.patient_key = b""  # two bytes, once there are requests that are much and can wait for those of others
        self._settings = settings
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None  # that still sends what was answered
        self._prefix = b""  # the beginning of a frame's size
        self._frame: Lent | None = None  # a frame being received, in a lent buffer
        self._frame_size = 0
        self._filled = 0
        self._progress = 0  # how much of it there was when it last came on as it should, and when that was
        self._progress_at = 0.0
        self._aside = b""  # read, and not handled while the connection rests
        self._waits_for_buffer = False
        self._postponed = 0  # how many reasons there are to wait: this turn has had its time, a quota is used up
        self._was_active = True  # since it was last looked at, and how long it had been idle then
        self._idle_since = 0.0
        self._unsent = 0  # of answers, in the transport: counted by the pool; and since when
        self._unsent_since = 0.0
        self._slots: deque[Later] = deque()  # answers that are awaited, oldest first
        self._held_bytes = 0  # of answers that are there and wait in `_slots`
        self._stream: deque[Part] = deque()  # an answer being sent piece by piece
        self._reading_file = False
        self._write_paused = False
        self._read_paused = False
        self._handling = False
        self._out: list[bytes | bytearray] = []
        self._out_bytes = 0
        self._socket: BorrowedSocket | None = None  # the transport's, for sending past it

    # -- asyncio's side

    @property
    def turn(self) -> Turn:
        """For those who wait: what has come for them is looked at and answered within one turn, or spread over many."""
        return self._settings.turn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):  # it is not known any more of one that has ended already
            self.host, self.peer = str(peer[0]), f"{peer[0]}:{peer[1]}"
        transport.set_write_buffer_limits(high=0)  # what the client does not take at once stays in its file
        if (sock := transport.get_extra_info("socket")) is not None:
            tune(sock, self.host)
            self._socket = socket_of(transport)
        self._settings.connections[self] = None
        self._settings.opened[self.listener] = self._settings.opened.get(self.listener, 0) + 1

    def connection_lost(self, error: Exception | None) -> None:
        self.ended = "by broker" if self._transport is None else "closed" if error is None else "reset"
        self._transport = self._closing = None
        self._settings.connections.pop(self, None)
        for listener in self._settings.on_lost:
            listener(self)
        self._count_unsent(0)
        if self._waits_for_buffer:
            self._settings.pool.stop_waiting(self._buffer_is_free)
        self._release_frame()
        if self._socket is not None:
            self._socket.detach()  # it is the transport's
        self._stream.clear()
        self._aside = b""
        slots, self._slots = self._slots, deque()
        for slot in slots:
            slot.cancel()

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled : self._frame_size]
        held = len(self._prefix)
        if held:
            self._settings.scratch[:held] = self._prefix
            return self._settings.scratch_view[held:]
        return self._settings.scratch_view

    def buffer_updated(self, nbytes: int) -> None:
        self._was_active = True
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == self._frame_size:
                self._frame_complete()
                if self._settings.turn.is_over():
                    self._postpone()
            return
        end = len(self._prefix) + nbytes
        self._prefix = b""
        data = self._settings.scratch_view[:end]
        if self._aside:  # it gives way, and more has come since
            self._aside += data
            self._rest()
        elif end <= MAX_ASIDE_BYTES and self._settings.turn.is_spent():
            self._aside = bytes(data)
            self._postpone()
        elif self.patient_key and self._gives_way(data):
            self._aside = bytes(data)
            self._postponed += 1
        else:
            self._take(data)

    def _gives_way(self, data: memoryview) -> bool:
        return data[4:6] == self.patient_key and self._settings.turn.give_way(self._turn_has_come)

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_paused = True
        if self._transport is not None:
            self._count_unsent(self._transport.get_write_buffer_size())
        self._rest()

    def resume_writing(self) -> None:
        self._write_paused = False
        self._was_active = True
        self._count_unsent(0)
        self._pump()
        self._slot_done()

    def _count_unsent(self, size: int) -> None:
        self._settings.pool.count_unread(self._unsent, size)
        self._unsent = size
        self._unsent_since = asyncio.get_running_loop().time()

    # -- frames

    def _take(self, data: memoryview) -> None:
        """Handles all whole frames in the data, one after the other; keeps the rest."""
        position, end = 0, len(data)
        unpack = _SIZE.unpack_from
        largest = self._settings.max_request_bytes
        self._handling = self._settings.turn.is_handling = True
        handled = 0
        try:
            while end - position >= 4:
                if self._must_rest():
                    break
                handled += 1
                if handled % _LOOK_AT_CLOCK == 0 and self._settings.turn.is_over():
                    self._postpone()
                    break
                size = unpack(data, position)[0]
                if size < 0 or size > largest:
                    self._hang_up(f"a request of {size} bytes (allowed are {largest}, socket.request.max.bytes)")
                    return
                start = position + 4
                if start + size > end:
                    self._begin_frame(size, data[start:end])
                    return
                self._handle(data[start : start + size])
                if self._transport is None:
                    return
                position = start + size
            if position < end:
                rest = bytes(data[position:end])
                if self._must_rest():
                    self._aside = rest
                    self._rest()
                else:
                    self._prefix = rest
        finally:
            self._handled()

    def _begin_frame(self, size: int, have: memoryview) -> None:
        self._frame_size = size
        buffer = self._settings.pool.take(size)
        if buffer is not None:
            self._receive_into(buffer, have)
            return
        self._aside = bytes(have)
        self._waits_for_buffer = True
        self._settings.pool.wait(size, self._buffer_is_free)
        self._rest()

    def _receive_into(self, buffer: Lent, have: bytes | memoryview) -> None:
        self._filled = len(have)
        buffer[: self._filled] = have
        self._frame = buffer
        self._progress = self._filled
        self._progress_at = asyncio.get_running_loop().time()

    def _buffer_is_free(self, buffer: Lent) -> None:
        self._waits_for_buffer = False
        have, self._aside = self._aside, b""
        self._receive_into(buffer, have)
        self._go_on()

    def _frame_complete(self) -> None:
        frame, size = self._frame, self._frame_size
        assert frame is not None
        if self._must_rest():  # the client stopped reading while this came in; `_go_on` takes it up again
            self._rest()
            return
        self._handling = self._settings.turn.is_handling = True
        try:
            self._handle(memoryview(frame)[:size])
        finally:
            self._release_frame()
            self._handled()

    def _handled(self) -> None:
        self._handling = False
        turn = self._settings.turn
        turn.is_handling = False
        if turn.due:
            turn.run_due()
        if self._out:
            self._write_out()

    def _release_frame(self) -> None:
        if self._frame is not None:
            frame, self._frame = self._frame, None
            self._settings.pool.give_back(frame)

    @property
    def is_closing(self) -> bool:
        return self._transport is None

    @property
    def awaits_answers(self) -> bool:
        return bool(self._slots)

    def idle_for(self, now: float) -> float:
        """Seconds since something came or went, as far as is known: to the last time that this was asked."""
        if self._was_active or (self._slots and not self._write_paused):
            self._was_active = False
            self._idle_since = now
        return now - self._idle_since

    def close_if_stalled(self, now: float) -> None:
        if self._unsent and now - self._unsent_since > STALL_SECONDS:
            self._refuse(f"{self._unsent} bytes of an answer were not read in {STALL_SECONDS:.0f} s")
            return
        if self._frame is None:
            return
        came = self._filled - self._progress
        if came >= self._frame_size * STALL_SHARE:
            self._progress, self._progress_at = self._filled, now
        elif now - self._progress_at > STALL_SECONDS:
            self._refuse(f"only {came} bytes of a request of {self._frame_size} came in {STALL_SECONDS:.0f} s")

    # -- requests

    def _handle(self, frame: memoryview) -> None:
        try:
            answer = self._settings.handler(self, frame)
        except Exception as error:
            self._tell_of(error)
            self._close_after_answers()
            return
        if isinstance(answer, Later):
            if answer.done:
                answer = answer.message
            else:
                answer.listen(self._slot_done)
                self._slots.append(answer)
                return
        if answer is None:
            return
        if self._slots:
            slot = Later(overlaps=True)
            slot.complete(answer)
            slot.held_bytes = _bytes_in(answer)
            self._slots.append(slot)
            self._held_bytes += slot.held_bytes
        elif isinstance(answer, bytes):
            self._out.append(answer)
            self._out_bytes += len(answer)
            if self._out_bytes > MAX_UNSENT_BYTES:  # a short question may have a long answer, and many may come at once
                self._write_out()
        else:
            self._send(answer)

    def _tell_of(self, error: Exception) -> None:
        if isinstance(error, MalformedRequest):
            self._warn(str(error))
        elif not isinstance(error, CloseConnection):
            _log.error("a request from %s failed; closing its connection", self.peer, exc_info=error)
        elif str(error):
            _log.info("closing the connection from %s: %s", self.peer, error, extra={"peer": self.peer})

    def _slot_done(self) -> None:
        """An awaited answer is there; send it, and those behind it, as far as they are there too."""
        slots = self._slots
        while slots and slots[0].done and not self._stream:
            slot = slots.popleft()
            if slot.failed:
                if slot.error is not None:
                    self._tell_of(slot.error)
                self.close()
                return
            message = slot.message
            self._held_bytes -= slot.held_bytes
            if isinstance(message, bytes):
                self._out.append(message)
            elif message is not None:
                self._send(message)
        if not self._handling:
            if self._out:
                self._write_out()
            if self._settings.turn.is_running_due:
                asyncio.get_running_loop().call_soon(self._go_on)  # not one within the other without end
            else:
                self._go_on()

    # -- resting and going on

    def mute(self, seconds: float) -> None:
        """Nothing more is read or handled for a while: what Kafka does to a client that is over its quota."""
        self._postponed += 1
        self._rest()
        asyncio.get_running_loop().call_later(seconds, self._turn_has_come)

    def _postpone(self) -> None:
        self._postponed += 1
        self._rest()
        self._settings.turn.postpone(self._turn_has_come)

    def _turn_has_come(self) -> None:
        self._postponed -= 1
        self._go_on()
        if self._aside:  # it has to wait for something else as well
            self._rest()

    def _must_not_read(self) -> bool:
        """Not even to learn that the client has gone."""
        return bool(
            self._write_paused
            or self._stream
            or self._waits_for_buffer
            or self._postponed
            or self._settings.draining
            or self._aside
            or (self._frame is not None and self._filled == self._frame_size)
            or (self._slots and self._slots[-1].failed)
        )

    def _must_rest(self) -> bool:
        if self._write_paused or self._stream or self._waits_for_buffer or self._postponed or self._settings.draining:
            return True
        slots = self._slots
        return bool(slots) and (
            not slots[-1].overlaps or len(slots) >= MAX_OVERLAPPING or self._held_bytes > MAX_HELD_BYTES
        )

    @property
    def owes_answers(self) -> bool:
        return any(slot.overlaps and not slot.done for slot in self._slots)

    def _rest(self) -> None:
        if not self._read_paused and self._transport is not None:
            self._read_paused = True
            self._transport.pause_reading()

    def _go_on(self) -> None:
        """Handles what was kept aside, unless something still makes the connection rest; then reads again.

        Also while an answer is awaited: if the client goes away, nobody needs to wait any more.
        """
        if self._handling or self._transport is None:
            return
        if not self._must_rest():
            if self._frame is not None and self._filled == self._frame_size:
                self._frame_complete()
            if self._aside:
                aside, self._aside = self._aside, b""
                self._take(memoryview(aside))
        if self._read_paused and self._transport is not None and not self._must_not_read():
            self._read_paused = False
            self._transport.resume_reading()

    # -- sending

    def _write_out(self) -> None:
        out, self._out = self._out, []
        self._out_bytes = 0
        transport = self._transport
        if transport is None:
            return
        if 1 < len(out) < 8 and sum(map(len, out)) > JOIN_BYTES:
            transport.writelines(out)
            return
        data = out[0] if len(out) == 1 else b"".join(out)
        sent = self._send_now(data)
        if sent < len(data):
            transport.write(data[sent:] if sent else data)

    def _send_now(self, data: bytes | bytearray, flags: int = 0) -> int:
        """Past the transport, if nothing waits in it: that saves half the way, and what is sent first comes first."""
        transport = self._transport
        if transport is None or self._socket is None or transport.get_write_buffer_size():
            return 0
        try:
            return self._socket.send(data, flags)
        except OSError:  # it is full, or broken: the transport knows what to do
            return 0

    def _send(self, parts: list[Part]) -> None:
        self._stream.extend(parts)
        self._pump()

    def _pump(self) -> None:
        """Sends an answer as far as the transport takes it and the data are in memory."""
        stream, transport = self._stream, self._transport
        while stream and transport is not None and not self._write_paused and not self._reading_file:
            part = stream[0]
            if isinstance(part, bytes):
                self._out.append(part)
                stream.popleft()
                continue
            if part.size >= DIRECT_BYTES and self._send_directly(part):
                if stream and (part.file.gives_way or self._settings.turn.is_over()):
                    self._give_turn_away()
                    break
                continue
            size = min(part.size, READ_BYTES)
            try:
                data = part.file.pread_nowait(size, part.position)
            except OSError as error:
                self._refuse(f"{part.file.path} cannot be read: {error}")
                return
            if data is None:
                self._read_cold(part, size)
                break
            self._chunk_read(part, data)
            if stream and self._settings.turn.is_over():
                self._give_turn_away()
                break
        if self._out:
            self._write_out()

    def _give_turn_away(self) -> None:
        self._settings.turn.postpone(self._pump_on)
        self._reading_file = True  # for as long as others have their turn

    def _pump_on(self) -> None:
        self._reading_file = False
        self._pump()
        self._slot_done()

    def _chunk_read(self, part: FileRange, data: bytes | bytearray) -> None:
        if not data:
            self._refuse(f"{part.file.path} ends before {part.position + part.size}")
            return
        if len(data) <= JOIN_BYTES:
            self._advance(part, len(data))
            self._out.append(data)
            return
        if self._out:
            self._write_out()
        # When many do not read, what the socket does not take at once is read again when it does.
        sent = self._send_now(data)
        rest = data[sent:] if self._settings.pool.is_ample else data[sent : sent + JOIN_BYTES]
        self._advance(part, sent + len(rest))
        if rest:
            self._out.append(rest)
            self._write_out()

    def _advance(self, part: FileRange, by: int) -> None:
        if by == part.size:
            self._stream.popleft()
        else:
            self._stream[0] = FileRange(part.file, part.position + by, part.size - by)

    def _send_directly(self, part: FileRange) -> bool:
        """From the page cache into the socket, past the transport."""
        sock, transport = self._socket, self._transport
        if sock is None or transport is None or transport.get_write_buffer_size():
            return False
        if self._out:
            head = b"".join(self._out)
            sent = self._send_now(head, _MORE_FOLLOWS)
            self._out = [head[sent:]] if sent < len(head) else []
            self._out_bytes = len(head) - sent
            if self._out:
                return False
        sent = part.file.send_nowait(sock.fileno(), min(part.size, SEND_BYTES), part.position)
        if sent:
            self._advance(part, sent)
        return sent > 0

    def _read_cold(self, part: FileRange, size: int) -> None:
        self._reading_file = True
        self._rest()
        reading = self._settings.executor.blocking(part.file.pread, size, part.position)
        reading.add_done_callback(lambda future: self._cold_read_done(part, future))

    def _cold_read_done(self, part: FileRange, future: asyncio.Future[bytes]) -> None:
        self._reading_file = False
        if self._transport is None:
            return
        if future.cancelled() or future.exception() is not None:
            self._refuse(f"{part.file.path} cannot be read: {future.exception()}")
            return
        self._chunk_read(part, future.result())
        self._pump()
        self._slot_done()

    # -- the end

    def _warn(self, reason: str) -> None:
        _log.warning("closing the connection from %s: %s", self.peer, reason, extra={"peer": self.peer})

    def _hang_up(self, reason: str) -> None:
        """What came in cannot be trusted."""
        self._warn(reason)
        self._close_after_answers()

    def _close_after_answers(self) -> None:
        """Those to requests before: Kafka has sent them by the time that it looks at the next one."""
        if not self._slots and not self._stream:
            self.close()
            return
        end = Later()
        end.fail()
        self._slots.append(end)
        self._rest()

    def _refuse(self, reason: str) -> None:
        self._warn(reason)
        self.abort()

    def close(self) -> None:
        """After what was already answered is sent."""
        if self._out:
            self._write_out()
        if self._transport is not None:
            self._transport.close()
            self._closing, self._transport = self._transport, None

    def give_up(self) -> None:
        """As `close`, unless the client does not read: then it would never come to that."""
        if self._write_paused:
            self.abort()
        else:
            self.close()

    def abort(self) -> None:
        self._out.clear()
        transport = self._transport or self._closing
        if transport is not None:
            transport.abort()
            self._transport = self._closing = None


def _bytes_in(message: Message) -> int:
    """What an answer holds in memory; ranges of files are read when they are sent."""
    if isinstance(message, list):
        return sum(len(part) for part in message if isinstance(part, bytes))
    return len(message) if message is not None else 0
