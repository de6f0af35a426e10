"""UpdateRaftVoter (key 82): a voter tells the leader where it listens and what it supports (KIP-853)."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(82)
