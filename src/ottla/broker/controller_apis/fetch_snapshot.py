"""FetchSnapshot (key 59): a piece of a snapshot of the metadata (KIP-630).

Versions: 1 names the follower's directory, and says where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(59)
