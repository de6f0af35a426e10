"""Memory of chunks is used again, but never while somebody still reads it."""

from __future__ import annotations

import os
import socket
from unittest.mock import patch

import pytest

from ottla.tier.manifest import CHUNK_BYTES
from ottla.tier.slots import Chunk, Slots, _MemoryFile
from ottla.tier.stretch import Stretch


@pytest.fixture(params=["a file in memory", "plain memory"])
def slots(request: pytest.FixtureRequest) -> Slots:
    if request.param == "plain memory":
        with patch.object(_MemoryFile, "make", lambda: None):
            return Slots(CHUNK_BYTES)
    return Slots(CHUNK_BYTES)


def test_what_nobody_has_any_more_makes_room(slots: Slots) -> None:
    for number in range(100):
        chunk = slots.keep(bytes([number]) * 1000)
        assert bytes(chunk.view) == bytes([number]) * 1000
        del chunk
    assert slots.bytes_lent == 0
    assert slots._made == 1


def test_what_is_being_sent_stays_as_it_is(slots: Slots) -> None:
    stretch = Stretch("x", [slots.keep(b"a" * CHUNK_BYTES), slots.keep(b"b" * CHUNK_BYTES)], 10, 2 * CHUNK_BYTES - 20)
    others = [slots.keep(b"z" * CHUNK_BYTES) for _ in range(4)]
    del others
    slots.keep(b"y" * CHUNK_BYTES)
    assert bytes(stretch) == b"a" * (CHUNK_BYTES - 10) + b"b" * (CHUNK_BYTES - 10)
    assert slots.bytes_lent == 2 * CHUNK_BYTES


def test_memory_that_many_needed_at_once_is_given_back(slots: Slots) -> None:
    def resident() -> int:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    many = [slots.keep(b"m" * CHUNK_BYTES) for _ in range(60)]
    assert all(all(chunk.view) for chunk in many)
    held = resident()
    many.clear()
    assert resident() < held - 40 * CHUNK_BYTES


def test_a_stretch_is_sent_as_far_as_the_socket_takes_it(slots: Slots) -> None:
    data = os.urandom(3 * CHUNK_BYTES)
    chunks = [slots.keep(data[at : at + CHUNK_BYTES]) for at in range(0, len(data), CHUNK_BYTES)]
    start, size = 12_345, 2 * CHUNK_BYTES + 7
    stretch = Stretch("x", chunks, start, size)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        got = bytearray()
        while len(got) < size:
            stretch.send_nowait(ours.fileno(), size - len(got), len(got))
            got += theirs.recv(1 << 20)
        assert bytes(got) == data[start : start + size] == bytes(stretch)
        while stretch.send_nowait(ours.fileno(), size, 0):
            pass
        assert stretch.send_nowait(ours.fileno(), size, 0) == 0  # it is full
    assert (len(stretch), stretch.end) == (size, start + size)
    assert stretch.pread(50, CHUNK_BYTES - start - 25) == data[CHUNK_BYTES - 25 : CHUNK_BYTES + 25]


def test_what_is_small_needs_no_slot() -> None:
    assert bytes(Chunk(b"index").view) == b"index"
