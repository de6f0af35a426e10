"""A driver of its own, for tests that kill it: captures changes of a table of PostgreSQL to a topic until it dies.

python capturing_driver.py BOOTSTRAP - TOPIC FOLDER DSN
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(bootstrap: str, topic: str, folder: Path, dsn: str) -> None:
    from tests.spark.sessions import running_spark

    from ottla.pipeline.connectors.port import Place
    from ottla.pipeline.connectors.postgres_source import PostgresChangesOptions, PostgresChangesSource
    from ottla.spark.foreach_batch import exactly_once

    with running_spark(folder) as spark:
        options = PostgresChangesOptions(postgres_changes=dsn, tables=("ledger",))
        frame = PostgresChangesSource(options, Place("kills", "ledger")).stream(spark).select("key", "value")
        target = {"kafka.bootstrap.servers": bootstrap, "topic": topic, "kafka.transaction.timeout.ms": "20000"}
        writer = frame.writeStream.foreachBatch(exactly_once(target))
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
