"""Where a segment's objects are in the store. docs/reference/tier-layout.md tells it to other engines.

    TOPIC-TOPIC_ID/PARTITION/BASE_OFFSET-SEGMENT_ID.KIND

Ids are in base64 as Kafka prints them; the base offset has twenty digits, so that names sort as offsets do.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from ottla.log.paths import offset_name
from ottla.tier.remote_segment import RemotePartition, RemoteSegment

_KEY: Final = re.compile(
    r"(?P<topic>[^/]+)-(?P<topic_id>[A-Za-z0-9_-]{22})/(?P<partition>\d+)/"
    r"(?P<base>\d{20})-(?P<id>[A-Za-z0-9_-]{22})\.(?P<kind>[a-z-]+)"
)


class Kind(StrEnum):
    """The objects of a segment. All but the last are files as they lie in a log's folder."""

    LOG = "log"
    INDEX = "index"
    TIME_INDEX = "timeindex"
    TXN_INDEX = "txnindex"
    EPOCHS = "leader-epoch-checkpoint"
    SNAPSHOT = "snapshot"
    MANIFEST = "manifest"


class ObjectName(NamedTuple):
    of: RemotePartition
    base_offset: int
    segment_id: UUID
    kind: Kind


def short_id(value: UUID) -> str:
    return urlsafe_b64encode(value.bytes).decode().rstrip("=")


def partition_folder(of: RemotePartition) -> str:
    return f"{of.topic}-{short_id(of.topic_id)}/{of.partition}"


def object_key(segment: RemoteSegment, kind: Kind) -> str:
    return f"{partition_folder(segment.of)}/{offset_name(segment.start_offset)}-{short_id(segment.id)}.{kind.value}"


def object_keys(segment: RemoteSegment) -> list[str]:
    """All that a segment may have; the manifest first, since without it the others count for nothing."""
    return [object_key(segment, kind) for kind in (Kind.MANIFEST, *(kind for kind in Kind if kind != Kind.MANIFEST))]


def parse_key(key: str) -> ObjectName | None:
    """None for what is not one of our names."""
    match = _KEY.fullmatch(key)
    if match is None or match["kind"] not in {kind.value for kind in Kind}:
        return None
    of = RemotePartition(match["topic"], _long_id(match["topic_id"]), int(match["partition"]))
    return ObjectName(of, int(match["base"]), _long_id(match["id"]), Kind(match["kind"]))


def _long_id(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))
