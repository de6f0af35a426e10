"""The file `meta.properties` of a log directory: to which cluster and node it belongs, and its own id."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from ottla.env.files import read_file, sync_path_to, write_atomically
from ottla.env.ports import Disk
from ottla.model.config.properties import parse_properties
from ottla.model.errors import OttlaError
from ottla.model.ids import parse_uuid, random_uuid, uuid_text

__all__ = ["MetaProperties", "decode", "encode", "load", "parse_uuid", "random_uuid", "store", "uuid_text"]

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"  # 0 belonged to ZooKeeper clusters
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


def _stored(values: Mapping[str, str]) -> str:
    return "".join(f"{name}={_escaped(value)}\n" for name, value in values.items())


def _escaped(value: str) -> str:
    text = _ESCAPED.sub(lambda found: _NAMED.get(found.group(), "\\" + found.group()), value)
    text = "".join(char if " " <= char <= "~" else f"\\u{ord(char):04X}" for char in text)
    return "\\" + text if text.startswith(" ") else text
