"""How far the groups that this node coordinates are behind, under the names that exporters for Kafka have made usual.

kafka_exporter's begin with `kafka_consumergroup_` and `kafka_topic_`; `kafka_consumer_group_lag` is what
the receiver of OpenTelemetry makes. There may be a hundred thousand offsets: all is read when its row is due.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ottla.coordinator.group.offset_records import offset_in
from ottla.env.metrics import Family, Gathered, Kind, Row, escaped
from ottla.model.errors import KafkaError
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.broker.node import Node
    from ottla.coordinator.group.machine import GroupMachine

G: Final = Kind.GAUGE
_OFFSET: Final = ("consumergroup", "topic", "partition")
_SUM: Final = ("consumergroup", "topic")

LAG: Final = Family(
    "kafka_consumer_group_lag", G, "Records between the committed offset and the high watermark.",
    ("group", "topic", "partition"),
)  # fmt: skip
CURRENT: Final = Family("kafka_consumergroup_current_offset", G, "The committed offset.", _OFFSET)
CURRENT_SUM: Final = Family("kafka_consumergroup_current_offset_sum", G, "Their sum over a topic.", _SUM)
EXPORTERS_LAG: Final = Family("kafka_consumergroup_lag", G, "The same as kafka_consumer_group_lag.", _OFFSET)
LAG_SUM: Final = Family("kafka_consumergroup_lag_sum", G, "Its sum over a topic.", _SUM)
MEMBERS: Final = Family("kafka_consumergroup_members", G, "Members of the group.", ("consumergroup",))
BROKERS: Final = Family("kafka_brokers", G, "Brokers that may lead.")
PARTITIONS: Final = Family("kafka_topic_partitions", G, "Partitions of the topic.", ("topic",))
END: Final = Family(
    "kafka_topic_partition_current_offset", G, "The high watermark of a partition that is led here.",
    ("topic", "partition"),
)  # fmt: skip
BEGIN: Final = Family(
    "kafka_topic_partition_oldest_offset", G, "Its first offset that can be read.", ("topic", "partition")
)

_Sums = dict[tuple[str, str], list[int]]


class LagMetrics:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Gathered]:
        node = self._node
        if not node.is_serving or node.broker is None:
            return
        yield Gathered(BROKERS, [("", sum(broker.active for broker in node.image.brokers.values()))])
        topics = list(node.image.topics.values())
        yield Gathered(PARTITIONS, ((f'{{topic="{topic.name}"}}', len(topic.partitions)) for topic in topics))
        led = [partition for partition in node.replicas.by_id.values() if partition.is_leader]
        yield Gathered(END, ((_labels(each), each.high_watermark) for each in led))
        yield Gathered(BEGIN, ((_labels(each), each.log.start_offset) for each in led))
        sums: _Sums = {}
        yield Gathered(CURRENT, self._offsets(sums))
        yield Gathered(EXPORTERS_LAG, self._lags("consumergroup"))
        yield Gathered(LAG, self._lags("group"))
        for number, family in enumerate((CURRENT_SUM, LAG_SUM)):
            yield Gathered(
                family,
                (
                    (f'{{consumergroup="{group}",topic="{topic}"}}', both[number])
                    for (group, topic), both in sums.items()
                ),
            )
        yield Gathered(MEMBERS, self._members())

    def _offsets(self, sums: _Sums) -> Iterator[Row | None]:
        for group, topic, partition, offset in self._committed():
            if offset is None:
                yield None
                continue
            both = sums.setdefault((group, topic), [0, 0])
            both[0] += offset
            both[1] += self._lag(topic, partition, offset) or 0
            yield f'{{consumergroup="{group}",topic="{topic}",partition="{partition}"}}', offset

    def _lags(self, label: str) -> Iterator[Row | None]:
        for group, topic, partition, offset in self._committed():
            lag = None if offset is None else self._lag(topic, partition, offset)
            yield None if lag is None else (f'{{{label}="{group}",topic="{topic}",partition="{partition}"}}', lag)

    def _lag(self, topic: str, partition: int, offset: int) -> int | None:
        """None where this node has no replica that could tell."""
        found = self._node.replicas.by_name.get((topic, partition))
        return None if found is None else max(0, found.high_watermark - offset)

    def _members(self) -> Iterator[Row]:
        for machine in self._machines():
            for group_id in machine.owners.ids():
                yield f'{{consumergroup="{escaped(group_id)}"}}', machine.owners.size(group_id)

    def _committed(self) -> Iterator[tuple[str, str, int, int | None]]:
        """Group (as a label), topic, partition, offset; None for the offset where nothing is, to take a breath at."""
        for machine in self._machines():
            table = machine.offsets.table
            for group_id in table.groups():
                group = escaped(group_id)
                for (topic, partition), value in table.stored(group_id):
                    yield group, topic, partition, offset_in(value)
                yield group, "", 0, None

    def _machines(self) -> Iterator[GroupMachine]:
        """Of the shards that are loaded, one after the other: it may have gone when its turn comes."""
        for shard in self._node.groups.runtime.active:
            try:
                yield shard.read(lambda machine: machine)
            except KafkaError:
                continue


def _labels(partition: Partition) -> str:
    return f'{{topic="{partition.key.topic}",partition="{partition.key.partition}"}}'
