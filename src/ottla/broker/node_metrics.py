"""What a node tells about its topics, partitions, place in the cluster and connections, when it is asked.

Names are those that the JMX exporter's usual rules make of Kafka's, so that dashboards for Kafka show an Ottla node;
what Kafka does not have begins with `ottla_`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from ottla import __version__
from ottla.env.metrics import Family, Gathered, Kind, Row, labels
from ottla.metadata.image import NO_LEADER, MetadataImage
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.broker.replication import Replication

C, G = Kind.COUNTER, Kind.GAUGE


def _topic(name: str, told: str) -> Family:
    return Family(f"kafka_server_brokertopicmetrics_{name}_total", C, f"{told} Without a topic: of all.", ("topic",))


def _partition(name: str, kind: Kind, told: str) -> Family:
    return Family(name, kind, told, ("topic", "partition"))


# name, what of a partition it counts
BY_TOPIC: Final[tuple[tuple[Family, Callable[[Partition], int]], ...]] = (
    (_topic("messagesin", "Records appended."), lambda partition: partition.messages_appended),
    (_topic("bytesin", "Bytes appended."), lambda partition: partition.bytes_appended),
    (_topic("bytesout", "Bytes given to consumers."), lambda partition: partition.bytes_fetched),
    (
        _topic("totalproducerequests", "Partitions in produce requests."),
        lambda partition: partition.appends + partition.failed_appends,
    ),
    (_topic("totalfetchrequests", "Partitions in fetch requests."), lambda partition: partition.fetches),
    (_topic("failedproducerequests", "Of those, failed in the broker."), lambda partition: partition.failed_appends),
    (_topic("failedfetchrequests", "Of those, failed in the broker."), lambda partition: partition.failed_fetches),
)
BY_PARTITION: Final[tuple[tuple[Family, Callable[[Partition], int]], ...]] = (
    (_partition("kafka_log_log_size", G, "Bytes of all segments."), lambda partition: partition.log.size),
    (
        _partition("kafka_log_log_logendoffset", G, "The offset of the next record."),
        lambda partition: partition.log.end_offset,
    ),
    (
        _partition("kafka_log_log_logstartoffset", G, "The first offset that can be read."),
        lambda partition: partition.log.start_offset,
    ),
    (
        _partition("kafka_log_log_numlogsegments", G, "Segments, the active one included."),
        lambda partition: len(partition.log.segments),
    ),
    (
        _partition("kafka_cluster_partition_underreplicated", G, "1 if a replica is not in sync."),
        lambda partition: int(_is_under_replicated(partition)),
    ),
    (
        _partition("ottla_partition_messages_in_total", C, "Records appended."),
        lambda partition: partition.messages_appended,
    ),
    (_partition("ottla_partition_bytes_in_total", C, "Bytes appended."), lambda partition: partition.bytes_appended),
    (
        _partition("ottla_partition_bytes_out_total", C, "Bytes given to consumers."),
        lambda partition: partition.bytes_fetched,
    ),
    (
        _partition("ottla_partition_high_watermark", G, "Up to where records are committed."),
        lambda partition: partition.high_watermark,
    ),
)


class Gone:
    """What partitions had counted that are no longer here: the totals over all topics must not go back."""

    def __init__(self) -> None:
        self.counts = [0] * len(BY_TOPIC)

    def add(self, partition: Partition) -> None:
        for number, (_, count) in enumerate(BY_TOPIC):
            self.counts[number] += count(partition)


def _is_under_replicated(partition: Partition) -> bool:
    leadership = partition.leadership
    return partition.is_leader and len(leadership.isr) < len(leadership.replicas)


Figure = tuple[Family, Callable[["Node"], float]]
NODE: Final[tuple[Figure, ...]] = (
    (
        Family(
            "kafka_server_kafkaserver_brokerstate",
            G,
            "0 not running, 1 starting, 2 recovering, 3 running, 6 handing over before it stops, 7 stopping.",
        ),
        lambda node: node.state,
    ),
    (
        Family("kafka_server_replicamanager_reassigningpartitions", G, "Led here, and moving to other brokers."),
        lambda node: sum(partition.is_reassigning for partition in _here(node)),
    ),
    (
        Family("kafka_server_replicamanager_isrshrinks_total", C, "In-sync sets that became smaller, led here."),
        lambda node: _replication(node).isr_changes.shrinks,
    ),
    (
        Family("kafka_server_replicamanager_isrexpands_total", C, "In-sync sets that became larger, led here."),
        lambda node: _replication(node).isr_changes.expansions,
    ),
    (
        Family("kafka_server_replicamanager_failedisrupdates_total", C, "Changes that the controller has refused."),
        lambda node: _replication(node).isr_changes.failures,
    ),
    (
        Family("kafka_server_replicafetchermanager_maxlag", G, "Records that the follower furthest behind here lacks."),
        lambda node: _replication(node).fetchers.max_lag,
    ),
    (
        Family(
            "kafka_server_replicafetchermanager_failedpartitionscount", G, "Replicas here that do not follow any more."
        ),
        lambda node: _replication(node).fetchers.failed,
    ),
    (
        Family("kafka_server_brokertopicmetrics_replicationbytesin_total", C, "Bytes fetched from leaders."),
        lambda node: _replication(node).fetchers.bytes_in,
    ),
    (
        Family("kafka_server_brokertopicmetrics_replicationbytesout_total", C, "Bytes given to followers."),
        lambda node: node.replicas.replication_bytes_out,
    ),
    (
        Family("kafka_controller_kafkacontroller_activecontrollercount", G, "1 on the controller that leads."),
        lambda node: int(node.is_active_controller),
    ),
    (
        Family("kafka_controller_kafkacontroller_activebrokercount", G, "Brokers that may lead."),
        lambda node: sum(broker.active for broker in node.image.brokers.values()),
    ),
    (
        Family("kafka_controller_kafkacontroller_fencedbrokercount", G, "Brokers that are registered and fenced."),
        lambda node: sum(broker.fenced for broker in node.image.brokers.values()),
    ),
    (
        Family("kafka_controller_kafkacontroller_globaltopiccount", G, "Topics of the cluster."),
        lambda node: len(node.image.topics),
    ),
    (
        Family("kafka_controller_kafkacontroller_globalpartitioncount", G, "Partitions of the cluster."),
        lambda node: sum(len(topic.partitions) for topic in node.image.topics.values()),
    ),
    (
        Family("kafka_controller_kafkacontroller_offlinepartitionscount", G, "Partitions without a leader."),
        lambda node: _count(node.image, lambda leader, _: leader == NO_LEADER),
    ),
    (
        Family(
            "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            G,
            "Partitions that another than the first of their replicas leads.",
        ),
        lambda node: _count(node.image, lambda leader, preferred: leader != preferred),
    ),
    (
        Family("kafka_server_metadatacache_metadataoffset", G, "The offset of the last metadata record that is known."),
        lambda node: node.image.offset,
    ),
    (
        Family("ottla_timers", G, "Waits that are under way: long polls, delayed acks, expiries."),
        lambda node: len(node.timers),
    ),
)
BROKER: Final[tuple[Figure, ...]] = (
    (
        Family("kafka_server_replicamanager_partitioncount", G, "Partitions on this node."),
        lambda node: len(_here(node)),
    ),
    (
        Family("kafka_server_replicamanager_leadercount", G, "Of those, led by it."),
        lambda node: sum(partition.is_leader for partition in _here(node)),
    ),
    (
        Family("kafka_server_replicamanager_offlinereplicacount", G, "Partitions that should be here, and cannot."),
        lambda node: _offline(node),
    ),
    (
        Family("kafka_server_replicamanager_underreplicatedpartitions", G, "Led here, and a replica is not in sync."),
        lambda node: sum(map(_is_under_replicated, _here(node))),
    ),
    (
        Family("kafka_server_replicamanager_underminisrpartitioncount", G, "Led here, in-sync replicas below min.isr."),
        lambda node: sum(partition.is_leader and partition.is_under_min_isr for partition in _here(node)),
    ),
    (
        Family("kafka_server_replicamanager_atminisrpartitioncount", G, "Led here, just as many as min.isr demands."),
        lambda node: sum(partition.is_leader and partition.is_at_min_isr for partition in _here(node)),
    ),
    (
        Family("kafka_server_fetchsessioncache_numincrementalfetchsessions", G, "Fetch sessions (KIP-227)."),
        lambda node: len(node.fetch_sessions),
    ),
    (
        Family("kafka_log_logmanager_offlinelogdirectorycount", G, "Log dirs that have failed."),
        lambda node: node.offline_log_dirs,
    ),
    (
        Family("kafka_network_requestchannel_requestqueuesize", G, "Requests that wait for others to end."),
        lambda node: node.dispatcher.queued,
    ),
)
DIR_OFFLINE: Final = Family(
    "kafka_log_logmanager_logdirectoryoffline", G, "1 for a log dir that has failed.", ("logdirectory",)
)
PURGATORY: Final = Family(
    "kafka_server_delayedoperationpurgatory_purgatorysize", G, "Requests that wait.", ("delayedoperation",)
)
BUILD: Final = Family("ottla_build_info", G, "Always 1; which version, node and cluster.",
                      ("version", "node_id", "cluster_id"))  # fmt: skip


def _replication(node: Node) -> Replication:
    assert node.replicas.replication is not None
    return node.replicas.replication


def _here(node: Node) -> list[Partition]:
    return list(node.replicas.by_id.values())


def _offline(node: Node) -> int:
    node_id, here = node.config.node_id, node.replicas.by_id
    return sum(
        node_id in partition.replicas and (topic.id, number) not in here
        for topic in node.image.topics.values()
        for number, partition in topic.partitions.items()
    )


def _count(image: MetadataImage, wanted: Callable[[int, int], bool]) -> int:
    return sum(
        wanted(partition.leader, partition.replicas[0])
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


class NodeMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Gathered]:
        node = self._node
        told = labels(version=__version__, node_id=node.config.node_id, cluster_id=node.cluster_id)
        yield Gathered(BUILD, [(told, 1)])
        if not node.is_serving:  # while it starts, most of it is not there yet
            yield Gathered(NODE[0][0], [("", node.state)])
            return
        for family, value in NODE:
            yield Gathered(family, _one(node, value))
        if node.broker is not None:
            yield from self._of_broker()

    def _of_broker(self) -> Iterator[Gathered]:
        node = self._node
        for family, value in BROKER:
            yield Gathered(family, _one(node, value))
        dirs = [(labels(logdirectory=path), int(path in node.logs.offline)) for path in node.config.log_dirs]
        yield Gathered(DIR_OFFLINE, dirs)
        yield Gathered(PURGATORY, [('{delayedoperation="Fetch"}', len(node.waiting))])
        partitions = _here(node)
        for number, (family, count) in enumerate(BY_TOPIC):
            yield Gathered(family, _by_topic(partitions, count, node.replicas.gone.counts[number]))
        for family, value_of in BY_PARTITION:
            yield Gathered(family, ((_labels(partition), value_of(partition)) for partition in partitions))


def _one(node: Node, value: Callable[[Node], float]) -> Iterator[Row]:
    yield "", value(node)


def _labels(partition: Partition) -> str:
    return f'{{topic="{partition.key.topic}",partition="{partition.key.partition}"}}'


def _by_topic(partitions: Iterable[Partition], count: Callable[[Partition], int], gone: int) -> Iterator[Row]:
    by_topic: dict[str, int] = {}
    for partition in partitions:
        topic = partition.key.topic
        by_topic[topic] = by_topic.get(topic, 0) + count(partition)
    yield "", sum(by_topic.values()) + gone
    for topic, value in by_topic.items():
        yield f'{{topic="{topic}"}}', value
