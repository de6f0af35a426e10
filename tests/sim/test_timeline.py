"""What a person reads of a run that failed."""

from __future__ import annotations

from uuid import UUID

from ottla.sim.cluster.oracle import Oracle
from ottla.sim.cluster.timeline import timeline
from ottla.sim.journal import Place
from ottla.sim.log_files import PartitionId
from ottla.sim.trace import Trace

KEY = PartitionId(UUID(int=7), 0)


def test_it_tells_who_did_what_and_where_the_lost_record_was() -> None:
    now = [0.0]
    trace = Trace(lambda: now[0])
    oracle = Oracle(lambda: now[0], note=lambda event, details: trace.note("", event, details))
    oracle.watch(KEY, "orders-0")
    now[0] = 1.0
    oracle.sends(KEY, [b"orders-0/p/1 ..."])
    oracle.acknowledges(KEY, 4, [b"orders-0/p/1 ..."], "p", -1, 1.0)
    oracle.has_log(KEY, 1, 5)
    oracle.has_log(KEY, 2, 5)
    trace.note("n1", "net deliver", "bytes that nobody wants to read of")
    now[0] = 2.0
    trace.note("", "fault", "3: isolate")
    for other in ("n2", "n3"):
        trace.note("", "net partition", f"n1 to {other}")
    now[0] = 2.5
    trace.note("n2", "power loss", "life 1, leaves disk 0123")
    oracle.has_log(KEY, 2, 3)
    now[0] = 3.0
    oracle.complain("orders-0/p/1 is lost", Place(KEY, 4))

    assert timeline(trace, oracle).splitlines() == [
        "      2.000 s  FAULT 3: isolate",
        "      2.000 s  not heard any more: n1 to n2; n1 to n3",
        "      2.500 s  n2: power loss, life 1",
        "      3.000 s  VIOLATION orders-0/p/1 is lost",
        "  what became of orders-0/p/1, orders-0 at 4:",
        "    sent 1 times, first at 1.000 s",
        "    committed, as p knew at 1.000 s",
        "    node 1: its log went beyond that offset from 1.0 s to the end",
        "    node 2: its log went beyond that offset from 1.0 s to 2.5 s",
    ]
