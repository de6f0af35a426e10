"""The file `meta.properties` of a log directory: to which cluster and node it belongs, and its own id."""

import base64
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.env.files import read_file, sync_path_to, write_atomically
from ottla.env.ports import Disk, Randomness
from ottla.metadata.image import RESERVED_DIRECTORIES
from ottla.model.config.properties import parse_properties
from ottla.model.errors import OttlaError

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"  # 0 belonged to ZooKeeper clusters
_ID: Final = re.compile(r"[A-Za-z0-9_-]{22}")
_ESCAPED: Final = re.compile(r"[\\=:#!\t\n\r\f]")
_NAMED: Final = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}


class Damaged(OttlaError):
    """The file is there and says something that cannot be."""


@dataclass(frozen=True, slots=True)
class MetaProperties:
    cluster_id: str
    node_id: int
    directory_id: UUID


def encode(meta: MetaProperties, now_ms: int) -> bytes:
    """As Java's Properties.store: a comment, the date, the entries."""
    date = time.strftime("%a %b %d %H:%M:%S UTC %Y", time.gmtime(now_ms / 1000))
    values = {
        "cluster.id": meta.cluster_id,
        "directory.id": uuid_text(meta.directory_id),
        "node.id": str(meta.node_id),
        "version": _VERSION,
    }
    return f"#\n#{date}\n{_stored(values)}".encode()


def decode(data: bytes, source: str = FILE_NAME) -> MetaProperties:
    values = {entry.name: entry.value for entry in parse_properties(data.decode("latin-1"), source)}
    try:
        if values["version"] != _VERSION:
            raise Damaged(f"{source} has version {values['version']}, only 1 is known: it is not of a KRaft cluster")
        return MetaProperties(values["cluster.id"], int(values["node.id"]), parse_uuid(values["directory.id"]))
    except KeyError as error:
        raise Damaged(f"{source} does not say {error}: format the storage again, or restore the file") from error
    except ValueError as error:
        raise Damaged(f"{source} is damaged: {error}. Restore it.") from error


def load(disk: Disk, folder: str) -> MetaProperties | None:
    """None for a directory that is not formatted; OSError if that cannot be told."""
    path = f"{folder}/{FILE_NAME}"
    try:
        return decode(read_file(disk, path), path)
    except FileNotFoundError:
        return None


def store(disk: Disk, folder: str, meta: MetaProperties, now_ms: int) -> None:
    """Durable when it returns, as is the folder itself; blocks on fsync."""
    sync_path_to(disk, folder)
    write_atomically(disk, f"{folder}/{FILE_NAME}", encode(meta, now_ms))


def uuid_text(value: UUID) -> str:
    """Ids as Kafka prints and stores them: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode().rstrip("=")


def parse_uuid(text: str) -> UUID:
    """ValueError if this is not 22 characters of URL-safe base64."""
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is not an id: 22 letters, digits, '-' or '_' are needed")
    return UUID(bytes=base64.urlsafe_b64decode(text + "=="))


def random_uuid(random: Randomness) -> UUID:
    """Like Kafka's: never one that a command line would take for an option, nor one with a meaning of its own."""
    while True:
        value = random.uuid()
        if not uuid_text(value).startswith("-") and value not in RESERVED_DIRECTORIES:
            return value


def _stored(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    text = _ESCAPED.sub(lambda found: _NAMED.get(found.group(), "\\" + found.group()), value)
    text = "".join(char if " " <= char <= "~" else f"\\u{ord(char):04X}" for char in text)
    return "\\" + text if text.startswith(" ") else text
