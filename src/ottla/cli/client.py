"""What `produce` and `consume` share: librdkafka with its complaints turned into one sentence."""

from __future__ import annotations

import logging
import socket
from typing import Any, Final

from ottla.cli.address import Address, unreachable
from ottla.model.errors import OttlaError

METADATA_WITHIN_S: Final = 5.0


def settings(bootstrap: tuple[Address, ...], own: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """`own` are properties of librdkafka that the user gives with -X."""
    return {
        "bootstrap.servers": ",".join(map(str, bootstrap)),
        "client.id": "ottla-cli",
        "logger": _silent_logger(),
        "error_cb": lambda error: None,  # shown where it matters: a delivery or a read that fails
        **dict(own),
    }


def _silent_logger() -> logging.Logger:
    """librdkafka would write its own lines to stderr."""
    logger = logging.getLogger("ottla.librdkafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def check_reachable(bootstrap: tuple[Address, ...]) -> None:
    """librdkafka goes on trying in silence; a person wants to know at once that nobody listens."""
    reason = ""
    for address in bootstrap:
        try:
            socket.create_connection(address, timeout=METADATA_WITHIN_S).close()
            return
        except ConnectionRefusedError:
            reason = "connection refused"
        except OSError as error:
            reason = error.strerror or "no answer in time"
    raise OttlaError(unreachable(bootstrap, reason))


def partitions_of(client: Any, topic: str, bootstrap: tuple[Address, ...]) -> list[int]:
    """The partitions of a topic; none if it is not there yet. OttlaError if nobody answers."""
    from confluent_kafka import KafkaError, KafkaException

    check_reachable(bootstrap)
    try:
        found = client.list_topics(topic, timeout=METADATA_WITHIN_S).topics[topic]
    except KafkaException as error:
        if error.args[0].code() in (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN):
            raise OttlaError(unreachable(bootstrap)) from None
        raise OttlaError(f"topic {topic}: {error.args[0].str()}") from None
    missing = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE)
    if found.error is not None and found.error.code() not in missing:
        raise OttlaError(f"topic {topic}: {found.error.str()}")
    return sorted(found.partitions)


def client_error(error: Exception) -> OttlaError:
    """A refused property (-X) or anything else that librdkafka raises, told in its words."""
    inner = error.args[0] if error.args else error
    return OttlaError(inner.str() if hasattr(inner, "str") else str(inner))
