"""The file system of this machine, for looking only."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NoReturn

from ottla.env.disk import PosixDisk, PosixFile


class ReadOnlyDisk(PosixDisk):
    """Files are opened for reading, so that writing to one fails; names stay as they are."""

    def open(self, path: str, *, create: bool = False) -> PosixFile:
        return PosixFile(path, os.open(path, os.O_RDONLY | os.O_CLOEXEC), self.times)

    def make_dirs(self, path: str) -> None:
        _refuse(path)

    def rename(self, source: str, target: str) -> None:
        _refuse(source)

    def remove(self, path: str) -> None:
        _refuse(path)

    def remove_tree(self, path: str) -> None:
        _refuse(path)

    def lock(self, path: str) -> Callable[[], None]:
        _refuse(path)


def _refuse(path: str) -> NoReturn:
    raise AssertionError(f"{path} must not be changed")
