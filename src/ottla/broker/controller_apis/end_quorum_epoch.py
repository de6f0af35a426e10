"""EndQuorumEpoch (key 54): a leader of the quorum steps down and says who should stand first (KIP-595).

Versions: 1 names directories and says where it listens (KIP-853).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(54)
