"""What clients push is shown, and cannot spoil what the node shows of itself."""

from __future__ import annotations

import asyncio
from uuid import UUID

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.telemetry.otlp import Point
from ottla.broker.telemetry.received import Received
from ottla.broker.telemetry.telemetry import LEFT_OUT
from ottla.env.clock import SystemClock
from ottla.env.metrics_text import as_text
from ottla.model.config import ConfigError
from ottla.model.config.client_metrics import match_patterns


async def shown(received: Received) -> str:
    return "".join([chunk.decode() async for chunk in as_text(received.collect(), SystemClock())])


@pytest.mark.parametrize("label", ["__name__", "le", "quantile", "client_id", "1st", "a-b"])
def test_any_label_can_be_read(label: str) -> None:
    received = Received()
    received.take(UUID(int=1), "me", [Point("org.apache.kafka.a.b", ((label, "x"),), 5.0, False, False)], 1)
    (family,) = text_string_to_metric_families(asyncio.run(shown(received)))
    assert family.name == "ottla_client_a_b"
    assert family.samples[0].value == 5.0 and family.samples[0].labels["client_id"] == "me"


def test_no_name_is_one_of_ours() -> None:
    assert not LEFT_OUT.name.startswith("ottla_client_")


def test_a_pattern_takes_time_by_its_length_only() -> None:
    pattern = match_patterns(["client_id=(a+)+"])["client_id"]
    assert pattern.fullmatch("a" * 100_000) and not pattern.fullmatch("a" * 100_000 + "b")


@pytest.mark.parametrize("pattern", ["client_id=(", "client_id=(?=a)", "name=a", "client_id"])
def test_patterns_that_cannot_be(pattern: str) -> None:
    with pytest.raises(ConfigError, match="Illegal client matching pattern"):
        match_patterns([pattern])
