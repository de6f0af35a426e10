"""Small whole files: read at once, replaced in one step that survives a loss of power."""

import os.path

from ottla.env.ports import Disk


def read_file(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.pread(file.size(), 0)
    finally:
        file.close()


def write_atomically(disk: Disk, path: str, data: bytes) -> None:
    """Afterwards the file has the new content durably, or still the old one; never a mixture. Blocks on fsync."""
    temporary = path + ".tmp"
    file = disk.open(temporary, create=True)
    try:
        file.truncate(0)
        file.write((data,), 0)
        file.sync()
    finally:
        file.close()
    disk.rename(temporary, path)
    disk.sync_dir(os.path.dirname(path))
