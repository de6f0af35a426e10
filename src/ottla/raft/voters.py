"""Who may vote: replicas, where they listen, and the sets that they form (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

NO_DIRECTORY: Final = UUID(int=0)


class ReplicaKey(NamedTuple):
    """A node and the directory that holds its log. A node that lost its disk comes back as another replica.

    NO_DIRECTORY stands for an unknown directory: static voters (kraft.version 0) are known by their id alone.
    """

    id: int
    directory_id: UUID = NO_DIRECTORY

    def covers(self, other: ReplicaKey) -> bool:
        """Whether whoever calls himself `other` is the one meant by this key."""
        return self.id == other.id and self.directory_id in (NO_DIRECTORY, other.directory_id)

    def __str__(self) -> str:
        return str(self.id) if self.directory_id == NO_DIRECTORY else f"{self.id}/{self.directory_id}"


class Endpoint(NamedTuple):
    listener: str
    host: str
    port: int


class VersionRange(NamedTuple):
    min: int = 0
    max: int = 0

    def __contains__(self, version: object) -> bool:
        return isinstance(version, int) and self.min <= version <= self.max


_STATIC: Final = VersionRange(0, 0)


@dataclass(frozen=True, slots=True)
class VoterNode:
    key: ReplicaKey
    endpoints: tuple[Endpoint, ...] = ()
    kraft_versions: VersionRange = _STATIC

    def endpoint(self, listener: str) -> Endpoint | None:
        return next((endpoint for endpoint in self.endpoints if endpoint.listener == listener), None)


@dataclass(frozen=True, slots=True)
class VoterSet:
    """Never changes: `adding`, `removing` and `updating` give another set, or None if that cannot be done."""

    nodes: Mapping[int, VoterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        return cls({node.key.id: node for node in sorted(nodes, key=lambda node: node.key.id)})

    @classmethod
    def static(cls, ids: Iterable[int], endpoints: Mapping[int, Endpoint] | None = None) -> VoterSet:
        """Voters that are configured, whose directories nobody knows."""
        known = endpoints or {}
        return cls.of(VoterNode(ReplicaKey(i), (known[i],) if i in known else ()) for i in ids)

    @property
    def ids(self) -> tuple[int, ...]:
        return tuple(self.nodes)

    @property
    def keys(self) -> tuple[ReplicaKey, ...]:
        return tuple(node.key for node in self.nodes.values())

    @property
    def majority(self) -> int:
        return len(self.nodes) // 2 + 1

    def __len__(self) -> int:
        return len(self.nodes)

    def has(self, key: ReplicaKey) -> bool:
        node = self.nodes.get(key.id)
        return node is not None and node.key.covers(key)

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self.nodes) == 1 and self.has(key)

    def endpoints(self, node_id: int) -> tuple[Endpoint, ...]:
        node = self.nodes.get(node_id)
        return node.endpoints if node else ()

    def needs_update(self, node: VoterNode) -> bool:
        """Whether the voter is in the set, but listens elsewhere or supports other versions than the set says."""
        known = self.nodes.get(node.key.id)
        return known is not None and known.key.covers(node.key) and known != node

    def adding(self, node: VoterNode) -> VoterSet | None:
        return None if node.key.id in self.nodes else VoterSet.of((*self.nodes.values(), node))

    def removing(self, key: ReplicaKey) -> VoterSet | None:
        """The last voter cannot be removed: nobody could ever commit anything again."""
        node = self.nodes.get(key.id)
        if node is None or node.key != key or len(self.nodes) == 1:
            return None
        return VoterSet.of(other for other in self.nodes.values() if other.key.id != key.id)

    def updating(self, node: VoterNode, *, any_directory: bool = False) -> VoterSet | None:
        known = self.nodes.get(node.key.id)
        if known is None or not (any_directory or known.key.covers(node.key)):
            return None
        return VoterSet.of(node if other.key.id == node.key.id else other for other in self.nodes.values())

    def __str__(self) -> str:
        return "{" + ", ".join(map(str, self.keys)) + "}"
