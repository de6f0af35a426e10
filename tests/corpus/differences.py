"""Where the outcome is another than Apache Kafka's, and is meant to be.

Some differences concern a whole outcome, others a part of an answer, which is left out on both sides before they are
compared. Each has its reason, which stands word by word in docs/compatibility.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tests.corpus.compare import Difference
from tests.corpus.outcome import outcome_class

from ottla.broker.apis import produce_format
from ottla.broker.apis.registry import ALL
from ottla.record.batch import LOG_OVERHEAD, TIMESTAMP_TYPE_BIT, BatchStart, batch_start

PRODUCE, FETCH, FIND_COORDINATOR, API_VERSIONS, CREATE_TOPICS, DESCRIBE_CONFIGS = 0, 1, 10, 18, 19, 32
ALTER_CONFIGS, DESCRIBE_QUORUM, UPDATE_FEATURES, LIST_TRANSACTIONS = 33, 55, 57, 66
_OFFERED: Final = {api.key for api in ALL}
_LONG: Final = 30_000  # bytes
_LONGEST_PATTERN: Final = 4096


class Whole(NamedTuple):
    """An outcome that may be another."""

    reason: str
    holds: Callable[[Difference], bool]


class Part(NamedTuple):
    """Something in the answers of some APIs that need not be equal; `without` gives a dict or a list that lacks it."""

    reason: str
    apis: set[int]
    without: Callable[[Any], Any]


def _kind(outcome: Any) -> str:
    return outcome_class(outcome)


def _has_coordinator(one: Difference) -> bool:
    return one.key == FIND_COORDINATOR and "coordinator_not_available" in _kind(one.here)


def _batches(one: Difference) -> list[memoryview]:
    if one.key != PRODUCE:
        return []
    request = produce_format.read(one.version, memoryview(one.body))
    return [row.batch for topic in request.topics for row in topic.rows if row.batch is not None]


def _claims_append_time(one: Difference) -> bool:
    refused = one.here == "closed" or "invalid_timestamp" in _kind(one.here)
    return refused and any(len(batch) > 22 and batch[22] & TIMESTAMP_TYPE_BIT for batch in _batches(one))


def _has_bytes_after_the_batch(one: Difference) -> bool:
    refused = one.here == "closed" or "invalid_record" in _kind(one.here)
    return refused and any(
        batch_start(batch) is BatchStart.PLAIN and len(batch) > LOG_OVERHEAD + int.from_bytes(batch[8:12], "big")
        for batch in _batches(one)
    )


def _is_too_long_for_kafka(one: Difference) -> bool:
    return len(one.body) > _LONG and "unknown_server_error" in _kind(one.kafka)


def _has_long_pattern(one: Difference) -> bool:
    return one.key == LIST_TRANSACTIONS and len(one.body) > _LONGEST_PATTERN


def _without(*names: str) -> Callable[[Any], Any]:
    def without(value: Any) -> Any:
        return {name: item for name, item in value.items() if name not in names} if isinstance(value, dict) else value

    return without


def _without_config(name: str) -> Callable[[Any], Any]:
    def without(value: Any) -> Any:
        if not isinstance(value, list):
            return value
        return [item for item in value if not isinstance(item, dict) or item.get("name") != name]

    return without


def _offered_apis(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [item for item in value if not isinstance(item, dict) or item.get("api_key", 0) in _OFFERED]


def _once(value: Any) -> Any:
    """Of equal items the first."""
    if not isinstance(value, list):
        return value
    return [item for at, item in enumerate(value) if item not in value[:at]]


def _resets_all_brokers(one: Difference) -> bool:
    """AlterConfigs for the default of all brokers, which takes back what only Kafka has set."""
    default = b"\x04\x00\x00" if one.version < 2 else b"\x04\x01"
    return one.key == ALTER_CONFIGS and "invalid_config" in _kind(one.kafka) and default in one.body


WHOLE: Final = (
    Whole("FindCoordinator answers COORDINATOR_NOT_AVAILABLE", _has_coordinator),
    Whole("a batch with the LogAppendTime bit set by the client", _claims_append_time),
    Whole("bytes after the batch in a Produce request", _has_bytes_after_the_batch),
    Whole("Requests that Kafka never answers", lambda one: one.kafka == "waits"),
    Whole("A text that is too long for an error message", _is_too_long_for_kafka),
    Whole("a pattern of more than 4,096 characters", _has_long_pattern),
)
PARTS: Final = (
    Part("leaves out the APIs that are not offered", {API_VERSIONS}, _offered_apis),
    Part(
        "none is finalised before it is implemented",
        {API_VERSIONS},
        _without("supported_features", "finalized_features"),
    ),
    Part("DescribeConfigs answers a resource that is named twice once", {DESCRIBE_CONFIGS}, _once),
    Part("Error messages are our own words", _OFFERED, _without("error_message", "batch_index_error_message")),
    Part("A single node needs no controller listener", {DESCRIBE_QUORUM}, _without("listeners")),
)
LISTED: Final = tuple(listed.reason for listed in (*WHOLE, *PARTS))


def reason(difference: Difference) -> str | None:
    """Why this is so; None if it should not be."""
    for whole in WHOLE:
        if whole.holds(difference):
            return whole.reason
    needed = [part for part in PARTS if difference.key in part.apis]
    if not _are_equal_without(needed, difference):
        return None
    for part in tuple(needed):
        others = [other for other in needed if other is not part]
        if _are_equal_without(others, difference):
            needed = others
    return " and ".join(part.reason for part in needed)


def _are_equal_without(parts: list[Part], difference: Difference) -> bool:
    kafka, here = difference.kafka, difference.here
    for part in parts:
        kafka, here = _apply(part.without, kafka), _apply(part.without, here)
    return bool(kafka == here)


def _apply(without: Callable[[Any], Any], value: Any) -> Any:
    if isinstance(value, dict):
        value = {name: _apply(without, item) for name, item in value.items()}
    elif isinstance(value, list):
        value = [_apply(without, item) for item in value]
    return without(value)
