"""What a follower has fetched from its leader: batches one after the other, the last of them perhaps cut short."""

from __future__ import annotations

from ottla.env.ports import Buffer
from ottla.record.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_V2,
    BatchHeader,
    computed_crc,
    parse_header,
)


class CorruptFetch(Exception):
    """Bytes that cannot be batches of the leader's log: damaged on their way, or on its disk."""


class UnexpectedOffset(Exception):
    """Whole batches, but not those that come next."""


def fetched_batches(records: Buffer, next_offset: int, leader_epoch: int) -> list[BatchHeader]:
    """The headers of those that may be appended: whole, in order, of no later epoch than the one followed.

    An epoch that is not known here yet means that the leader was deposed and elected again meanwhile: what it has
    appended since counts when the metadata have told of it.
    """
    view = memoryview(records)
    headers: list[BatchHeader] = []
    position, size = 0, len(view)
    while position + HEADER_SIZE <= size:
        header = parse_header(view, position)
        end = position + header.length + LOG_OVERHEAD
        if header.magic != MAGIC_V2 or header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptFetch(f"no batch at byte {position} of {size}, where offset {next_offset} was expected")
        if end > size or header.leader_epoch > leader_epoch:
            break
        if header.base_offset < next_offset or header.last_offset_delta < 0:
            raise UnexpectedOffset(f"a batch from {header.base_offset} on, expected was {next_offset}")
        if computed_crc(view[position:end]) != header.crc:
            raise CorruptFetch(f"the batch at offset {header.base_offset} does not match its checksum")
        headers.append(header)
        next_offset, position = header.next_offset, end
    return headers
