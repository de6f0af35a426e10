"""`group.consumer.migration.policy`: which way groups may move."""

from __future__ import annotations

from enum import Enum


class Policy(Enum):
    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrades(self) -> bool:
        return self in (Policy.BIDIRECTIONAL, Policy.UPGRADE)

    @property
    def downgrades(self) -> bool:
        return self in (Policy.BIDIRECTIONAL, Policy.DOWNGRADE)
