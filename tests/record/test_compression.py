"""Kafka's framings, and the limit that a few hostile bytes cannot pass."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard
from aiokafka import codec as aio
from hypothesis import given
from hypothesis import strategies as st

from ottla.record.batch import Codec
from ottla.record.compression import XERIAL_MAGIC, compress, decompress
from ottla.record.records import BatchTooLarge, CorruptBatch

PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
LARGE = b"".join(b'{"id": %d, "name": "someone"}' % n for n in range(20_000))

THEIR_DECODERS = {
    Codec.GZIP: aio.gzip_decode,
    Codec.SNAPPY: aio.snappy_decode,
    Codec.LZ4: aio.lz4_decode,
    Codec.ZSTD: aio.zstd_decode,
}
THEIR_ENCODERS = {
    Codec.GZIP: aio.gzip_encode,
    Codec.SNAPPY: aio.snappy_encode,
    Codec.LZ4: aio.lz4_encode,
    Codec.ZSTD: aio.zstd_encode,
}


@given(st.binary(max_size=2000), st.sampled_from(Codec))
def test_what_is_packed_is_unpacked(data: bytes, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data), limit=2000) == data


@pytest.mark.parametrize("wrapper", [bytes, bytearray, memoryview])
@pytest.mark.parametrize("codec", Codec)
def test_any_buffer_will_do(codec: Codec, wrapper: type) -> None:
    packed = compress(codec, wrapper(LARGE))

    assert decompress(codec, wrapper(packed), limit=len(LARGE)) == LARGE


@pytest.mark.parametrize("codec", PACKED)
def test_aiokafka_reads_ours_and_we_read_theirs(codec: Codec) -> None:
    assert bytes(THEIR_DECODERS[codec](compress(codec, LARGE))) == LARGE
    assert decompress(codec, bytes(THEIR_ENCODERS[codec](LARGE)), limit=len(LARGE)) == LARGE


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, LARGE))

    assert not info["block_linked"]
    assert info["block_size"] == 64 * 1024


def test_zstd_frames_have_no_content_size_and_those_with_one_are_read() -> None:
    packed = compress(Codec.ZSTD, LARGE)

    assert zstandard.get_frame_parameters(packed).content_size == zstandard.CONTENTSIZE_UNKNOWN
    assert decompress(Codec.ZSTD, zstandard.compress(LARGE), limit=len(LARGE)) == LARGE


def test_snappy_is_written_in_xerials_framing_and_raw_is_read() -> None:
    assert compress(Codec.SNAPPY, LARGE).startswith(XERIAL_MAGIC)
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(LARGE)), limit=len(LARGE)) == LARGE


def test_gzip_members_and_zstd_frames_may_follow_one_another() -> None:
    assert decompress(Codec.GZIP, zlib.compress(b"one", wbits=31) + zlib.compress(b"two", wbits=31), limit=9) == (
        b"onetwo"
    )
    assert decompress(Codec.ZSTD, zstandard.compress(b"one") + zstandard.compress(b"two"), limit=9) == b"onetwo"


@pytest.mark.parametrize("codec", Codec)
def test_the_limit_is_exact(codec: Codec) -> None:
    packed = compress(codec, LARGE)

    assert len(decompress(codec, packed, limit=len(LARGE))) == len(LARGE)
    with pytest.raises(BatchTooLarge, match=str(len(LARGE) - 1)):
        decompress(codec, packed, limit=len(LARGE) - 1)


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_takes_no_more_memory_than_the_limit(codec: Codec) -> None:
    bomb = compress(codec, bytes(64 << 20))
    limit = 1 << 20
    decompress(codec, compress(codec, b"the library is loaded"), limit=limit)

    tracemalloc.start()
    with pytest.raises(BatchTooLarge):
        decompress(codec, bomb, limit=limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    # the compressed bytes may be held twice, the plain ones once as chunks
    assert peak < 2 * limit + 2 * len(bomb)


def test_a_snappy_length_that_lies_is_refused_before_anything_is_reserved() -> None:
    claim = b"\xff\xff\xff\xff\x0f" + b"\x00a"  # 4 GiB from two bytes

    with pytest.raises(BatchTooLarge):
        decompress(Codec.SNAPPY, claim, limit=1 << 20)


def test_a_zstd_content_size_that_lies_reserves_nothing() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=True).compress(b"x" * 300)
    lying = bytearray(frame)
    header = zstandard.frame_header_size(frame)
    assert zstandard.get_frame_parameters(frame).content_size == 300
    lying[header - 2 : header] = b"\xff\xff"  # 300 became 65,791

    with pytest.raises(CorruptBatch):
        decompress(Codec.ZSTD, bytes(lying), limit=1 << 20)


@pytest.mark.parametrize("codec", PACKED)
def test_every_cut_is_noticed(codec: Codec) -> None:
    packed = compress(codec, LARGE)

    for cut in (0, 1, 5, 12, 17, len(packed) // 2, len(packed) - 9, len(packed) - 1):
        if codec == Codec.ZSTD and cut == 0:
            continue  # nothing is a good stream of no frames
        with pytest.raises(CorruptBatch):
            decompress(codec, packed[:cut], limit=len(LARGE))


@given(st.sampled_from(PACKED), st.data())
def test_damage_raises_one_kind_of_error(codec: Codec, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, LARGE[:5000]))
    for _ in range(data.draw(st.integers(1, 4))):
        packed[data.draw(st.integers(0, len(packed) - 1))] = data.draw(st.integers(0, 255))

    try:
        assert len(decompress(codec, packed, limit=10_000)) <= 10_000
    except CorruptBatch:
        pass


@given(st.sampled_from(PACKED), st.binary(max_size=100))
def test_garbage_raises_one_kind_of_error(codec: Codec, garbage: bytes) -> None:
    try:
        decompress(codec, garbage, limit=10_000)
    except CorruptBatch:
        pass


def test_an_unknown_codec_is_told() -> None:
    with pytest.raises(CorruptBatch, match="codec 5"):
        decompress(5, b"", limit=1)


def test_no_codec_library_is_loaded_before_it_is_needed() -> None:
    script = (
        "import sys, ottla.record.builder, ottla.record.reader, ottla.record.validate;"
        "print([name for name in ('cramjam', 'lz4', 'zstandard') if name in sys.modules])"
    )

    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert loaded.stdout.strip() == "[]"
