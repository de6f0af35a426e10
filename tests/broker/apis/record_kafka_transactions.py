"""Asks Apache Kafka what producers in transactions are told, and keeps it for `test_transactions.py`."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from tests.broker.apis.test_transactions import TOLD
from tests.broker.apis.transacting import Place
from tests.broker.apis.transaction_stories import STORIES

from ottla.testing.apache_kafka import ApacheKafka, free_port


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka.start(Path(folder), free_port(), group_initial_rebalance_delay_ms=0)
        try:
            told = {name: list(tell(Place(kafka.bootstrap, name))) for name, tell in STORIES.items()}
        finally:
            kafka.stop()
    lines = [
        f" {json.dumps(name)}: [\n" + ",\n".join(f"  {json.dumps(step)}" for step in steps) + "\n ]"
        for name, steps in told.items()
    ]
    TOLD.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
