"""The file system of this machine."""

from __future__ import annotations

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
