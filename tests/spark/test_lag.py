"""How far a stream is behind, as its progress events tell."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.spark.test_stream_read import Stream, numbered
from tests.spark.topics import new_topic, write

from ottla.model.names import TopicPartition
from ottla.record.batch import DELETE_HORIZON_BIT, HEADER, MAGIC_V2, TIMESTAMP_TYPE_BIT
from ottla.spark import loop_thread
from ottla.spark.client_settings import client_settings
from ottla.spark.cluster import Cluster
from ottla.spark.lag import Lag, first_time, lag_of
from ottla.testing.node import RunningNode

HOUR_S = 3600


def behind(progress: list[Any]) -> list[dict[str, float]]:
    return [json.loads(one["sources"][0]["latestOffset"])["@behind"] for one in progress if one["numInputRows"]]


def test_progress_tells_offsets_and_seconds_behind(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    topic, now_ms = new_topic(node, 2), time.time_ns() // 1_000_000
    for number, hours in enumerate((5, 4, 3, 2, 1)):  # each of them a batch of its own
        write(node, topic, numbered(number * 10, number * 10 + 10), 0, timestamp=now_ms - hours * HOUR_S * 1000)
    reading = Stream(spark, node, tmp_path, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=20)
    shown = behind(reading.run().recentProgress)
    assert [one["offsets"] for one in shown] == [30, 10, 0]
    assert [one["seconds"] // HOUR_S for one in shown] == [3, 1, 0]
    assert shown[-1]["seconds"] == 0


def test_what_is_shown_may_be_where_another_query_begins(spark: Any, node: RunningNode, tmp_path: Path) -> None:
    topic = new_topic(node)
    write(node, topic, numbered(0, 3))
    first = Stream(spark, node, tmp_path / "first", subscribe=topic, startingOffsets="earliest")
    latest = first.run().recentProgress[-1]["sources"][0]["latestOffset"]
    second = Stream(spark, node, tmp_path / "second", subscribe=topic, startingOffsets=latest)
    second.run()
    write(node, topic, numbered(3, 5))
    second.run()
    assert second.values() == numbered(3, 5)


def test_the_oldest_of_all_partitions_counts(node: RunningNode) -> None:
    topic = new_topic(node, 3)
    for partition, time_ms in ((0, 9000), (1, 4000), (2, 1000)):
        write(node, topic, [b"x"] * 5, partition, timestamp=time_ms)
    places = [TopicPartition(topic, n) for n in range(3)]
    cluster = Cluster(client_settings({"kafka.bootstrap.servers": node.address}))
    ends = dict.fromkeys(places, 5)

    def lag(*read_to: int) -> Lag:
        return loop_thread.wait_for(lag_of(cluster, dict(zip(places, read_to, strict=True)), ends, {}, 10_000))

    assert lag(5, 5, 5) == Lag(0, 0.0)
    assert lag(3, 0, 5) == Lag(7, 6.0)
    assert lag(5, 5, 4) == Lag(1, 9.0)
    assert loop_thread.wait_for(lag_of(cluster, dict.fromkeys(places, 7), dict.fromkeys(places, 8), {}, 10_000)) == Lag(
        3, None
    )  # nothing is there


@pytest.mark.parametrize(
    ("attributes", "magic", "found"),
    [
        (0, MAGIC_V2, 100),
        (TIMESTAMP_TYPE_BIT, MAGIC_V2, 200),  # the time of appending stands where the largest does
        (DELETE_HORIZON_BIT, MAGIC_V2, 200),  # the first has been overwritten
        (0, 1, None),
    ],
)
def test_times_in_headers(attributes: int, magic: int, found: int | None) -> None:
    head = HEADER.pack(0, 49, -1, magic, 0, attributes, 0, 100, 200, -1, -1, -1, 1)
    assert first_time(head) == found
    assert first_time(head[:20]) is None
