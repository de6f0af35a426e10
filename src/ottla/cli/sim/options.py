"""Options of the commands of `ottla sim`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from ottla.cli.choices import Choice

if TYPE_CHECKING:
    from ottla.sim.cluster.variation import Variation

F = TypeVar("F", bound=Callable[..., Any])
INTENSITIES: Final = ("calm", "moderate", "hostile", "swarm")
STORM_S: Final = 50.0
FAILED: Final = 1


class Listed(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """Words separated by commas, or `none`."""

    name = "list"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        return () if value == "none" else tuple(part.strip() for part in value.split(",") if part.strip())


def seeds_options(function: F) -> F:
    for option in reversed(
        (
            click.option("-n", "--seeds", type=click.IntRange(1), default=100, show_default=True, help="How many."),
            click.option("--first", type=click.IntRange(0), default=0, show_default=True, help="The first seed."),
            click.option(
                "-j", "--jobs", type=click.IntRange(1), default=os.cpu_count() or 1, show_default="one a core",
                help="Processes.",
            ),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def how_options(function: F) -> F:
    for option in reversed(
        (
            click.option(
                "-i", "--intensity", type=Choice(INTENSITIES), default="swarm", show_default=True,
                help="How much goes wrong; with swarm each seed draws it.",
            ),
            click.option(
                "--storm", "storm_s", type=click.FloatRange(1.0), default=STORM_S, show_default=True,
                help="Seconds, on virtual time, in which things go wrong.",
            ),
        )
    ):  # fmt: skip
        function = option(function)
    return function


def workloads_option(function: F) -> F:
    return click.option("--workloads", type=Listed(), help="Only these, instead of those that the seed draws.")(
        function
    )


def part_options(function: F) -> F:
    for option in reversed(
        (
            click.option("--faults", type=Listed(), help="Only the faults of these numbers: 3,4,9, or none."),
            workloads_option,
            click.option(
                "--until", "until_s", type=click.FloatRange(0.0), help="End the storm earlier, after so many seconds."
            ),
        )
    ):
        function = option(function)
    return function


def variation(
    intensity: str,
    storm_s: float,
    faults: Sequence[str] | None = None,
    workloads: tuple[str, ...] | None = None,
    until_s: float | None = None,
) -> Variation:
    from ottla.sim.cluster.variation import Intensity, Variation
    from ottla.sim.cluster.workloads import WORKLOADS

    if unknown := [name for name in workloads or () if name not in WORKLOADS]:
        raise click.BadParameter(f"no such workload: {unknown[0]}; there are {', '.join(WORKLOADS)}")
    try:
        numbers = None if faults is None else tuple(map(int, faults))
    except ValueError as error:
        raise click.BadParameter("--faults takes numbers, as replay shows them: 3,4,9") from error
    return Variation(Intensity(intensity), storm_s, numbers, workloads, until_s)
