"""To be imported by processes that run many seeds, or make processes that do: it runs a short storm.

Modules are imported when they are first needed, schemas above all, and kernels are compiled then. After a storm with
all workloads most of that is there, and who is forked from here has it too.
"""

from __future__ import annotations

import gc

from ottla.sim.cluster.scenario import run
from ottla.sim.cluster.variation import Intensity, Variation
from ottla.sim.cluster.workloads import WORKLOADS

run(0, Variation(Intensity.MODERATE, rage_s=2.0, workloads=tuple(WORKLOADS)))
gc.collect()
gc.freeze()
