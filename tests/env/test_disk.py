"""The file system of this machine."""

from __future__ import annotations

import os
from pathlib import Path

from ottla.env.disk import PosixDisk


def test_what_is_written_out_early_is_as_it_was(tmp_path: Path) -> None:
    """It is only a wish: content and size do not depend on it."""
    file = PosixDisk().open(str(tmp_path / "file"), create=True)
    content = b"".join(bytes([number]) * 5000 for number in range(4))
    for at in range(0, len(content), 5000):
        file.write((content[at : at + 5000],), at)
        file.write_out(at, 5000)
    file.write_out(1 << 40, 10)
    assert file.pread(len(content), 0) == content
    file.sync()
    assert (file.size(), file.pread(1, 19_999)) == (20_000, b"\x03")
    file.close()


def test_a_lock_that_is_let_go_twice_closes_nothing_else(tmp_path: Path) -> None:
    unlock = PosixDisk().lock(str(tmp_path / ".lock"))
    unlock()
    other = os.open(tmp_path, os.O_RDONLY)  # has the number now

    unlock()

    os.close(other)
    PosixDisk().lock(str(tmp_path / ".lock"))()
