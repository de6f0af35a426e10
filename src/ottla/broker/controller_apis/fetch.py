"""Fetch (key 1) of `__cluster_metadata-0`, by the other controllers and by brokers (KIP-595).

Versions: 12 adds the cluster's id and the epoch of the last record that was fetched, 13 names the topic by its id, 17
adds the follower's directory (KIP-853), 18 what it knows of the high watermark (KIP-1166).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(1)
