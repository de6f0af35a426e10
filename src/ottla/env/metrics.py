"""The metrics registry: what is counted is gathered when somebody asks, and costs next to nothing until then.

Whoever counts keeps plain numbers of his own and adds to them, once for a request or a batch, never for a record. A
collector reads these numbers and gives them as rows. All of that happens on the loop, so there are no locks; rows are
generated lazily, so that a scrape of a hundred thousand of them can let others have the loop in between.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    COUNTER = "counter"
    GAUGE = "gauge"
    SUMMARY = "summary"
    HISTOGRAM = "histogram"


class Family(NamedTuple):
    """All rows of one name. `help` is also what the reference page says."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


# What comes after the family's name (a suffix such as _count, and labels, as text), and the value.
Row = tuple[str, float]


class Gathered(NamedTuple):
    family: Family
    rows: Iterable[Row | None]
    """None is no row: a moment in which others may have the loop, for those who look at much and tell little."""


Collector = Callable[[], Iterable[Gathered]]


class Metrics:
    """The collectors of one node. A family is given by one of them only: its rows must stand together."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []
        self._refreshers: list[Callable[[], None]] = []

    def add(self, collector: Collector, *, refresh: Callable[[], None] | None = None) -> None:
        """`refresh` is called before a collector that needs it, in a thread: it may block."""
        self._collectors.append(collector)
        if refresh is not None:
            self._refreshers.append(refresh)

    def refresh(self) -> None:
        for refresher in self._refreshers:
            refresher()

    def gather(self) -> Iterator[Gathered]:
        for collector in self._collectors:
            yield from collector()


def labels(**values: object) -> str:
    """Labels as Prometheus writes them, for values that strangers may have chosen."""
    return "{" + ",".join(f'{name}="{escaped(str(value))}"' for name, value in values.items()) + "}"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


# Seconds. A small request takes 20 µs here, a fetch may wait for half a minute.
BOUNDS: Final = (
    1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
    30.0,
)  # fmt: skip
QUANTILES: Final = (0.5, 0.75, 0.95, 0.98, 0.99, 0.999)  # those of Kafka's own histograms
_HELD: Final = 1024


class Times:
    """How long something took: a histogram since the start, and quantiles of the last thousand or two.

    Noting is an append. Sorting a thousand at once into buckets costs less than finding the bucket of each. Threads may
    note too; if two of them fold at the very same moment, a few may be counted twice.
    """

    __slots__ = ("_held", "_recent", "count", "counts", "sum")

    def __init__(self) -> None:
        self.count = 0
        self.sum = 0.0
        self.counts = [0] * (len(BOUNDS) + 1)  # of each bucket alone; the last one is above all bounds
        self._held: list[float] = []
        self._recent: list[float] = []

    def note(self, seconds: float) -> None:
        held = self._held
        held.append(seconds)
        if len(held) >= _HELD:
            self.fold()

    def fold(self) -> None:
        """Brings `count`, `sum` and `counts` up to date."""
        held = self._held
        taken = held[: len(held)]
        del held[: len(taken)]
        if not taken:
            return
        self._recent = taken if len(taken) >= _HELD else [*self._recent, *taken][-_HELD:]
        taken = sorted(taken)
        self.count += len(taken)
        self.sum += sum(taken)
        below = 0
        for number, bound in enumerate(BOUNDS):
            upto = bisect_right(taken, bound)
            self.counts[number] += upto - below
            below = upto
        self.counts[-1] += len(taken) - below

    def quantiles(self) -> dict[float, float]:
        self.fold()
        recent = sorted(self._recent) or [0.0]
        return {share: recent[min(int(len(recent) * share), len(recent) - 1)] for share in QUANTILES}

    # -- rows

    def histogram(self, given: str = "") -> Iterator[Row]:
        """Rows in seconds; `given` are further labels, as text."""
        self.fold()
        inner = f"{given}," if given else ""
        upto = 0
        for bound, count in zip((*map(repr, BOUNDS), "+Inf"), self.counts, strict=True):
            upto += count
            yield f'_bucket{{{inner}le="{bound}"}}', upto
        outer = f"{{{given}}}" if given else ""
        yield f"_sum{outer}", self.sum
        yield f"_count{outer}", self.count

    def summary_ms(self, given: str = "") -> Iterator[Row]:
        """Rows in milliseconds, as Kafka has them."""
        inner = f"{given}," if given else ""
        for share, seconds in self.quantiles().items():
            yield f'{{{inner}quantile="{share}"}}', seconds * 1000
        outer = f"{{{given}}}" if given else ""
        yield f"_sum{outer}", self.sum * 1000
        yield f"_count{outer}", self.count
