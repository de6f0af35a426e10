"""`python -m bench.replicated_transactions`: the transactions of bench/transactions.py with three nodes on each side.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import sys

from bench.clusters import SIZE, a_cluster_each
from bench.parts import Plan, run
from bench.transactions import bars, parts

SETTINGS = {"transaction.state.log.replication.factor": SIZE, "transaction.state.log.min.isr": 2}

if __name__ == "__main__":
    plan = Plan(
        "replicated-transactions",
        __doc__ or "",
        parts(0.4),
        bars(1.0),
        settings=SETTINGS,
        sides=a_cluster_each,
        side="Three nodes with three replicas and min.insync.replicas 2",
    )
    sys.exit(run(plan))
