"""Groups of different kinds share their ids: a group of one kind gives way to one of another when it is empty."""

from __future__ import annotations

from typing import Final, Protocol

from ottla.coordinator.machine import StoredRecord


class Neighbours(Protocol):
    """The groups of the other kind."""

    def has(self, group_id: str) -> bool: ...

    def make_room(self, group_id: str) -> list[StoredRecord]:
        """Records that end a group of this id, if there is one; KafkaError if it has members."""

    def gave_way(self, group_id: str) -> None:
        """Replayed: there is a group of this id on the other side now."""


class _Nobody:
    def has(self, group_id: str) -> bool:
        return False

    def make_room(self, group_id: str) -> list[StoredRecord]:
        return []

    def gave_way(self, group_id: str) -> None:
        pass


NOBODY: Final[Neighbours] = _Nobody()
