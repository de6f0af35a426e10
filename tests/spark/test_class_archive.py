from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.spark.class_archive import ClassArchive

pytest.importorskip("pyspark")


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return ClassArchive(Path("/java"))


def test_one_that_is_not_there_is_made_by_who_can_and_not_used(archive: ClassArchive) -> None:
    assert archive.using() == ""
    assert f"-XX:ArchiveClassesAtExit={archive.file} " in archive.making()


def test_one_that_is_being_written_is_left_alone_and_one_that_never_was_is_made_anew(archive: ClassArchive) -> None:
    archive.making()
    archive.file.write_bytes(bytes(4096))  # its head comes last
    assert (archive.using(), archive.making()) == ("", "")
    os.utime(archive.file, (1, 1))
    assert "-XX:ArchiveClassesAtExit=" in archive.making() and archive.using() == ""


def test_one_that_is_whole_is_used(archive: ClassArchive) -> None:
    archive.making()
    archive.file.write_bytes(b"\xa8\xba\x0b\xf0" + bytes(100))
    assert archive.making() == archive.using()
    assert f"-XX:SharedArchiveFile={archive.file} -Xshare:auto" in archive.using()


def test_another_java_has_another(archive: ClassArchive) -> None:
    assert ClassArchive(Path("/other")).file != archive.file
