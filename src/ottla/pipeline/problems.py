"""What is wrong with a spec: where, and what to do about it."""

from __future__ import annotations

from typing import NamedTuple

Path = tuple[str | int, ...]
"""Names and numbers from the top of a spec, or of a connector's part of it, down to an entry."""


class Problem(NamedTuple):
    path: Path
    message: str
    at_name: bool = False
    """Whether the entry's name is wrong rather than its value."""
    is_doubt: bool = False
    """Whether Spark might see it differently: told by `check`, and no reason not to run."""

    inside: tuple[int, int] | None = None
    """Line and column, from 1, within a text."""

    def below(self, path: Path) -> Problem:
        """The same, seen from further up."""
        return self._replace(path=(*path, *self.path))
