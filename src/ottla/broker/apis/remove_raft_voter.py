"""RemoveRaftVoter (key 81): a voter of the metadata quorum becomes an observer (KIP-853)."""

from __future__ import annotations

from typing import Final

from ottla.broker.controller_apis.raft_api import raft_api
from ottla.security.authorizer import Operation

API: Final = raft_api(81, "RemoveRaftVoter", 0, 0, Operation.ALTER, forwards=True)
