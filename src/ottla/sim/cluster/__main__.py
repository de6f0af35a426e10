"""Many seeds, in several processes: python -m ottla.sim.cluster --seeds 1000 --jobs 2

A seed that fails is told with what repeats it: python -m ottla.sim.cluster --first SEED --seeds 1 --trace FILE
"""

from __future__ import annotations

import argparse
import sys
from time import monotonic

from ottla.sim.cluster.many import Summary, many, one

_PROGRESS_EVERY_S = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m ottla.sim.cluster", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100, help="how many")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--trace", help="run one seed and write all that happens to this file")
    parser.add_argument("--counts", action="store_true", help="tell all that was counted")
    options = parser.parse_args()
    summary, told_at = Summary(), monotonic()
    if options.trace:
        reports = iter((one(options.first, options.trace),))
    elif options.jobs <= 1:
        reports = map(one, range(options.first, options.first + options.seeds))
    else:
        reports = many(options.first, options.seeds, options.jobs)
    for report in reports:
        summary.add(report)
        if report.violations:
            print(report.text)
            print(f"  again: python -m ottla.sim.cluster --first {report.seed} --trace FILE", flush=True)
        if monotonic() - told_at > _PROGRESS_EVERY_S:
            told_at = monotonic()
            print(summary.line(), flush=True)
    print(summary)
    if options.counts:
        print("\n".join(f"{count:>9,} {name}" for name, count in sorted(summary.totals.items())))
    return 1 if summary.failed else 0


if __name__ == "__main__":
    sys.exit(main())
