"""AddRaftVoter (key 80): a controller that has the whole log becomes a voter (KIP-853).

Versions: 1 can be answered before the change is committed.
"""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler
from ottla.security.authorizer import Operation

handle: Final = raft_handler(80, Operation.ALTER)
