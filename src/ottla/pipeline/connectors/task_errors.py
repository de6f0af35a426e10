"""What went wrong in a task, without Spark's account of how it came to be told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.model.errors import OttlaError

_OURS: Final = re.compile(r"OttlaError: (.+)")


@contextmanager
def from_tasks() -> Iterator[None]:
    """Errors of ours that were raised in a task, as if they had been raised here."""
    try:
        yield
    except OttlaError:
        raise
    except Exception as error:
        found = _OURS.findall(str(error))
        if not found:
            raise
        raise OttlaError(found[-1].strip()) from error
