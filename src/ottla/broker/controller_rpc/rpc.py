"""The form of such a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ottla.metadata.controller.requests import Request
from ottla.model.errors import ErrorCode, KafkaError


class Lane(Enum):
    """A connection of its own for what must not wait behind the rest."""

    LIFE = "heartbeat"
    """Registrations and heartbeats: a broker whose heartbeats wait is taken for dead."""
    PARTITIONS = "partitions"
    """What a broker tells of its partitions, and what it needs to go on."""
    CLIENTS = "forwarding"
    """What clients asked for; it takes as long as they like."""


@dataclass(frozen=True, slots=True)
class Rpc:
    """`ask` gives the fields of Kafka's request by their newest names; `reply` reads Kafka's answer.

    An error of the whole request is raised as KafkaError before `reply` is called.
    """

    request: type[Request[Any]]
    key: int
    lane: Lane
    ask: Callable[[Any], dict[str, Any]]
    reply: Callable[[Any, Any], Any]


def check(answer: Any) -> None:
    """Raises what the controller says of the request as a whole."""
    code = getattr(answer, "error_code", ErrorCode.none)
    if code is not ErrorCode.none:
        raise KafkaError(code, getattr(answer, "error_message", None) or f"the controller says {code.name.upper()}")
