"""A topic that a real node has compacted: rows are those that a consumer finds, whatever is missing between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_stream_read import Stream
from tests.spark.topics import messages, new_topic, write
from tests.waiting import until

from ottla.testing.node import running_node

SETTINGS = {"log_cleaner_backoff_ms": 100, "log_initial_task_delay_ms": 100}


@pytest.mark.timeout(600)
def test_gaps_are_stepped_over(spark: Any, tmp_path: Path) -> None:
    with running_node(tmp_path / "node", **SETTINGS) as node:
        topic = new_topic(node, 1, cleanup_policy="compact", segment_bytes=str(1 << 20), min_cleanable_dirty_ratio="0")
        written = 0
        for number in range(40):
            for key in (b"often", b"%d" % number):
                write(node, topic, [b"%02d" % number * 25_000], key=key)
                written += 1

        def compacted() -> list[Any]:
            found = messages(node, topic)
            return found if len(found) < written else []

        kept = [(message.offset(), message.key(), message.value()[:2]) for message in until(compacted, within_s=240)]
        reader = spark.read.format("ottla").option("kafka.bootstrap.servers", node.address).option("subscribe", topic)
        rows = [(row.offset, bytes(row.key), bytes(row.value)[:2]) for row in reader.load().collect()]
        # cleaning may go on meanwhile, and what is gone then is what it takes from the rest
        assert sorted(rows)[-1] == kept[-1] and set(rows) <= set(kept)
        assert {key for _, key, _ in rows} == {key for _, key, _ in kept}
        stream = Stream(spark, node, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=7)
        stream.run()
        assert {value[:2] for value in stream.values()} == {b"%02d" % n for n in range(40)}
