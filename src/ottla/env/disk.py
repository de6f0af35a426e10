"""The file system of this machine behind the disk port."""

import contextlib
import errno
import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from time import monotonic
from typing import ClassVar, Final

from ottla.env.metrics import Family, Gathered, Kind, Times
from ottla.env.page_cache import is_cached
from ottla.env.ports import Buffer

_IOV_MAX = 1024
_SKIPPED_WRITES = 15
_SMALL_READ = 16 * 1024  # entries of indexes, headers of batches: many, and not worth measuring

DISK_WRITES: Final = Family(
    "ottla_disk_write_seconds",
    Kind.HISTOGRAM,
    "How long appends to files took (one in 16 is measured): into the page cache, unless it is full.",
)
DISK_READS: Final = Family(
    "ottla_disk_read_seconds", Kind.HISTOGRAM, "How long reads of 16 KiB and more took, from memory or from the disk."
)
DISK_SYNCS: Final = Family(
    "ottla_disk_sync_seconds", Kind.HISTOGRAM, "How long it took to make files durable (fdatasync, fsync of folders)."
)
FLUSHES: Final = Family(
    "kafka_log_logflushstats_logflushrateandtimems", Kind.SUMMARY,
    "How long it took to make files durable, in milliseconds.", ("quantile",),
)  # fmt: skip


class DiskTimes:
    """How long the file system took for what it was asked."""

    __slots__ = ("reads", "skipped", "syncs", "writes")

    def __init__(self) -> None:
        self.skipped = 0  # writes since one was measured: looking at a clock costs a tenth of a small one
        self.writes = Times()
        self.reads = Times()
        self.syncs = Times()

    def collect(self) -> Iterator[Gathered]:
        yield Gathered(DISK_WRITES, self.writes.histogram())
        yield Gathered(DISK_READS, self.reads.histogram())
        yield Gathered(DISK_SYNCS, self.syncs.histogram())
        yield Gathered(FLUSHES, self.syncs.summary_ms())


class PosixFile:
    __slots__ = ("_fd", "_times", "path")
    gives_way: ClassVar[bool] = False

    def __init__(self, path: str, fd: int, times: DiskTimes) -> None:
        self.path = path
        self._fd = fd
        self._times = times

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        wanted = sum(map(len, buffers))
        times = self._times
        if times.skipped < _SKIPPED_WRITES:
            times.skipped += 1
            if len(buffers) <= _IOV_MAX and os.pwritev(self._fd, buffers, position) == wanted:
                return
        else:
            times.skipped = 0
            began = monotonic()
            if len(buffers) <= _IOV_MAX and os.pwritev(self._fd, buffers, position) == wanted:
                times.writes.note(monotonic() - began)
                return
        # A short write: a signal, a nearly full disk, or too many buffers. Writing again from the start is idempotent.
        data = memoryview(b"".join(buffers))
        done = 0
        while done < wanted:
            done += os.pwrite(self._fd, data[done:], position + done)

    def pread(self, size: int, position: int) -> bytes:
        if size < _SMALL_READ:
            return os.pread(self._fd, size, position)
        began = monotonic()
        data = os.pread(self._fd, size, position)
        self._times.reads.note(monotonic() - began)
        return data

    def pread_nowait(self, size: int, position: int) -> bytes | bytearray | None:
        buffer = bytearray(size)
        began = monotonic() if size >= _SMALL_READ else None
        try:
            got = os.preadv(self._fd, (buffer,), position, _NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno not in _NO_NOWAIT:
                raise
            return self.pread(size, position)  # not every file system has it
        if began is not None:
            self._times.reads.note(monotonic() - began)
        if got == size:
            return buffer
        return buffer[:got] if got else None

    def send_nowait(self, socket: int, size: int, position: int) -> int:
        if not is_cached(self._fd, position, size):
            return 0
        try:
            return os.sendfile(socket, self._fd, position, size)
        except OSError:  # the socket is full or gone; or this file system cannot, or must wait: a read will tell
            return 0

    def truncate(self, size: int) -> None:
        os.ftruncate(self._fd, size)

    def write_out(self, position: int, size: int) -> None:
        # Linux begins to write what is dirty before it lets go of what is not. No advice is a promise, and none fails.
        if sys.platform == "linux":
            with contextlib.suppress(OSError):
                os.posix_fadvise(self._fd, position, size, os.POSIX_FADV_DONTNEED)

    def sync(self) -> None:
        began = monotonic()
        os.fdatasync(self._fd)
        self._times.syncs.note(monotonic() - began)

    def close(self) -> None:
        fd, self._fd = self._fd, -1  # before it is closed: while it is, another thread may come to do the same
        if fd >= 0:
            os.close(fd)

    # A deleted segment's file may still be sent to a reader or synced in a thread: whoever lets go last closes it.
    __del__ = close


_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_NO_NOWAIT = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


class PosixDisk:
    def __init__(self) -> None:
        self.times = DiskTimes()

    def open(self, path: str, *, create: bool = False) -> PosixFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return PosixFile(path, os.open(path, flags, 0o644), self.times)

    def list_dir(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def list_folders(self, path: str) -> list[str]:
        with os.scandir(path) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir())

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_dir(self, path: str) -> bool:
        return os.path.isdir(path)

    def file_size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def make_dirs(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(source, target)

    def remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path, ignore_errors=True)

    def sync_dir(self, path: str) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        began = monotonic()
        try:
            os.fsync(fd)
            self.times.syncs.note(monotonic() - began)
        finally:
            os.close(fd)

    def space(self, path: str) -> tuple[int, int]:
        found = os.statvfs(path)
        return found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize

    def lock(self, path: str) -> Callable[[], None]:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise
        return PosixFile(path, fd, self.times).close
