"""The loops that numba compiles, against the plain Python that does the same elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import crc32c
import numpy as np
import pytest
from tests.log.cleaning.given import NEWCOMER, Tables, offsets, read_on
from tests.log.given import Machine

from ottla.log.cleaning import kernels, offset_map
from ottla.log.cleaning.contract import Limits
from ottla.record.batch import HEADER_SIZE
from ottla.record.builder import build_batch
from ottla.record.records import Record

WAYS = [kernels.crc32c_by_tables, *([kernels.crc32c_by_processor] if kernels.HAS_CRC else [])]


@kernels.compiled
def hash_of(data: Any, size: int, secret: Any) -> Any:
    return kernels.siphash(data, 0, size, secret)


def array(data: bytes) -> Any:
    return np.frombuffer(data, dtype=np.uint8)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.__name__))
def test_checksums(way: Callable[..., int]) -> None:
    data = Random(1).randbytes(200)
    for start, end in [(0, 0), (0, 1), (0, 8), (3, 17), (1, 200), (0, 200), (7, 15)]:
        assert way(array(data), start, end) == crc32c.crc32c(data[start:end])


def plain_siphash(key: bytes, secret: bytes) -> tuple[int, int]:
    """SipHash-1-3 with 128 bits, from its description."""
    mask = 2**64 - 1
    k0, k1 = (int.from_bytes(secret[n : n + 8], "little") for n in (0, 8))
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & mask

    def scramble(times: int) -> None:
        for _ in range(times):
            for a, b, by, turns in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
                v[a] = (v[a] + v[b]) & mask
                v[b] = rotated(v[b], by) ^ v[a]
                v[a] = rotated(v[a], 32) if turns else v[a]

    padded = key + bytes(7 - len(key) % 8) + bytes([len(key) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        scramble(1)
        v[0] ^= word
    v[2] ^= 0xEE
    scramble(3)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    scramble(3)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def test_keys_are_told_apart_by_a_hash_that_nobody_can_foresee() -> None:
    random = Random(3)
    for size in (*range(20), 63, 64, 65, 300):
        key, secret = random.randbytes(size), random.randbytes(16)
        found = hash_of(array(key + bytes(random.choice((0, 8)))), size, np.frombuffer(secret, dtype=np.uint64))
        assert tuple(map(int, found)) == plain_siphash(key, secret), size


def some_records(random: Random, count: int) -> Iterator[Record]:
    """With numbers of one to five bytes, and keys and values that are empty, null, short or long."""
    for _ in range(count):
        key, value = (random.choice((None, b"", b"k", random.randbytes(random.randrange(300)))) for _ in range(2))
        headers = random.choice(((), (("h", b"1"),)))
        yield Record(key, value, random.choice((0, 1, 100, 10_000, 3_000_000, 2**33)), headers=headers)


def read_all(data: Any, at: int, end: int, count: int) -> list[tuple[bytes | None, int, int, int]]:
    found = []
    for _ in range(count):
        at, _, _, key_at, time, delta, key_size, value_size = kernels.read_record(data, at, end)
        assert at > 0
        found.append((None if key_size < 0 else data[key_at : key_at + key_size].tobytes(), time, delta, value_size))
    assert at == end
    return found


def test_records_are_read_as_they_were_written() -> None:
    random = Random(2)
    for _ in range(20):
        records = list(some_records(random, random.choice((1, 5, 200))))
        batch = array(build_batch(records))
        first = records[0].timestamp
        assert read_all(batch, HEADER_SIZE, batch.size, len(records)) == [
            (record.key, record.timestamp - first, n, -1 if record.value is None else len(record.value))
            for n, record in enumerate(records)
        ]


def test_what_is_no_record_is_told_and_nothing_beyond_the_end_is_read() -> None:
    whole = build_batch([Record(b"key", b"value", 5)])[HEADER_SIZE:]
    for size in range(len(whole)):
        assert kernels.read_record(array(whole[:size]), 0, size)[0] == -1
        assert kernels.read_record(array(whole + bytes(20)), 0, size)[0] == -1
    random = Random(3)
    for _ in range(3000):
        broken = bytearray(whole)
        broken[random.randrange(len(broken))] = random.randrange(256)
        end, *_, key_at, _, _, key_size, value_size = kernels.read_record(array(bytes(broken)), 0, len(broken))
        assert end == -1 or key_at + max(key_size, 0) + max(value_size, 0) < end <= len(broken)


def test_a_batch_is_known_to_be_replaced_when_all_its_offsets_are_marked() -> None:
    keys = offset_map.OffsetMap(Limits(24_000, 0.9, 1, 1.0), bytes(16), 1000, 1300).keys
    for offset in range(1010, 1200):
        kernels._mark(keys, offset)
    for first, last, known in [
        (1010, 1199, True), (1063, 1064, True), (1064, 1127, True), (1009, 1020, False), (1190, 1200, False),
        (990, 1020, False), (1100, 1099, False), (1100, 1350, False),
    ]:  # fmt: skip
        assert kernels.are_all_replaced(keys, first, last, 1250) is known, (first, last)
    assert not kernels.are_all_replaced(keys, 1010, 1199, 1100)
    kernels._mark(keys, 999)  # neither before nor beyond is anything kept
    kernels._mark(keys, 5000)
    assert not kernels.are_all_replaced(keys, 1000, 1000, 1250)


def test_offsets_without_marks_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_map, "_MOST_MARKS", 64)
    with Machine() as machine:
        tables = Tables(machine, segment_bytes=3000)
        for n in range(150):
            tables.put([(b"k%d" % (n % 10), b"%d" % n)])
        tables.roll()
        tables.clean()
        assert offsets(tables.log) == list(range(140, 150))
        assert read_on(tables.log, NEWCOMER).table == {b"k%d" % n: b"14%d" % n for n in range(10)}
