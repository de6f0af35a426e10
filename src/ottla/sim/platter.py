"""A simulated file system's tree: the names readers see, and the names that a power loss leaves.

A name (made, moved or removed) is durable once its folder has been synced. Before that any subset of the changes may
have reached the disk, as long as it makes sense: a change follows those before it to the same name or the same file,
and a rename is one change, old or new, never both or neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import NamedTuple

from ottla.sim.inode import Inode


class Folder:
    __slots__ = ("durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}


Node = Folder | Inode


class Naming(NamedTuple):
    """In this folder, this name now stands for this node, or for nothing. `moved` is what the change is about."""

    folder: Folder
    name: str
    node: Node | None
    moved: Node


class Change:
    """Happens as a whole or not at all."""

    __slots__ = ("_subjects", "folders", "namings")

    def __init__(self, namings: tuple[Naming, ...]) -> None:
        self.namings = namings
        self.folders = (id(namings[0].folder), id(namings[-1].folder))
        self._subjects: frozenset[object] | None = None

    @property
    def subjects(self) -> frozenset[object]:
        """What comes later and is about one of these follows from it."""
        if self._subjects is None:
            subjects: list[object] = []
            for folder, name, _, moved in self.namings:
                subjects += ((id(folder), name), id(moved))
            self._subjects = frozenset(subjects)
        return self._subjects


@dataclass(slots=True)
class Platter:
    root: Folder = field(default_factory=Folder)
    pending: list[Change] = field(default_factory=list)

    def change(self, *namings: Naming) -> None:
        for folder, name, node, _ in namings:
            if node is None:
                folder.entries.pop(name, None)
            else:
                folder.entries[name] = node
        self.pending.append(Change(namings))

    def sync_folder(self, folder: Folder) -> None:
        """Makes the folder's names durable, with those changes elsewhere that they follow from.

        Not the folder's own name: that is its parent's to sync.
        """
        needed: set[object] = set()
        due: list[Change] = []
        wanted = id(folder)
        for change in reversed(self.pending):
            if wanted in change.folders or (needed and not needed.isdisjoint(change.subjects)):
                needed |= change.subjects
                due.append(change)
        if not due:
            return
        chosen = {id(change) for change in due}
        for change in reversed(due):
            for naming in change.namings:
                _put(naming.folder.durable, naming)
        self.pending = [change for change in self.pending if id(change) not in chosen]

    def walk(self) -> Iterator[tuple[str, Node]]:
        """Every path that readers see, in order."""
        yield from _walk("", self.root)

    def sure(self) -> Iterator[tuple[str, bytes]]:
        """The files that every power loss leaves under their names, each with the bytes that it leaves for certain."""
        doubtful = {(id(naming.folder), naming.name) for change in self.pending for naming in change.namings}
        yield from _sure("", self.root, doubtful)

    def digest(self) -> str:
        hashed = sha256()
        for path, node in self.walk():
            content = b"/" if isinstance(node, Folder) else bytes(node.content)
            hashed.update(f"{path}\0{len(content)}\0".encode())
            hashed.update(content)
        return hashed.hexdigest()[:16]

    def after_crash(self) -> Platter:
        """The same, as another process finds it: the page cache outlives the process that filled it."""
        copies: dict[int, Node] = {}
        root = _copied(self.root, copies)
        assert isinstance(root, Folder)
        pending: list[Change] = []
        for change in self.pending:
            namings = []
            for folder, name, node, moved in change.namings:
                parent = _copied(folder, copies)
                assert isinstance(parent, Folder)
                child = None if node is None else _copied(node, copies)
                namings.append(Naming(parent, name, child, _copied(moved, copies)))
            pending.append(Change(tuple(namings)))
        return Platter(root, pending)

    def after_power_loss(self, random: Random) -> Platter:
        """One of the states that the disk may be in; this one stays as it is."""
        names: dict[int, dict[str, Node]] = {}
        for change in _survivors(self.pending, random):
            for naming in change.namings:
                _put(names.setdefault(id(naming.folder), dict(naming.folder.durable)), naming)
        return Platter(_settled(self.root, names, random))


def _survivors(changes: list[Change], random: Random) -> Iterator[Change]:
    survival = random.choice((0.0, 1.0, random.random()))
    lost: set[object] = set()
    for change in changes:
        if random.random() < survival and lost.isdisjoint(change.subjects):
            yield change
        else:
            lost |= change.subjects


def _settled(folder: Folder, names: dict[int, dict[str, Node]], random: Random) -> Folder:
    settled = Folder()
    for name, node in sorted(names.get(id(folder), folder.durable).items(), key=lambda entry: entry[0]):
        if isinstance(node, Folder):
            settled.entries[name] = _settled(node, names, random)
        else:
            left = node.after_power_loss(random)
            settled.entries[name] = Inode(left, bytearray(left), modified_ms=node.modified_ms)
    settled.durable = dict(settled.entries)
    return settled


def _copied(node: Node, copies: dict[int, Node]) -> Node:
    if (known := copies.get(id(node))) is not None:
        return known
    if isinstance(node, Inode):
        copies[id(node)] = copy = node.copy()
        return copy
    copies[id(node)] = folder = Folder()
    folder.entries = {name: _copied(child, copies) for name, child in node.entries.items()}
    folder.durable = {name: _copied(child, copies) for name, child in node.durable.items()}
    return folder


def _walk(path: str, folder: Folder) -> Iterator[tuple[str, Node]]:
    for name, node in sorted(folder.entries.items(), key=lambda entry: entry[0]):
        yield f"{path}/{name}", node
        if isinstance(node, Folder):
            yield from _walk(f"{path}/{name}", node)


def _sure(path: str, folder: Folder, doubtful: set[tuple[int, str]]) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(folder.durable.items(), key=lambda entry: entry[0]):
        if (id(folder), name) in doubtful:
            continue
        if isinstance(node, Folder):
            yield from _sure(f"{path}/{name}", node, doubtful)
        else:
            yield f"{path}/{name}", node.sure()


def _put(names: dict[str, Node], naming: Naming) -> None:
    if naming.node is None:
        names.pop(naming.name, None)
    else:
        names[naming.name] = naming.node
