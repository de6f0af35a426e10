"""A client of Spark Connect, in a process of its own: a process has either that or a driver.

python connect_client.py BOOTSTRAP SOURCE TARGET FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

from ottla.spark.java import prepare


def main(bootstrap: str, source: str, target: str, folder: Path) -> None:
    from pyspark.sql import SparkSession

    prepare()
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    table = spark.read.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("subscribe", source).load()
    print("read", table.count())
    stream = spark.readStream.format("ottla").option("kafka.bootstrap.servers", bootstrap)
    stream = stream.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
    writer = stream.writeStream.format("ottla").option("kafka.bootstrap.servers", bootstrap).option("topic", target)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    print("copied")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
