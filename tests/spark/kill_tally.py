"""How many kills have gone well, in a file that lasts from run to run: many take longer than anybody waits at once.

OTTLA_KILLS_TALLY names the file. OTTLA_KILLS_WITHIN_S ends the killing of a run after so many seconds; its records are
checked then, and the next run goes on with what is left.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path


class Tally:
    def __init__(self, kind: str) -> None:
        named = os.environ.get("OTTLA_KILLS_TALLY")
        self._file = Path(named) if named else None
        self._kind = kind
        self._began = time.monotonic()
        self._within_s = float(os.environ.get("OTTLA_KILLS_WITHIN_S", "inf"))

    @property
    def done(self) -> int:
        """Kills after which every record was found once."""
        if self._file is None or not self._file.exists():
            return 0
        lines = [json.loads(line) for line in self._file.read_text().splitlines() if line.startswith("{")]
        return sum(line["kills"] for line in lines if line["kind"] == self._kind)

    @property
    def is_time_over(self) -> bool:
        return time.monotonic() - self._began > self._within_s

    def tell(self, what: str) -> None:
        self._write(f"# {self._kind}, {time.monotonic() - self._began:.0f} s: {what}")

    def add(self, seed: int, victims: Sequence[str], **more: int) -> None:
        found = {"kind": self._kind, "kills": len(victims), "seed": seed, "victims": Counter(victims), **more}
        self._write(json.dumps(found))

    def _write(self, line: str) -> None:
        print(line, flush=True)
        if self._file is not None:
            with self._file.open("a") as file:
                file.write(f"{line}\n")
