"""What a node tells about the metadata quorum, its log, and the snapshots of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from ottla.env.metrics import Family, Gathered, Kind, labels

if TYPE_CHECKING:
    from ottla.broker.node import Node

G: Final = Kind.GAUGE
C: Final = Kind.COUNTER

QUORUM: Final[tuple[tuple[Family, Callable[[Node], float]], ...]] = (
    (
        Family("kafka_server_raft_metrics_current_leader", G, "The node that leads the metadata quorum; -1 for none."),
        lambda node: node.raft.leader_id,
    ),
    (
        Family("kafka_server_raft_metrics_current_epoch", G, "The epoch in which it does."),
        lambda node: node.raft.epoch,
    ),
    (
        Family("kafka_server_raft_metrics_high_watermark", G, "Up to where the metadata log is committed."),
        lambda node: node.raft.high_watermark,
    ),
    (
        Family("kafka_server_raft_metrics_current_vote", G, "Whom this node voted for in this epoch; -1 for nobody."),
        lambda node: voted.id if (voted := node.raft.quorum.replica.voted) is not None else -1,
    ),
    (
        Family("kafka_server_raft_metrics_log_end_offset", G, "The offset of the next record of the metadata log."),
        lambda node: node.raft.log.end_offset,
    ),
    (
        Family("kafka_server_raft_metrics_log_end_epoch", G, "The epoch of its last record."),
        lambda node: node.raft.log.last_epoch,
    ),
    (
        Family("kafka_server_raft_metrics_number_of_voters", G, "Voters of the quorum."),
        lambda node: len(node.raft.quorum.voters),
    ),
    (
        Family("kafka_server_raft_metrics_number_of_observers", G, "Who else follows it, as its leader knows."),
        lambda node: len(node.raft.leadership.observers) if node.raft.leadership is not None else 0,
    ),
    (
        Family("kafka_server_raft_metrics_uncommitted_voter_change", G, "1 while a change of voters is under way."),
        lambda node: int(node.raft.is_changing_voters),
    ),
    (
        Family("ottla_raft_elections_total", C, "Leaders of the quorum that this node has heard of since its start."),
        lambda node: node.raft.elections,
    ),
    (
        Family("kafka_controller_kafkacontroller_lastappliedrecordoffset", G, "The last record that is in the image."),
        lambda node: node.feed.published_offset,
    ),
    (
        Family("kafka_controller_kafkacontroller_lastappliedrecordtimestamp", G, "When it was written, in ms."),
        lambda node: node.feed.timestamp_ms,
    ),
    (
        Family("kafka_controller_kafkacontroller_lastcommittedrecordoffset", G, "The last record that is committed."),
        lambda node: node.raft.committed_offset - 1,
    ),
    (
        Family("kafka_server_snapshotemitter_latestsnapshotgeneratedbytes", G, "Size of the latest snapshot here."),
        lambda node: node.quorum.snapshot_taking.latest_bytes,
    ),
    (
        Family("kafka_server_snapshotemitter_latestsnapshotgeneratedagems", G, "How long ago it was taken, in ms."),
        lambda node: node.quorum.snapshot_taking.age_ms,
    ),
    (
        Family("kafka_server_metadataloader_handleloadsnapshotcount", G, "Snapshots that took the place of the log."),
        lambda node: node.feed.snapshots_loaded,
    ),
    (
        Family("kafka_server_metadataloader_currentmetadataversion", G, "The metadata.version in force."),
        lambda node: node.image.metadata_version,
    ),
)
STATE: Final = Family("ottla_raft_state", G, "1 for the role that this node has in the quorum.", ("state",))


class QuorumMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Gathered]:
        """Nothing while the node starts: most of it is not there yet."""
        node = self._node
        if not node.is_serving:
            return
        for family, value in QUORUM:
            yield Gathered(family, [("", value(node))])
        replica = node.raft.quorum.replica
        state = replica.role.value if replica.is_voter else "observer"
        yield Gathered(STATE, [(labels(state=state), 1)])
