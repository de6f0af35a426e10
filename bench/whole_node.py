"""`python -m bench.whole_node`: what a node does with crowds of clients and with tools, beside Apache Kafka.

--only NAME     parts whose name holds NAME
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

from bench import crowds, partitions
from bench.bars import Bar, Direction
from bench.nodes import KafkaNode, Node, ottla_command
from bench.parts import Lone, Part, Plan, run
from ottla.testing import apache_kafka


def list_topics(node: Node, number: int) -> dict[str, Any]:
    """Each side's own tool against its own node."""
    took = []
    for _ in range(3):
        began = time.monotonic()
        if isinstance(node, KafkaNode):
            apache_kafka.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", node.bootstrap, "--list")
        else:
            command = [*ottla_command(), "topic", "list", "--bootstrap-server", node.bootstrap]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        took.append(time.monotonic() - began)
    return {"seconds": sorted(took)[1]}


PARTS: dict[str, Part] = {
    "topic list": list_topics,
    "1,000 partitions: made": partitions.create_thousand,
    "2,000 connections": crowds.many_connections,
    "slow readers": crowds.slow_readers,
}


def _bars() -> tuple[Bar, ...]:
    least, most = Direction.AT_LEAST, Direction.AT_MOST
    many = "10,000 partitions: "
    return (
        Bar("a topic of 1,000 partitions, all led", "1,000 partitions: made", "seconds", "s", most, 1.0),
        Bar(f"{many}made", f"{many}made", "seconds", "s", most),
        Bar(f"{many}clean restart", f"{many}clean restart", "seconds", "s", most, 1.0),
        Bar(f"{many}restart after kill -9", f"{many}restart after kill -9", "seconds", "s", most, 1.0),
        Bar(f"{many}stop", f"{many}stop", "seconds", "s", most),
        Bar(f"{many}memory for each 1,000", f"{many}memory", "mb_per_thousand", "MB", most),
        Bar(f"{many}idle CPU", f"{many}idle", "percent_of_a_core", "% of a core", most, 2.0, absolute=True),
        Bar("2,000 connections: share of the rate on 10", "2,000 connections", "share", "", least, 0.9, absolute=True),
        Bar("2,000 connections: memory", "2,000 connections", "rss", "MB", most, 120.0, absolute=True),
        Bar("200 slow readers: share of 200 MB/s", "slow readers", "share", "", least, 0.9, absolute=True),
        Bar("200 slow readers: memory", "slow readers", "rss", "MB", most, 120.0, absolute=True),
        Bar("topic list, the tool", "topic list", "seconds", "s", most, 0.35),
    )


if __name__ == "__main__":
    lone = {"10,000 partitions": Lone(partitions.SETTLED, partitions.ten_thousand)}
    sys.exit(run(Plan("whole-node", __doc__ or "", PARTS, _bars(), lone=lone)))
