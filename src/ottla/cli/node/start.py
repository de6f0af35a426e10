"""`ottla node start`."""

from __future__ import annotations

from ottla.cli.node.asking import node_command

command = node_command("start", "Start NODE, which was stopped or has ended.", "Node {} is up")
