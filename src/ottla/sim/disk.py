"""A disk in memory with crash semantics: the disk port over sim/platter.py and sim/inode.py.

A SimDisk lives as long as the process that uses it. `crash` (kill -9) and `power_loss` end it and give the disk that
the next process finds; the old one, and every file opened through it, then raises SimulatedCrash at each use, so that
code of a dead process cannot reach the living disk. Asking a dead disk again gives another possible outcome, which
makes a test of many outcomes cheap:

    disk = SimDisk(Random(1))
    disk.crash_at(7, Moment.DURING)
    with suppress(SimulatedCrash):
        work_on(disk)
    for seed in range(100):
        check(disk.power_loss(Random(seed)))
"""

from __future__ import annotations

import errno
import posixpath
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from random import Random
from typing import ClassVar
from zlib import crc32

from ottla.env.ports import Buffer
from ottla.sim.faults import Fault, Faults, Moment, Operation, bad_handle, system_error
from ottla.sim.incarnation import SimulatedCrash
from ottla.sim.inode import Inode
from ottla.sim.platter import Folder, Naming, Node, Platter

Observer = Callable[[str, str], None]


class SimDisk:
    def __init__(
        self,
        random: Random,
        *,
        now_ms: Callable[[], int] = lambda: 0,
        cold_reads: float = 0.0,
        observe: Observer = lambda event, details: None,
        on_death: Callable[[], None] = lambda: None,
        platter: Platter | None = None,
    ) -> None:
        """`cold_reads` is how often `pread_nowait` finds nothing, or only the beginning, in memory.

        `observe` is told of each mutation, `on_death` when a planned crash comes.
        """
        self.random = random
        self.now_ms = now_ms
        self.cold_reads = cold_reads
        self.operations = 0
        """Mutating operations so far: what `crash_at` counts."""
        self.alive = True
        self.failures: Counter[Operation] = Counter()
        """How often an operation failed, by kind, since this disk was made."""
        self._observe = observe
        self._on_death = on_death
        self._platter = Platter() if platter is None else platter
        self._faults = Faults()
        self._locks: list[Inode] = []
        self._folders: dict[str, Folder] = {}
        """Those that were asked for, by path; forgotten as soon as any folder goes elsewhere."""

    # Faults

    def crash_at(self, operation: int, moment: Moment = Moment.BEFORE) -> None:
        """Plans the death of the process at a mutating operation, counted from 1 since this disk was made."""
        if operation <= self.operations:
            raise ValueError(f"operation {operation} has passed already, this disk is at {self.operations}")
        self._faults.crash_number, self._faults.crash_moment = operation, moment

    def fail(
        self,
        pattern: str,
        error: int = errno.EIO,
        operations: Iterable[Operation] = ("write", "sync"),
        times: int | None = None,
    ) -> Fault:
        """Lets operations fail on files whose path or name matches the pattern, until `Fault.heal` or `heal`."""
        return self._faults.add(pattern, error, operations, times)

    def heal(self) -> None:
        self._faults.heal()

    def forget_plans(self) -> None:
        """No crash is planned any more."""
        self._faults.crash_number = 0

    def crash(self) -> SimDisk:
        """The process dies; all that was written is there for the next one."""
        return self._successor(self._platter.after_crash(), self.random)

    def power_loss(self, random: Random | None = None) -> SimDisk:
        """The machine dies; what was synced is there, of the rest some."""
        random = self.random if random is None else random
        return self._successor(self._platter.after_power_loss(random), random)

    def replaced(self) -> SimDisk:
        """The machine gets another disk, which is empty."""
        return self._successor(Platter(), self.random)

    def rot(self, path: str, position: int, bit: int) -> None:
        """A bit of a file changes by itself, on the platter and so for every reader."""
        node = self._existing(path)
        assert isinstance(node, Inode)
        node.rot(position, 1 << bit)
        self._observe("disk rot", f"{path} bit {bit} of byte {position}")

    def _successor(self, platter: Platter, random: Random) -> SimDisk:
        self.alive = False
        return SimDisk(
            random,
            now_ms=self.now_ms,
            cold_reads=self.cold_reads,
            observe=self._observe,
            on_death=self._on_death,
            platter=platter,
        )

    def digest(self) -> str:
        """A hash of all that readers see."""
        return self._platter.digest()

    def snapshot(self) -> dict[str, bytes | None]:
        """Every path and its bytes (None for a folder), for comparisons in tests."""
        return {path: None if isinstance(node, Folder) else bytes(node.content) for path, node in self._platter.walk()}

    def content(self, path: str) -> bytearray | None:
        """What a reader would find, for an oracle; None if there is no such file."""
        node = self._find(path)
        return node.content if isinstance(node, Inode) else None

    def sure(self) -> dict[str, bytes]:
        """What any loss of power from now on would leave, for an oracle: files, and how much of each."""
        return dict(self._platter.sure())

    # The port

    def open(self, path: str, *, create: bool = False) -> SimFile:
        path, folder, name, node = self._entry(path)
        if isinstance(node, Folder):
            raise system_error(errno.EISDIR, path)
        if node is None:
            if not create:
                raise system_error(errno.ENOENT, path)
            node = Inode(modified_ms=self.now_ms())
            self._name("create", path, Naming(folder, name, node, node))
        return SimFile(self, path, node)

    def list_dir(self, path: str) -> list[str]:
        return sorted(self._folder(path).entries)

    def list_folders(self, path: str) -> list[str]:
        return sorted(name for name, node in self._folder(path).entries.items() if isinstance(node, Folder))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_dir(self, path: str) -> bool:
        return isinstance(self._find(path), Folder)

    def file_size(self, path: str) -> int:
        node = self._existing(path)
        return PAGE_OF_A_FOLDER if isinstance(node, Folder) else len(node.content)

    def modified_ms(self, path: str) -> int:
        node = self._existing(path)
        return 0 if isinstance(node, Folder) else node.modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        node = self._existing(path)
        if not isinstance(node, Folder):
            node.modified_ms = modified_ms

    def make_dirs(self, path: str) -> None:
        parts = _normal(path).split("/")[1:]
        for depth in range(1, len(parts) + 1):
            path, folder, name, node = self._entry("/".join(parts[:depth]))
            if node is None and name:
                made = Folder()
                self._name("make_dir", path, Naming(folder, name, made, made))
            elif isinstance(node, Inode):
                raise system_error(errno.EEXIST, path)

    def rename(self, source: str, target: str) -> None:
        source, source_folder, source_name, node = self._entry(source)
        target, target_folder, target_name, replaced = self._entry(target)
        if node is None:
            raise system_error(errno.ENOENT, source)
        if node is replaced:
            return
        if isinstance(node, Folder) and f"{target}/".startswith(f"{source}/"):
            raise system_error(errno.EINVAL, target)
        if isinstance(replaced, Folder):
            if not isinstance(node, Folder):
                raise system_error(errno.EISDIR, target)
            if replaced.entries:
                raise system_error(errno.ENOTEMPTY, target)
        elif replaced is not None and isinstance(node, Folder):
            raise system_error(errno.ENOTDIR, target)
        gone, come = Naming(source_folder, source_name, None, node), Naming(target_folder, target_name, node, node)
        self._name("rename", source, gone, come, details=f"to {target}")

    def remove(self, path: str) -> None:
        path, folder, name, node = self._entry(path)
        if isinstance(node, Folder):
            raise system_error(errno.EISDIR, path)
        if node is not None:
            self._name("remove", path, Naming(folder, name, None, node))

    def remove_tree(self, path: str) -> None:
        """One operation for each file and folder, deepest first: a crash leaves the rest."""
        node = self._find(path)
        if not isinstance(node, Folder):
            return
        path = _normal(path)
        for name in sorted(node.entries):
            if isinstance(node.entries[name], Folder):
                self.remove_tree(f"{path}/{name}")
            else:
                with suppress(OSError):  # as shutil.rmtree(ignore_errors=True)
                    self.remove(f"{path}/{name}")
        if not node.entries and path != "/":
            _, folder, name, _ = self._entry(path)
            with suppress(OSError):
                self._name("remove_dir", path, Naming(folder, name, None, node))

    def sync_dir(self, path: str) -> None:
        folder = self._folder(path)
        self.mutate("sync_dir", _normal(path), lambda: self._platter.sync_folder(folder))

    def space(self, path: str) -> tuple[int, int]:
        self._folder(path)
        return SPACE, SPACE

    def lock(self, path: str) -> Callable[[], None]:
        inode = self.open(path, create=True).inode
        if any(locked is inode for locked in self._locks):
            raise system_error(errno.EAGAIN, path)
        self._locks.append(inode)

        def release() -> None:
            self._locks[:] = [locked for locked in self._locks if locked is not inode]

        return release

    def _name(self, operation: Operation, path: str, *namings: Naming, details: str = "") -> None:
        self.mutate(operation, path, lambda: self._platter.change(*namings), details=details)
        if isinstance(namings[-1].moved, Folder):
            self._folders.clear()

    # For SimFile

    def mutate(
        self,
        operation: Operation,
        path: str,
        change: Callable[[], None],
        *,
        halfway: Callable[[], None] | None = None,
        on_error: Callable[[], None] = lambda: None,
        details: str = "",
    ) -> None:
        """Every change goes through here. `halfway` is what a crash in its middle leaves behind, if it can be torn."""
        self.check_alive(path)
        if (error := self._faults.error(operation, path)) is not None:
            self.failures[operation] += 1
            on_error()
            self._observe(f"disk {operation} failed", f"{path} {error.strerror}")
            raise error
        self.operations += 1
        if self.operations == self._faults.crash_number:
            self._die(operation, path, change, halfway)
        change()
        self._observe(f"disk {operation}", f"{path} {details}".rstrip())

    def check_read(self, path: str) -> None:
        self.check_alive(path)
        if (error := self._faults.error("read", path)) is not None:
            self.failures["read"] += 1
            raise error

    def check_alive(self, path: str) -> None:
        if not self.alive:
            raise SimulatedCrash(
                f"{path}: the process that used this disk is dead; what follows it has a disk of its own"
            )

    def _die(
        self, operation: Operation, path: str, change: Callable[[], None], halfway: Callable[[], None] | None
    ) -> None:
        moment = self._faults.crash_moment
        if moment is Moment.DURING and halfway is not None:
            halfway()
        elif moment is Moment.AFTER or (moment is Moment.DURING and self.random.random() < 0.5):
            change()
        self.alive = False
        self._observe("disk crash", f"{moment.value} {operation} of {path}, operation {self.operations}")
        self._on_death()
        raise SimulatedCrash(f"planned: {moment.value} operation {self.operations}, {operation} of {path}")

    # Paths

    def _find(self, path: str) -> Node | None:
        self.check_alive(path)
        path, parent, name = _placed(path)
        folder = self._folders.get(parent)
        if folder is None:
            found = self._walked(parent)
            if not isinstance(found, Folder):
                return None
            folder = self._folders[parent] = found
        return folder.entries.get(name) if name else folder

    def _walked(self, path: str) -> Node | None:
        node: Node = self._platter.root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(node, Folder) or (child := node.entries.get(name)) is None:
                return None
            node = child
        return node

    def _existing(self, path: str) -> Node:
        if (node := self._find(path)) is None:
            raise system_error(errno.ENOENT, path)
        return node

    def _folder(self, path: str) -> Folder:
        node = self._existing(path)
        if not isinstance(node, Folder):
            raise system_error(errno.ENOTDIR, path)
        return node

    def _entry(self, path: str) -> tuple[str, Folder, str, Node | None]:
        """A path, made normal; its folder, which must exist; its name there; and what stands at it now."""
        path, parent, name = _placed(path)
        if not name:
            return path, self._platter.root, "", self._folder("/")
        folder = self._folders.get(parent)
        if folder is None or not self.alive:
            folder = self._folder(parent)
        return path, folder, name, folder.entries.get(name)


