"""A driver of its own, for tests that kill it: copies a topic as a stream until it dies.

python copying_driver.py BOOTSTRAP SOURCE TARGET FOLDER driver|executors
"""

from __future__ import annotations

import sys
from pathlib import Path


def main(bootstrap: str, source: str, target: str, folder: Path, writes: str) -> None:
    from tests.spark.sessions import running_spark

    from ottla.spark.foreach_batch import exactly_once

    with running_spark(folder) as spark:
        reader = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
        reader = reader.option("subscribe", source).option("startingOffsets", "earliest")
        frame = reader.option("isolation", "read_committed").load().select("key", "value")
        options = {"kafka.bootstrap.servers": bootstrap, "topic": target, "kafka.transaction.timeout.ms": "20000"}
        if writes == "executors":
            writer = frame.writeStream.foreachBatch(exactly_once(options))
        else:
            writer = frame.writeStream.format("ottla").options(**options)
        writer.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]), sys.argv[5])
