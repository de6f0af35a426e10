"""`ottla node restart`."""

from __future__ import annotations

from ottla.cli.node.asking import node_command

command = node_command("restart", "Stop NODE cleanly and start it again, with what it had.", "Node {} is up again")
