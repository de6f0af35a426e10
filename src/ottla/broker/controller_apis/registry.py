"""All APIs of a controller's listener. What is not in here is not offered there."""

from __future__ import annotations

from typing import Final

from ottla.broker.apis import add_raft_voter, describe_quorum, remove_raft_voter
from ottla.broker.context import Api
from ottla.broker.controller_apis import (
    api_versions,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    update_raft_voter,
    vote,
)

ALL: Final[tuple[Api, ...]] = (
    fetch.API,
    api_versions.API,
    vote.API,
    begin_quorum_epoch.API,
    end_quorum_epoch.API,
    describe_quorum.API,
    fetch_snapshot.API,
    add_raft_voter.API,
    remove_raft_voter.API,
    update_raft_voter.API,
)
