"""What a cluster goes through, and how many seeds saw it: what no seed sees is proved by none."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

EVENTS: Final = (
    # counted as                            kind
    ("elections", "leaders"),
    ("leaders lost", "leaders"),
    ("unclean elections", "leaders"),
    ("last leaders that lead again", "leaders"),
    ("preferred election: none", "leaders"),
    ("ISR shrinks", "replicas"),
    ("ISR expansions", "replicas"),
    ("truncations", "replicas"),
    ("elections of a controller", "quorum"),
    ("snapshot loads", "quorum"),
    ("add voter: none", "quorum"),
    ("remove voter: none", "quorum"),
    ("kills", "nodes"),
    ("power losses", "nodes"),
    ("clean stops", "nodes"),
    ("software replaced", "nodes"),
    ("upgrade of features: none", "changes"),
    ("upgrade of features: invalid_update_version", "changes"),
    ("logs cut by a loss of power", "nodes"),
    ("records excused", "nodes"),
    ("segments that rot", "disks"),
    ("rot found by a consumer", "disks"),
    ("replicas that begin anew from a rotten one", "disks"),
    ("fault: empty disk", "disks"),
    ("fault: failing disk", "disks"),
    ("fault: full disk", "disks"),
    ("coordinators that moved", "groups"),
    ("records cleaned away", "logs"),
    ("records that retention took", "logs"),
    ("records deleted as asked", "logs"),
    ("segments copied to the tier", "tier"),
    ("segments that only the tier has", "tier"),
    ("followers that begin after the tier", "tier"),
    ("tiered topics deleted", "tier"),
    ("objects acknowledged and lost", "tier"),
    ("reads that were damaged", "tier"),
    ("offsets committed", "groups"),
    ("committed offsets found", "groups"),
    ("committed offsets lost with the power", "groups"),
    ("generations of classic groups joined", "groups"),
    ("epochs of consumer groups seen", "groups"),
    ("partitions given to members", "groups"),
    ("delete topic: none", "changes"),
    ("create partitions: none", "changes"),
    ("reassignment: none", "changes"),
    ("alter configs: none", "changes"),
    ("positions out of range", "clients"),
    ("producers forgotten", "clients"),
)


def coverage(saw: Counter[str], totals: Counter[str]) -> list[dict[str, Any]]:
    """A row for each event that is to be seen, for each kind of fault, and for each answer that clients were given."""
    named = [(kind, name, name) for name, kind in EVENTS]
    listed = {name for name, _ in EVENTS}
    for name in sorted(totals):
        kind, colon, what = name.partition(": ")
        if colon and name not in listed:
            named.append((kind, what, name))
    return [{"kind": kind, "event": what, "seeds": saw[name], "times": totals[name]} for kind, what, name in named]


def unseen(totals: Counter[str]) -> list[str]:
    return [name for name, _ in EVENTS if not totals[name]]
