"""RemoveRaftVoter (key 81): a voter of the metadata quorum becomes an observer (KIP-853)."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_handler import raft_handler
from ottla.security.authorizer import Operation

handle: Final = raft_handler(81, Operation.ALTER)
