"""What a replica learns from others about mistakes of those who set it up: another cluster, or an id that is taken.

Kafka's replicas go on for ever in both cases. Here a node that cannot join says why; one that is in goes on.
"""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.raft.messages import Destination, FetchResponse, Leader, Response
from ottla.raft.replica import Replica


class Strangers:
    def __init__(self) -> None:
        self._of_another_cluster: dict[tuple[str, int], None] = {}
        self._taken_since: int | None = None

    def heard(self, now: int, replica: Replica, to: Destination, response: Response) -> None:
        if response.error is ErrorCode.inconsistent_cluster_id:
            self._of_another_cluster[to.host, to.port] = None
            return
        self._of_another_cluster.pop((to.host, to.port), None)
        leader: Leader | None = getattr(response, "leader", None)
        if leader is None or leader.epoch < 0:
            return
        fetched = response.partition_error if isinstance(response, FetchResponse) else None
        leads_as_me = leader.id == replica.me.id and leader.epoch > replica.epoch
        if leads_as_me or fetched is ErrorCode.invalid_request:
            self._taken_since = now if self._taken_since is None else self._taken_since
        elif fetched is ErrorCode.none:
            self._taken_since = None

    def why_not(self, now: int, replica: Replica) -> str | None:
        """Why this replica will not find its place; None as long as that is not sure."""
        strange, voters = self._of_another_cluster, replica.voters
        asked, needed = (len(voters), voters.majority) if len(voters) else (len(replica.connections.bootstrap), 1)
        if strange and asked - len(strange) < needed:
            where = ", ".join(f"{host}:{port}" for host, port in strange)
            return (
                f"this node's folders belong to cluster {replica.cluster_id}, but {where} to another. Correct "
                "controller.quorum.voters or controller.quorum.bootstrap.servers, or give this node the folders of "
                "its cluster. Nothing was changed."
            )
        # One whose disk was replaced is taken for its former self until that is silent for long enough.
        if self._taken_since is not None and now - self._taken_since > 2 * replica.settings.fetch_timeout_ms:
            return (
                f"another node with node.id {replica.me.id} takes part in the quorum. Each node needs a node.id of its "
                "own: correct this one's, or stop the other. Nothing was changed."
            )
        return None
