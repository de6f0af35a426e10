"""The columns of what seeds saw."""

from __future__ import annotations

from typing import Final

from ottla.cli.output import Column

COVERAGE: Final = (Column("KIND", "kind"), Column("EVENT", "event"), Column("SEEDS", "seeds"), Column("TIMES", "times"))
