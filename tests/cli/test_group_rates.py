"""Rates and times to catch up, from looks now and then."""

from __future__ import annotations

import pytest

from ottla.cli.admin.group_lag import Position, Progress
from ottla.cli.admin.groups import CLASSIC, Group
from ottla.cli.group.rates import Rates, rate_text, span_text
from ottla.cli.group.watch import view


def progress(*offsets: tuple[int | None, int | None], state: str = "Stable") -> Progress:
    positions = tuple(Position("t", number, at, None, end, None) for number, (at, end) in enumerate(offsets))
    return Progress(Group("g", CLASSIC, state, "range", 1), positions)


def test_one_look_tells_no_rate() -> None:
    figures = Rates().add(progress((5, 10)), 0.0)
    assert (figures.rate.read, figures.rate.written, figures.catches_up_in_s) == (None, None, None)


@pytest.mark.parametrize(
    ("first", "second", "read", "written", "catches_up"),
    [
        ([(0, 100)], [(50, 100)], 5, 0, 10),
        ([(0, 100)], [(50, 120)], 5, 2, 70 / 3),
        ([(0, 100)], [(10, 200)], 1, 10, float("inf")),
        ([(0, 100)], [(0, 100)], 0, 0, float("inf")),
        ([(0, 100)], [(110, 110)], 11, 1, 0),
        ([(0, 50), (0, 50)], [(10, 50), (20, 50)], 3, 0, 70 / 3),
        ([(None, 50)], [(10, 50)], None, 0, None),  # its first commit: nobody knows from where
        ([(0, 50)], [(0, 50), (7, 9)], 0, 0, float("inf")),  # a partition more
        ([(90, 100)], [(40, 100)], 0, 0, float("inf")),  # set back
        ([(5, None)], [(5, None)], 0, None, None),
    ],
)
def test_two_looks_tell_rates(
    first: list[tuple[int | None, int | None]],
    second: list[tuple[int | None, int | None]],
    read: float | None,
    written: float | None,
    catches_up: float | None,
) -> None:
    rates = Rates()
    rates.add(progress(*first), 0.0)
    figures = rates.add(progress(*second), 10.0)
    assert figures.rate == (read, written)
    assert figures.catches_up_in_s == (None if catches_up is None else pytest.approx(catches_up))


def test_rates_are_those_of_the_last_half_minute() -> None:
    rates = Rates()
    for second in range(0, 101, 5):
        figures = rates.add(progress((second * 10 if second <= 60 else 600, 10_000)), float(second))
    assert figures.rate.read == 0
    assert rates.add(progress((900, 10_000)), 105.0).rate.read == pytest.approx(10)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"), (0, "now"), (0.2, "1 s"), (59.6, "60 s"), (119, "119 s"), (150, "2 min"), (7100, "118 min"),
        (7300, "2 h"), (172_000, "2 d"), (1e7, "116 d"), (float("inf"), "never"),
    ],
)  # fmt: skip
def test_spans_as_people_say_them(seconds: float | None, text: str) -> None:
    assert span_text(seconds) == text


def test_rates_as_people_say_them() -> None:
    assert [rate_text(rate) for rate in (None, 0.0, 0.25, 9.94, 1234.5)] == ["-", "0", "0.2", "9.9", "1,234"]


def test_a_screen_has_aligned_columns_and_one_group_its_partitions() -> None:
    rates = Rates()
    rates.add(progress((0, 1_000_000), (None, 3)), 0.0)
    one = rates.add(progress((500_000, 1_000_000), (None, 3)), 10.0)
    lines = view([one], "")
    assert lines[2].split("  ")[0] == "GROUP" and lines[3].split() == [
        "g", "Stable", "0", "500,000", "50,000", "0", "10", "s",
    ]  # fmt: skip
    assert lines[6].split() == ["t", "0", "500,000", "1,000,000", "500,000", "50,000", "0", "-", "-"]
    assert lines[7].split() == ["t", "1", "-", "3", "-", "-", "0", "-", "-"]
    assert lines[5].index("LAG") == lines[6].index("500,000", 30)
    assert not any("TOPIC" in line for line in view([one, one], ""))
    assert view([], "")[-1] == "There are no groups."
