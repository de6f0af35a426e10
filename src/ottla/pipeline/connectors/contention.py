"""Commits that others come before: how often they are tried, and the rest in between."""

from __future__ import annotations

import time
from typing import Final

TIMES: Final = 20


def pause(time_left: int) -> None:
    """Longer the more often it was tried."""
    time.sleep(min(0.05 * (TIMES - time_left), 1.0))
