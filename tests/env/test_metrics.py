"""Histograms and quantiles of times, and the text that Prometheus reads."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from ottla.env.clock import SystemClock
from ottla.env.metrics import BOUNDS, Family, Gathered, Kind, Metrics, Times, labels
from ottla.env.metrics_text import as_text


def text_of(gathered: Iterable[Gathered]) -> str:
    async def take() -> bytes:
        return b"".join([chunk async for chunk in as_text(gathered, SystemClock())])

    return asyncio.run(take()).decode()


def parsed(gathered: Iterable[Gathered]) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text_of(gathered))}


@given(st.lists(st.floats(0, 100), max_size=3000))
def test_every_time_is_in_its_bucket_and_in_the_sum(seconds: list[float]) -> None:
    times = Times()
    for value in seconds:
        times.note(value)

    rows = dict(times.histogram())

    for bound in BOUNDS:
        assert rows[f'_bucket{{le="{bound!r}"}}'] == sum(value <= bound for value in seconds)
    assert rows['_bucket{le="+Inf"}'] == rows["_count"] == len(seconds)
    assert rows["_sum"] == pytest.approx(sum(seconds))


def test_quantiles_are_those_of_what_came_last() -> None:
    times = Times()
    for value in random.Random(1).sample(range(5000), 5000):
        times.note(value / 1000)
    for value in random.Random(2).sample(range(1024), 1024):
        times.note(value / 1024)

    rows = dict(times.summary_ms('request="Produce"'))

    assert rows['{request="Produce",quantile="0.5"}'] == pytest.approx(500, rel=0.05)
    assert rows['{request="Produce",quantile="0.99"}'] == pytest.approx(990, rel=0.05)
    assert rows['_count{request="Produce"}'] == 6024


def test_a_few_times_have_quantiles_too() -> None:
    times = Times()
    assert times.quantiles()[0.99] == 0
    for value in (0.003, 0.002, 0.001):
        times.note(value)
    assert times.quantiles()[0.5] == 0.002
    times.note(0.004)
    assert (times.quantiles()[0.5], times.quantiles()[0.999]) == (0.003, 0.004)


def test_what_strangers_have_chosen_cannot_break_the_text() -> None:
    name = 'a "quoted"\nname \\ of {a} client'
    family = Family("clients", Kind.GAUGE, 'a help\nof two "lines" \\', ("name",))

    found = parsed([Gathered(family, [(labels(name=name), 7)])])["clients"]

    assert [(sample.labels, sample.value) for sample in found.samples] == [({"name": name}, 7)]
    assert found.documentation == 'a help\nof two "lines" \\'


def test_kinds_come_through_the_parser() -> None:
    times = Times()
    times.note(0.2)
    metrics = Metrics()
    metrics.add(
        lambda: [
            Gathered(Family("some_total", Kind.COUNTER, "c"), [("", 1 << 60)]),
            Gathered(Family("level", Kind.GAUGE, "g"), [("", 0.25)]),
            Gathered(Family("took_seconds", Kind.HISTOGRAM, "h"), times.histogram('api="x"')),
            Gathered(Family("took_ms", Kind.SUMMARY, "s"), times.summary_ms()),
        ]
    )

    found = parsed(metrics.gather())

    assert {name: family.type for name, family in found.items()} == {
        "some": "counter", "level": "gauge", "took_seconds": "histogram", "took_ms": "summary",
    }  # fmt: skip
    assert found["some"].samples[0].value == 1 << 60
    assert found["level"].samples[0].value == 0.25


def test_a_long_text_lets_others_have_the_loop() -> None:
    family = Family("many", Kind.GAUGE, "g", ("n",))
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def scenario() -> None:
        task = asyncio.create_task(others())
        rows = ((f'{{n="{number}"}}', number) for number in range(200_000))
        async for _ in as_text([Gathered(family, rows)], SystemClock()):
            pass
        task.cancel()

    asyncio.run(scenario())
    assert turns > 5


def test_what_must_block_is_refreshed_when_asked() -> None:
    metrics, refreshed = Metrics(), []
    metrics.add(lambda: (), refresh=lambda: refreshed.append(1))
    metrics.refresh()
    assert refreshed == [1]
