"""What the metadata topic tells, read from its beginning to its end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any, NamedTuple
from uuid import UUID

from ottla.cli.client import READING, check_reachable, make, partitions_of, settings, told_in_a_line
from ottla.cli.cluster_options import Cluster
from ottla.cli.scope import Scope
from ottla.model.errors import OttlaError
from ottla.model.names import REMOTE_METADATA_TOPIC
from ottla.tier.remote_log import RemoteLog
from ottla.tier.remote_segment import RemotePartition
from ottla.tier.told import hear


class Known(NamedTuple):
    logs: dict[tuple[UUID, int], RemoteLog]
    names: dict[tuple[UUID, int], RemotePartition]
    is_told: bool = True
    """False if there is no metadata topic, so that nothing can have been copied."""

    def chosen(
        self, scopes: tuple[Scope, ...], also: Iterable[RemotePartition] = ()
    ) -> list[tuple[RemotePartition, RemoteLog]]:
        """Those of the topics and partitions that were asked for, all if none were; in order. `also` are there even if
        they have nothing in the tier."""
        found = [(self.names[key], log) for key, log in self.logs.items() if log.segments]
        there = {(of.topic_id, of.partition) for of, _ in found}
        found += [(of, RemoteLog()) for of in also if (of.topic_id, of.partition) not in there]
        if scopes:
            for scope in scopes:
                _demand(scope, {of.partition for of, _ in found if of.topic == scope.topic})
            found = [
                (of, log)
                for of, log in found
                if any(of.topic == scope.topic and of.partition in (scope.only or (of.partition,)) for scope in scopes)
            ]
        return sorted(found, key=lambda each: (each[0].topic, each[0].partition))


def _demand(scope: Scope, there: set[int]) -> None:
    if not there:
        raise OttlaError(f"topic {scope.topic} has nothing in the remote tier")
    if missing := set(scope.only or ()) - there:
        raise OttlaError(f"partition {min(missing)} of topic {scope.topic} has nothing in the remote tier")


def read_known(cluster: Cluster) -> Known:
    known = read_if_told(cluster)
    if not known.is_told:
        raise OttlaError(f"{REMOTE_METADATA_TOPIC} is not there: nothing of this cluster is in the remote tier")
    return known


def read_if_told(cluster: Cluster) -> Known:
    from confluent_kafka import Consumer

    check_reachable(cluster)
    with told_in_a_line():
        consumer = make(Consumer, settings(cluster, (*READING, ("auto.offset.reset", "earliest"))))
        try:
            numbers = partitions_of(consumer, REMOTE_METADATA_TOPIC, cluster)
            return _read(consumer, numbers, cluster) if numbers else Known({}, {}, is_told=False)
        finally:
            consumer.close()


def _read(consumer: Any, numbers: list[int], cluster: Cluster) -> Known:
    from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

    known = Known({}, {})
    left = set(numbers)
    consumer.assign([TopicPartition(REMOTE_METADATA_TOPIC, number, OFFSET_BEGINNING) for number in numbers])
    heard = time.monotonic()
    while left:
        messages = consumer.consume(1000, timeout=1.0)
        if not messages and time.monotonic() - heard > cluster.timeout_s:
            raise OttlaError(f"{REMOTE_METADATA_TOPIC} cannot be read to its end: no answer in {cluster.timeout_s:g} s")
        for message in messages:
            heard = time.monotonic()
            if (error := message.error()) is None:
                hear(message.value(), known.logs, known.names)
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
            else:
                raise OttlaError(f"{REMOTE_METADATA_TOPIC}-{message.partition()}: {error.str()}")
    return known