PAGE_OF_A_FOLDER = 4096
SPACE = 1 << 40


class SimFile:
    """An open file. It stays usable when its name is changed or removed, as on any POSIX system."""

    __slots__ = ("_closed", "_disk", "inode", "path")
    gives_way: ClassVar[bool] = False

    def __init__(self, disk: SimDisk, path: str, inode: Inode) -> None:
        self.path = path
        self.inode = inode
        self._disk = disk
        self._closed = False

    def size(self) -> int:
        self._check_open()
        return len(self.inode.content)

    def write(self, buffers: Sequence[Buffer], position: int) -> None:
        self._check_open()
        data = b"".join(buffers)
        if not data:
            return
        self._disk.mutate(
            "write",
            self.path,
            lambda: self.inode.write(position, data, self._disk.now_ms()),
            halfway=lambda: self._tear(position, data),
            on_error=lambda: self._tear(position, data),
            details=f"{position}+{len(data)} crc {crc32(data):08x}",
        )

    def _tear(self, position: int, data: bytes) -> None:
        written = self._disk.random.randrange(len(data))
        if written:
            self.inode.write(position, data[:written], self._disk.now_ms())

    def pread(self, size: int, position: int) -> bytes:
        self._check_open()
        self._disk.check_read(self.path)
        return bytes(memoryview(self.inode.content)[position : position + size])

    def pread_nowait(self, size: int, position: int) -> bytes | None:
        found = self.pread(size, position)
        if self._disk.cold_reads and self._disk.random.random() < self._disk.cold_reads:
            found = found[: self._disk.random.randrange(len(found) + 1)]
        return found or None

    def send_nowait(self, socket: int, size: int, position: int) -> int:
        return 0  # simulated connections have no sockets

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.mutate(
            "truncate",
            self.path,
            lambda: self.inode.truncate(size, self._disk.now_ms()),
            details=f"to {size}",
        )

    def write_out(self, position: int, size: int) -> None:
        """What is not synced may be lost all the same."""

    def sync(self) -> None:
        self._check_open()
        failed = partial(self.inode.sync_failed, self._disk.random)
        self._disk.mutate("sync", self.path, self.inode.sync, on_error=failed)

    def close(self) -> None:
        self._closed = True

    def _check_open(self) -> None:
        self._disk.check_alive(self.path)
        if self._closed:
            raise bad_handle(self.path)


def _normal(path: str) -> str:
    return posixpath.normpath(f"/{path.lstrip('/')}")


@lru_cache(maxsize=20_000)  # the same paths are asked for again and again
def _placed(path: str) -> tuple[str, str, str]:
    """Made normal, its folder, and its name there."""
    path = _normal(path)
    return path, *posixpath.split(path)
