"""How many replicas of a topic must be in sync for acks=all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from ottla.cli.admin.session import Session

NAME: Final = "min.insync.replicas"


async def min_isr_of(there: Session, names: Sequence[str]) -> dict[str, int]:
    """By topic, as it is in force."""
    from ottla.cli.admin import configs

    resources = [configs.of_topic(name) for name in names]
    found = await configs.configs(there, resources, [NAME]) if resources else {}
    return {resource.name: int(entries[0].value or 1) if entries else 1 for resource, entries in found.items()}
