"""Small whole files: read at once, replaced in one step that survives a loss of power."""

import os.path
from errno import EMFILE, ENFILE, ENOMEM
from typing import Final

from ottla.env.ports import Disk

_MOST: Final = 4096
_SHORTAGES: Final = (EMFILE, ENFILE, ENOMEM)


def is_shortage(error: OSError) -> bool:
    """Of open files or memory, which passes: it says nothing about the disk."""
    return error.errno in _SHORTAGES


def read_file(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        data = file.pread(_MOST, 0)  # most are small: their size need not be asked for
        return data if len(data) < _MOST else file.pread(file.size(), 0)
    finally:
        file.close()


def write_atomically(disk: Disk, path: str, data: bytes) -> None:
    """Afterwards the file has the new content durably, or still the old one; never a mixture. Blocks on fsync."""
    _write_temporary(disk, path, data, sync=True)
    disk.rename(path + ".tmp", path)
    disk.sync_dir(os.path.dirname(path))


def replace_file(disk: Disk, path: str, data: bytes, *, sync: bool = False) -> None:
    """As a running process sees it, in one step; nothing is durable before `sync_file` and the folder's sync.

    Until then a loss of power may leave an empty file; with `sync`, which blocks, the old content or the new one.
    """
    _write_temporary(disk, path, data, sync=sync)
    disk.rename(path + ".tmp", path)


def write_new_file(disk: Disk, path: str, data: bytes) -> None:
    """One that is not there yet, in place: a crash may leave a part of it."""
    file = disk.open(path, create=True)
    try:
        file.write((data,), 0)
    finally:
        file.close()


def sync_file(disk: Disk, path: str) -> None:
    file = disk.open(path)
    try:
        file.sync()
    finally:
        file.close()


def sync_path_to(disk: Disk, folder: str) -> None:
    """Makes a folder's own name durable, and those of the folders above it, which may be new as well. Blocks on fsync.

    The way up ends where we may not look: what others own was there before.
    """
    while folder not in ("", "/", "."):
        folder = os.path.dirname(folder) or "."
        try:
            disk.sync_dir(folder)
        except PermissionError:
            return


def _write_temporary(disk: Disk, path: str, data: bytes, *, sync: bool) -> None:
    file = disk.open(path + ".tmp", create=True)
    try:
        file.truncate(0)
        file.write((data,), 0)
        if sync:
            file.sync()
    finally:
        file.close()
