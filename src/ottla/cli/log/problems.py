"""What can be wrong with the files of a log, and what to do about it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple


class Problem(NamedTuple):
    path: str
    where: str
    what: str
    advice: str
    serious: bool = True
    """False for what a broker puts right by itself, and for what may be as it should."""

    def as_row(self) -> dict[str, Any]:
        return {
            "file": self.path,
            "where": self.where,
            "problem": self.what,
            "advice": self.advice,
            "serious": self.serious,
        }


REBUILD: Final = "nothing is lost: stop the broker and remove the file; the next start makes it anew from the segment"
REMOVE_SNAPSHOT: Final = "stop the broker and remove the file; the next start makes it anew from the batches"
TORN: Final = "a running broker may be writing it just now; after a crash the next start cuts it off"
ANOTHER_COPY: Final = (
    "take this partition from another replica: stop the broker, move the folder away, start; it is copied from the "
    "leader. If this is the only copy, first make one of the folder: what lies before is good"
)
RESTORE: Final = "restore the file from a backup"
OF_NO_USE: Final = "a broker that finds it so starts without it; remove it if it does not"
GAP: Final = "as it should be where the topic is or was compacted; otherwise these records are lost"
CORRECTED: Final = "the broker corrects it when it starts"
