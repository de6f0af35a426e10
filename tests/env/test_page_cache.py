"""What is in memory is known to be, what is not is not taken for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.env import page_cache
from ottla.env.page_cache import is_cached

SIZE = 1 << 20


def evict(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").write_bytes(bytes(SIZE))
    return tmp_path / "data"


def test_what_was_just_written_is_in_memory_unless_the_kernel_cannot_tell(path: Path) -> None:
    with path.open("rb") as file:
        if not is_cached(file.fileno(), 0, SIZE):
            pytest.skip("this kernel has no cachestat (Linux 6.5)")
        assert is_cached(file.fileno(), 4095, 2)


def test_what_was_evicted_is_not(path: Path) -> None:
    evict(path)
    with path.open("rb") as file:
        assert not is_cached(file.fileno(), 0, SIZE)


def test_one_missing_page_is_enough(path: Path) -> None:
    evict(path)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)  # no reading ahead
        os.pread(file.fileno(), 1, 0)
        assert not is_cached(file.fileno(), 0, SIZE)


def test_a_kernel_that_refuses_to_tell(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "_syscall", lambda *_: -1)
    with path.open("rb") as file:
        assert not is_cached(file.fileno(), 0, SIZE)
    monkeypatch.setattr(page_cache, "_syscall", None)
    with path.open("rb") as file:
        assert not is_cached(file.fileno(), 0, SIZE)
