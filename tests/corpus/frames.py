"""Bytes below the level of requests: frames with wrong sizes, headers that lie, other protocols, noise."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import islice
from struct import pack
from typing import Final, NamedTuple
from zlib import crc32

from tests.corpus.dice import Dice
from tests.corpus.mutations import Seed, mutations
from tests.corpus.player import framed
from tests.corpus.scenarios.scenario import TIMED

METADATA, API_VERSIONS, DESCRIBE_CLUSTER = 3, 18, 60
MUTATIONS: Final = 2000
# A header that chance made may name these, or what nobody has: others could change the server, or are not offered yet.
_HARMLESS_KEYS: Final = {2, METADATA, API_VERSIONS, 23, DESCRIBE_CLUSTER}
_KAFKAS_KEYS: Final = range(93)

_TOPIC: Final = len(TIMED).to_bytes(2, "big") + TIMED.encode()
_ASK_LEGACY: Final = framed(METADATA, 1, b"\x00\x00\x00\x01" + _TOPIC)
_ASK_FLEXIBLE: Final = framed(METADATA, 9, b"\x02\x06" + TIMED.encode() + b"\x00\x00\x00\x00\x00")
_VERSIONS: Final = framed(API_VERSIONS, 3, b"\x02a\x021\x00")
_CLUSTER: Final = framed(DESCRIBE_CLUSTER, 0, b"\x00\x00")


class Bytes(NamedTuple):
    name: str
    data: bytes

    @property
    def digest(self) -> str:
        return f"{crc32(self.data):08x}"


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _header(key: int, version: int, rest: bytes = b"\xff\xff") -> bytes:
    return sized(pack(">hhi", key, version, 7) + rest)


def by_hand() -> list[Bytes]:
    return [
        Bytes("nothing", b""),
        Bytes("a byte", b"\x00"),
        Bytes("size 0", sized(b"")),
        Bytes("size 0, then a question", sized(b"") + _CLUSTER),
        *(Bytes(f"size {size}", pack(">i", size)) for size in (-1, -(2**31), 1, 2**31 - 1, 200 << 20)),
        *(Bytes(f"a header of {size} bytes", sized(_CLUSTER[4 : 4 + size])) for size in range(1, 16)),
        *(Bytes(f"half a frame of {size} bytes", _CLUSTER[:size]) for size in range(4, 12)),
        *(Bytes(f"key {key}", _header(key, 0)) for key in (-1, -32768, 4, 5, 6, 7, 93, 255, 32767)),
        *(Bytes(f"Metadata version {version}", _header(METADATA, version)) for version in (-1, 14, 32767, -32768)),
        *(
            Bytes(f"ApiVersions version {version}", _header(API_VERSIONS, version, b"\xff\xff\x00"))
            for version in (-1, 5, 100, 32767, -32768)
        ),
        Bytes("Produce version 0", _header(0, 0, b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00")),
        Bytes("Produce version 2", _header(0, 2, b"\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00")),
        Bytes("no client", _header(DESCRIBE_CLUSTER, 0, b"\xff\xff\x00\x00\x00")),
        Bytes("a client of length -2", _header(DESCRIBE_CLUSTER, 0, b"\xff\xfe\x00\x00\x00")),
        Bytes("a client without name", _header(DESCRIBE_CLUSTER, 0, b"\x00\x00\x00\x00\x00")),
        Bytes("a client that is not UTF-8", _header(DESCRIBE_CLUSTER, 0, b"\x00\x02\xff\xfe\x00\x00\x00")),
        Bytes("a client that ends outside", _header(DESCRIBE_CLUSTER, 0, b"\x7f\xff\x00\x00\x00")),
        Bytes("a tagged field in the header", _header(DESCRIBE_CLUSTER, 0, b"\xff\xff\x01\x07\x02ab\x00\x00")),
        Bytes("a tagged field that ends outside", _header(DESCRIBE_CLUSTER, 0, b"\xff\xff\x01\x07\x7fab\x00\x00")),
        Bytes("-1 tagged fields", _header(DESCRIBE_CLUSTER, 0, b"\xff\xff\xff\xff\xff\xff\x0f\x00\x00")),
        Bytes("no tagged fields and no body", _header(DESCRIBE_CLUSTER, 0)),
        Bytes("three questions", _CLUSTER * 3),
        Bytes("a question, then noise", _CLUSTER + b"\xff" * 30),
        Bytes("a question, then half of one", _CLUSTER + _CLUSTER[:9]),
        Bytes("HTTP", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"),
        Bytes("TLS", bytes.fromhex("16030100c8010000c40303") + bytes(range(190))),
        Bytes("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ]  # fmt: skip


def all_frames() -> list[Bytes]:
    return [*by_hand(), *islice(by_chance(), MUTATIONS)]


def by_chance() -> Iterator[Bytes]:
    """Mutations of whole frames, sizes included, and of their headers with sizes that fit."""
    whole = [Seed(frame, range(20)) for frame in (_ASK_LEGACY, _ASK_FLEXIBLE, _VERSIONS, _CLUSTER)]
    heads = [Seed(seed.body[4:], range(16)) for seed in whole]
    dice = Dice("frames")
    for number, (one, other) in enumerate(zip(mutations(dice, whole), mutations(dice, heads), strict=False)):
        data = one if number % 2 else sized(other)
        if _is_harmless(data):
            yield Bytes(f"mutation {number}", data)


def _is_harmless(data: bytes) -> bool:
    while len(data) >= 6:
        key = int.from_bytes(data[4:6], "big")
        if key in _KAFKAS_KEYS and key not in _HARMLESS_KEYS:
            return False
        data = data[4 + int.from_bytes(data[:4], "big") :]
    return True


def send(port: int, data: bytes, patience_s: float = 5.0) -> str:
    """Sends, says that no more will come, and tells how many answers there were until the server hung up."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=patience_s) as client:
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while piece := client.recv(1 << 16):
                received += piece
        except TimeoutError:
            return "waits"
        except OSError:  # the server has hung up already
            pass
    answers = 0
    while len(received) >= 4:
        del received[: 4 + int.from_bytes(received[:4], "big")]
        answers += 1
    return f"{answers} answers"
