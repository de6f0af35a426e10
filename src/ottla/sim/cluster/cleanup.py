"""What a topic may give up of what was promised: what is too old, what is too much, what a later value has replaced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Cleanup:
    compact: bool = False
    """Of each key the last value is kept, and with `keeps_deletions` also that there is none."""
    keeps_deletions: bool = True
    retention_ms: int | None = None
    retention_bytes: int | None = None
    tiered: bool = False
    """What is old is in the object store, and need not be on any disk."""

    @property
    def deletes(self) -> bool:
        return self.retention_ms is not None or self.retention_bytes is not None

    @classmethod
    def by_configs(cls, configs: Mapping[str, str]) -> Cleanup:
        """As it was asked for when the topic was made; unless they say so, nothing is given up."""
        if configs.get("cleanup.policy") == "compact":
            return cls(compact=True, keeps_deletions=configs.get("delete.retention.ms") != "0")
        age, size = configs.get("retention.ms"), configs.get("retention.bytes")
        return cls(
            retention_ms=None if age is None else int(age),
            retention_bytes=None if size is None else int(size),
            tiered=configs.get("remote.storage.enable") == "true",
        )


KEEPS_ALL: Final = Cleanup()
COMPACTED: Final = Cleanup(compact=True)
