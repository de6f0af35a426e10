"""`ottla node kill`."""

from __future__ import annotations

from ottla.cli.node.asking import node_command

command = node_command(
    "kill", "Kill NODE as by kill -9: nothing is handed over, and its next start recovers its logs.", "Killed node {}"
)
