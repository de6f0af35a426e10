"""Whether a member may be the same as one before, started anew."""

from __future__ import annotations

import re
from typing import Final

from ottla.coordinator.group.history.entries import Who

_PARTS: Final = re.compile(r"[-_.]")


def is_alike(old: Who, new: Who) -> bool:
    """By its instance or client id; one of a pod or process often ends in something random."""
    if old.instance is not None or new.instance is not None:
        return old.instance == new.instance
    if old.client == new.client:
        return True
    parts, others = _PARTS.split(old.client), _PARTS.split(new.client)
    if len(parts) != len(others) or parts[0] != others[0]:
        return False
    pairs = zip(parts, others, strict=True)
    return all(one == other or (_is_random(one) and _is_random(other)) for one, other in pairs)


def _is_random(part: str) -> bool:
    """As the names of pods end, or process ids; `worker-1` and `worker-2` are two, though."""
    return len(part) >= 4 and ((part.isalnum() and not part.isalpha()) or not set(part) & set("aeiou"))
