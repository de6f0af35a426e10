"""Kafka's four codecs, in the framings that the Java clients write and read.

    gzip    RFC 1952 members
    snappy  written in xerial's framing; read in it and raw (librdkafka and Go clients send raw)
    lz4     a frame of independent 64 KiB blocks: Java refuses linked ones
    zstd    frames without content size, as zstd-jni streams them

Each library is imported with the first batch that needs it: most nodes never decompress anything.
"""

import zlib
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from ottla.env.ports import Buffer
from ottla.record.batch import Codec
from ottla.record.records import BatchTooLarge, CorruptBatch

XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"  # version 1, readable by version 1
_XERIAL_BLOCK: Final = 32 * 1024
_GZIP_WINDOW: Final = 31  # zlib's number for: gzip framing, largest window
_LZ4_DEFAULT: Final = 9  # for which Java takes its fast compressor, and not the one with levels
_ZSTD_DEFAULT: Final = 3
_FIRST_CHUNK: Final = 64 * 1024


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """`level` is what Kafka's compression.gzip.level, .lz4.level or .zstd.level say; None for the codec's default."""
    return _COMPRESSORS[codec](data, level)


def decompress(codec: int, data: Buffer, *, limit: int) -> bytes:
    """The plain bytes; CorruptBatch if they cannot be had, BatchTooLarge if they would be more than `limit`.

    Output grows with what really comes out, never with what a header promises, so a few hostile bytes cannot
    make the node allocate more than about the limit.
    """
    function = _DECOMPRESSORS.get(codec)
    if function is None:
        raise CorruptBatch(f"unknown compression codec {codec}")
    return function(data, limit)


def _too_large(codec: Codec, limit: int) -> BatchTooLarge:
    return BatchTooLarge(f"{codec.name.lower()} records decompress to more than the {limit} bytes allowed")


def _drain(read: Callable[[int], bytes], compressed_size: int, codec: Codec, limit: int) -> bytes:
    """Reads to the end in chunks that double: one chunk for nearly all batches, and no large buffer for a small one."""
    chunk_size = max(_FIRST_CHUNK, compressed_size * 8)
    chunks: list[bytes] = []
    total = 0
    while True:
        chunk = read(min(chunk_size, limit + 1 - total))
        if not chunk:
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        total += len(chunk)
        if total > limit:
            raise _too_large(codec, limit)
        chunks.append(chunk)
        chunk_size *= 2


def _no_compression(data: Buffer, level: int | None) -> bytes:
    return bytes(data)


def _no_decompression(data: Buffer, limit: int) -> bytes:
    if len(data) > limit:
        raise BatchTooLarge(f"records take {len(data)} bytes, more than the {limit} bytes allowed")
    return bytes(data)


def _gzip(data: Buffer, level: int | None) -> bytes:
    return zlib.compress(data, zlib.Z_DEFAULT_COMPRESSION if level is None else level, wbits=_GZIP_WINDOW)


def _gunzip(data: Buffer, limit: int) -> bytes:
    stream = zlib.decompressobj(_GZIP_WINDOW)
    waiting: Buffer = data

    def read(size: int) -> bytes:
        nonlocal stream, waiting
        while True:
            try:
                plain = stream.decompress(waiting, size)
            except zlib.error as error:
                raise CorruptBatch(f"gzip records are damaged: {error}") from None
            if plain:
                waiting = stream.unconsumed_tail
                return plain
            if not stream.eof:
                raise CorruptBatch("gzip records end in the middle of a member")
            waiting = stream.unused_data
            if not waiting:
                return b""
            stream = zlib.decompressobj(_GZIP_WINDOW)

    return _drain(read, len(data), Codec.GZIP, limit)


@cache
def _snappy_library() -> Any:
    import cramjam

    return cramjam.snappy, cramjam.DecompressionError


def _snappy(data: Buffer, level: int | None) -> bytes:
    library, _ = _snappy_library()
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for start in range(0, len(view), _XERIAL_BLOCK):
        block = bytes(library.compress_raw(bytes(view[start : start + _XERIAL_BLOCK])))
        parts += len(block).to_bytes(4, "big"), block
    return b"".join(parts)


