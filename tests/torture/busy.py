"""A cluster on a machine whose cores are all burned by others: nobody who lives is taken for dead.

    python -m tests.torture.busy --minutes 60

Three nodes with the default timeouts serve a small load beside two busy processes for each core, none of them nicer
than the nodes. Afterwards the metadata log tells how often a broker was fenced or had to register anew, and how often
the quorum changed its leader.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.cluster.clients import create_topic
from tests.torture.ledger import PARTITIONS, Load

from ottla.metadata.record_codec import decode_record
from ottla.metadata.records.broker_registration_change_record import BrokerRegistrationChangeRecord
from ottla.metadata.records.register_broker_record import RegisterBrokerRecord
from ottla.record.reader import iterate_batches, read_records
from ottla.testing.process_cluster import ProcessCluster, running_processes

_FENCED: Final = 1
_BURNERS: Final = 2 * (os.cpu_count() or 1)
_SETTINGS: Final[dict[str, Any]] = {"min_insync_replicas": 2, "default_replication_factor": 3}


class Told(NamedTuple):
    """By the metadata log, since the nodes have started."""

    fenced: int
    registered: int
    """More often than once each."""
    epochs: int
    """Of the quorum, after the first."""


def told(cluster: ProcessCluster) -> Told:
    fenced, registered, epochs = 0, 0, set[int]()
    for path in sorted((cluster.data(1) / "__cluster_metadata-0").glob("*.log")):
        for header, batch in iterate_batches(path.read_bytes()):
            epochs.add(header.leader_epoch)
            if header.is_control:
                continue
            for record in read_records(batch):
                match decode_record(record.value).record:
                    case BrokerRegistrationChangeRecord(fenced=change):
                        fenced += change == _FENCED
                    case RegisterBrokerRecord():
                        registered += 1
    return Told(fenced, registered - len(cluster.ids), len(epochs) - 1)


@contextmanager
def burning(count: int) -> Iterator[None]:
    burners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def stay_busy(folder: Path, seconds: float, rate: int, burners: int = _BURNERS) -> Told:
    with running_processes(folder, **_SETTINGS) as cluster:
        load = Load(cluster, create_topic(cluster, PARTITIONS), rate, once=True)
        began = time.monotonic()
        with burning(burners):
            while (passed := time.monotonic() - began) < seconds:
                time.sleep(min(30.0, seconds - passed))
                load.check()
                print(f"{passed:6.0f} s  {told(cluster)}, {load.checked} records", flush=True)
        load.finish()
        return told(cluster)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=int, default=200, help="records a second")
    parser.add_argument(
        "--burners", type=int, default=_BURNERS, help="fewer if the machine is busy with something else"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ottla-busy-") as folder:
        print(stay_busy(Path(folder), given.minutes * 60, given.rate, given.burners))


if __name__ == "__main__":
    main()
