"""Vote (key 52): a controller asks another for its vote (KIP-595).

Versions: 1 names directories (KIP-853), 2 adds pre-votes (KIP-996).
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler

handle: Final = raft_handler(52)
