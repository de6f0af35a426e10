"""Figures of a measurement: rates and percentiles, for people and as JSON or YAML."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from ottla.cli.output import count, print_value, shown
from ottla.cli.progress import bytes_text

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)


def percentile(ordered: Sequence[float], percent: float) -> float:
    """The smallest value that is not below so many per cent of them."""
    return ordered[min(len(ordered) - 1, max(0, -(-int(percent * len(ordered)) // 100) - 1))]


def latency(samples_ms: Sequence[float]) -> dict[str, float] | None:
    if not samples_ms:
        return None
    ordered = sorted(samples_ms)
    figures = {f"p{percent:g}": percentile(ordered, percent) for percent in PERCENTILES}
    figures |= {"mean": sum(ordered) / len(ordered), "min": ordered[0], "max": ordered[-1]}
    return {name: round(value, 3) for name, value in figures.items()}


def rates(records: int, size: int, seconds: float) -> dict[str, Any]:
    span = max(seconds, 1e-9)
    return {
        "records": records,
        "bytes": size,
        "seconds": round(seconds, 3),
        "records_per_second": round(records / span, 1),
        "bytes_per_second": round(size / span, 1),
    }


def print_figures(output: str | None, title: str, figures: dict[str, Any]) -> None:
    if output in ("json", "yaml"):
        print_value(output, figures)
        return
    click.echo(click.style(shown(title), bold=True))
    if "records_per_second" in figures:
        size = bytes_text(figures["bytes"])
        click.echo(f"  {count(figures['records'], 'record')}, {size}, in {figures['seconds']:.2f} s")
        each = bytes_text(figures["bytes_per_second"])
        click.echo(f"  {figures['records_per_second']:,.0f} records/s, {each}/s")
    if figures.get("failed"):
        click.echo(f"  {figures['failed']} of {figures['looked_at']} failed: {shown(figures['first_failure'])}")
    found = figures.get("latency_ms")
    if found:
        told = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
        of = f" of {count(figures['looked_at'], 'record')}" if "looked_at" in figures else ""
        click.echo(f"  latency{of} in ms: {told}")
