"""`ottla node stop`."""

from __future__ import annotations

from ottla.cli.node.asking import node_command

command = node_command(
    "stop", "Stop NODE cleanly: its partitions get other leaders first. Its data stay.", "Stopped node {}"
)
