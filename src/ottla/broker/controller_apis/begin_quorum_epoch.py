"""BeginQuorumEpoch (key 53): a new leader of the quorum tells those who do not fetch from it (KIP-595).

Versions: 1 says where it listens, and whom it means (KIP-853).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(53)
