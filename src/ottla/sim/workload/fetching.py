"""Fetch as a consumer by assignment speaks it, version 13, by hand: most of what clients ask is this."""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

from ottla.sim.log_files import PartitionId
from ottla.wire.varint import uvarint

VERSION: Final = 13

_HEAD: Final = Struct(">iiiibii")  # who, longest wait, fewest bytes, most bytes, isolation, session, its epoch
_ROW: Final = Struct(">iiqiqib")  # with the number of tagged fields
_NO_SESSION: Final = (0, -1)
_END: Final = b"\x01\x01\x00"  # nothing forgotten, no rack, no tagged fields


class Wish(NamedTuple):
    partition: PartitionId
    leader_epoch: int
    offset: int


def request(wishes: Iterable[Wish], *, max_wait_s: float, max_bytes: int) -> bytes:
    """Of each partition that many bytes, of all together three times as many."""
    topics: dict[UUID, list[bytes]] = {}
    for (topic_id, number), epoch, offset in wishes:
        topics.setdefault(topic_id, []).append(_ROW.pack(number, epoch, offset, -1, -1, max_bytes, 0))
    parts = [_HEAD.pack(-1, int(max_wait_s * 1000), 1, 3 * max_bytes, 0, *_NO_SESSION), uvarint(len(topics) + 1)]
    for topic_id, rows in topics.items():
        parts += (topic_id.bytes, uvarint(len(rows) + 1), *rows, b"\x00")
    return b"".join((*parts, _END))