def _unsnappy(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    if bytes(view[: len(XERIAL_MAGIC)]) != XERIAL_MAGIC:
        return _unsnappy_block(view, limit, limit)
    parts: list[bytes] = []
    total = 0
    position = len(_XERIAL_HEADER)
    if len(view) < position:
        raise CorruptBatch("snappy records end inside the stream header")
    while position < len(view):
        start = position + 4
        end = start + int.from_bytes(view[position:start], "big")
        if end > len(view) or start >= end:
            raise CorruptBatch("a snappy block ends outside the batch")
        parts.append(_unsnappy_block(view[start:end], limit - total, limit))
        total += len(parts[-1])
        position = end
    return b"".join(parts)


def _unsnappy_block(block: memoryview, room: int, limit: int) -> bytes:
    library, failure = _snappy_library()
    raw = bytes(block)
    try:
        if library.decompress_raw_len(raw) > room:
            raise _too_large(Codec.SNAPPY, limit)
        return bytes(library.decompress_raw(raw))
    except failure as error:
        raise CorruptBatch(f"snappy records are damaged: {error}") from None


@cache
def _lz4_library() -> Any:
    import lz4.frame

    return lz4.frame


def _lz4(data: Buffer, level: int | None) -> bytes:
    library = _lz4_library()
    packed: bytes = library.compress(
        data,
        compression_level=0 if level in (None, _LZ4_DEFAULT) else level,
        block_size=library.BLOCKSIZE_MAX64KB,
        block_linked=False,
        store_size=False,
        content_checksum=False,
    )
    return packed


def _unlz4(data: Buffer, limit: int) -> bytes:
    stream = _lz4_library().LZ4FrameDecompressor()
    waiting: Buffer = data

    def read(size: int) -> bytes:
        nonlocal waiting
        if stream.eof:
            return b""
        try:
            plain: bytes = stream.decompress(waiting, size)
        except (RuntimeError, EOFError) as error:
            raise CorruptBatch(f"lz4 records are damaged: {error}") from None
        waiting = b""
        if not plain and not stream.eof:
            raise CorruptBatch("lz4 records end in the middle of a frame")
        return plain

    return _drain(read, len(data), Codec.LZ4, limit)


@cache
def _zstd_library() -> Any:
    import zstandard

    return zstandard


def _zstd(data: Buffer, level: int | None) -> bytes:
    library = _zstd_library()
    level = _ZSTD_DEFAULT if level in (None, 0) else level  # 0 is zstd's own word for its default
    packed: bytes = library.ZstdCompressor(level, write_content_size=False).compress(data)
    return packed


def _unzstd(data: Buffer, limit: int) -> bytes:
    library = _zstd_library()
    _check_zstd_ends(memoryview(data), library)
    stream = library.ZstdDecompressor().stream_reader(data, read_across_frames=True)

    def read(size: int) -> bytes:
        try:
            plain: bytes = stream.read(size)
        except library.ZstdError as error:
            raise CorruptBatch(f"zstd records are damaged: {error}") from None
        return plain

    return _drain(read, len(data), Codec.ZSTD, limit)


def _check_zstd_ends(data: memoryview, library: Any) -> None:
    """The library's reader takes a frame that was cut for a shorter one: walks over the blocks to the end first."""
    position = 0
    while position < len(data):
        try:
            has_checksum = library.get_frame_parameters(data[position:]).has_checksum
            position += library.frame_header_size(data[position:])
        except library.ZstdError as error:
            raise CorruptBatch(f"zstd records are damaged: {error}") from None
        last = 0
        while not last:
            # RFC 8878, 3.1.1.2: bit 0 marks the last block, bits 1-2 are its type, the rest is its size
            block = int.from_bytes(data[position : position + 3], "little")
            last = block & 1
            is_run = block >> 1 & 3 == 1  # one byte, to be repeated `size` times
            position += 3 + (1 if is_run else block >> 3)
            if position > len(data):
                raise CorruptBatch("zstd records end in the middle of a frame")
        position += 4 if has_checksum else 0
    if position > len(data):
        raise CorruptBatch("zstd records end in the middle of a frame")


_COMPRESSORS: Final[dict[int, Callable[[Buffer, int | None], bytes]]] = {
    Codec.NONE: _no_compression,
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESSORS: Final[dict[int, Callable[[Buffer, int], bytes]]] = {
    Codec.NONE: _no_decompression,
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
