"""What a cluster goes through, and how many seeds saw it: what no seed sees is proved by none."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

EVENTS: Final = (
    # counted as                            kind
    ("elections", "leaders"),
    ("leaders lost", "leaders"),
    ("ISR shrinks", "replicas"),
    ("ISR expansions", "replicas"),
    ("truncations", "replicas"),
    ("elections of a controller", "quorum"),
    ("snapshot loads", "quorum"),
    ("kills", "nodes"),
    ("power losses", "nodes"),
    ("clean stops", "nodes"),
    ("logs cut by a loss of power", "nodes"),
    ("records excused", "nodes"),
    ("positions out of range", "clients"),
    ("producers forgotten", "clients"),
)


def coverage(saw: Counter[str], totals: Counter[str]) -> list[dict[str, Any]]:
    """A row for each event that is to be seen, for each kind of fault, and for each answer that clients were given."""
    named = [(kind, name, name) for name, kind in EVENTS]
    for name in sorted(totals):
        kind, colon, what = name.partition(": ")
        if colon:
            named.append((kind, what, name))
    return [{"kind": kind, "event": what, "seeds": saw[name], "times": totals[name]} for kind, what, name in named]


def unseen(totals: Counter[str]) -> list[str]:
    return [name for name, _ in EVENTS if not totals[name]]
