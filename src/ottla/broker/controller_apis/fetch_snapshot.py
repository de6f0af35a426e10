"""FetchSnapshot (key 59): a piece of a snapshot of the metadata (KIP-630).

Versions: 1 names the follower's directory, and says where the leader listens (KIP-853).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_api import raft_api

API: Final = raft_api(59, "FetchSnapshot", 0, 1)
