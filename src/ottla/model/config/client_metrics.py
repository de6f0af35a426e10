"""What a subscription to clients' metrics may say (KIP-714)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from ottla.model.config.broker import parse_values
from ottla.model.config.tables.client_metrics import CLIENT_METRICS_CONFIGS
from ottla.model.config_error import ConfigError
from ottla.model.errors import ErrorCode, KafkaError

SHORTEST_INTERVAL_MS: Final = 100
LONGEST_INTERVAL_MS: Final = 3_600_000
MATCHED: Final = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def validate_client_metrics(overrides: Mapping[str, str]) -> None:
    """Raises KafkaError or ConfigError: Kafka has both INVALID_REQUEST and INVALID_CONFIG for these."""
    for name in overrides:
        if name not in CLIENT_METRICS_CONFIGS:
            raise KafkaError(ErrorCode.invalid_request, f"Unknown client metrics configuration: {name}")
    values = parse_values(overrides, CLIENT_METRICS_CONFIGS)
    interval, patterns = values["interval.ms"], values["match"]
    assert isinstance(interval, int) and isinstance(patterns, tuple)
    if not SHORTEST_INTERVAL_MS <= interval <= LONGEST_INTERVAL_MS:
        raise KafkaError(
            ErrorCode.invalid_request,
            f"Invalid value {interval} for interval.ms, interval must be between {SHORTEST_INTERVAL_MS} and "
            f"{LONGEST_INTERVAL_MS} (1 hour)",
        )
    match_patterns(patterns)


class Pattern(Protocol):
    def fullmatch(self, text: str) -> object: ...


def match_patterns(patterns: Iterable[str]) -> dict[str, Pattern]:
    """By what they are matched with; the last one of a name counts.

    RE2 matches in linear time: with any other engine a pattern could keep the loop busy for good.
    """
    import re2  # only where there are subscriptions

    options = re2.Options()
    options.log_errors = False
    found: dict[str, Pattern] = {}
    for text in patterns:
        name, equals, pattern = text.partition("=")
        wrong = ConfigError("", None, f"Illegal client matching pattern: {text}")
        if name.strip() not in MATCHED or not equals or not pattern or "=" in pattern:
            raise wrong
        try:
            found[name.strip()] = re2.compile(pattern.strip(), options=options)
        except re2.error:
            raise wrong from None
    return found
