"""What commands that move records share: librdkafka with its complaints turned into one sentence."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from ottla.cli.cluster_options import Cluster
from ottla.cli.partitions import chosen
from ottla.model.errors import OttlaError

T = TypeVar("T")

READING: Final = (
    ("group.id", "ottla-cli"),  # librdkafka wants one; nothing joins it
    ("enable.auto.commit", "false"),
    ("enable.partition.eof", "true"),
    ("fetch.queue.backoff.ms", "5"),  # a full queue would otherwise keep it from fetching for a second
)
"""Properties of every consumer: partitions are assigned, and their ends told."""


def settings(cluster: Cluster, own: Sequence[tuple[str, str]]) -> dict[str, Any]:
    """`own` are properties of librdkafka, the later ones winning: a command's, and what the user gives with -X."""
    return {
        "bootstrap.servers": ",".join(map(str, cluster.bootstrap)),
        "client.id": "ottla-cli",
        "logger": _silent_logger(),
        "error_cb": lambda error: None,  # shown where it matters: a delivery or a read that fails
        **dict(cluster.properties),
        **dict(own),
    }


def _silent_logger() -> logging.Logger:
    """librdkafka would write its own lines to stderr."""
    logger = logging.getLogger("ottla.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def make(kind: Callable[[dict[str, Any]], T], properties: dict[str, Any]) -> T:
    """A Producer or Consumer; OttlaError for a property that librdkafka refuses."""
    from confluent_kafka import KafkaException

    try:
        return kind(properties)
    except (KafkaException, ValueError, TypeError) as error:
        raise client_error(error) from None


@contextmanager
def told_in_a_line() -> Iterator[None]:
    """What librdkafka raises becomes an error for people."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise client_error(error) from None


def client_error(error: Exception) -> OttlaError:
    inner = error.args[0] if error.args else error
    return OttlaError(inner.str() if hasattr(inner, "str") else str(inner))


def check_reachable(cluster: Cluster) -> None:
    """librdkafka goes on trying in silence; a person wants to know at once that nobody listens."""
    reason = ""
    for address in cluster.bootstrap:
        try:
            socket.create_connection(address, timeout=min(cluster.timeout_s, 5.0)).close()
            return
        except ConnectionRefusedError:
            reason = "connection refused"
        except OSError as error:
            reason = error.strerror or "no answer in time"
    raise OttlaError(cluster.unreachable(reason))


def partitions_of(client: Any, topic: str, cluster: Cluster) -> list[int]:
    """The partitions of a topic; none if it is not there yet. OttlaError if nobody answers."""
    from confluent_kafka import KafkaError

    found = _metadata(client, topic, cluster).topics[topic]
    missing = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
    if found.error is not None and found.error.code() not in missing:
        raise OttlaError(f"topic {topic}: {found.error.str()}")
    return sorted(found.partitions)


def chosen_partitions(client: Any, topic: str, only: Sequence[int], cluster: Cluster) -> list[int]:
    """The wanted partitions, all if none are; OttlaError if there is no such topic or partition."""
    there = partitions_of(client, topic, cluster)
    if not there:
        from ottla.model.near_miss import did_you_mean

        hint = did_you_mean(topic, _metadata(client, None, cluster).topics)
        raise OttlaError(f"topic {topic} is not there{hint or f'; `ottla topic create {topic}` makes it'}")
    return chosen(topic, there, only)


def _metadata(client: Any, topic: str | None, cluster: Cluster) -> Any:
    from confluent_kafka import KafkaError, KafkaException

    try:
        return client.list_topics(*(() if topic is None else (topic,)), timeout=cluster.timeout_s)
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            raise OttlaError(cluster.unreachable(f"no answer within {cluster.timeout_s:g} s")) from None
        raise client_error(error) from None
