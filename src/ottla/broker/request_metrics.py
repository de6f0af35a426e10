"""Requests, errors and times by API; counted by the dispatcher, a few numbers for each request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from ottla.broker.context import Api
from ottla.env.metrics import Family, Gathered, Kind, Row, Times
from ottla.model.errors import ErrorCode

REQUESTS: Final = Family(
    "kafka_network_requestmetrics_requests_total", Kind.COUNTER, "Requests, by API and version.", ("request", "version")
)
ERRORS: Final = Family(
    "kafka_network_requestmetrics_errors_total", Kind.COUNTER,
    "Error codes in answers, by API; NONE counts the requests whose answers had none.", ("request", "error"),
)  # fmt: skip
TOTAL_TIME: Final = Family(
    "kafka_network_requestmetrics_totaltimems", Kind.SUMMARY,
    "From a request's last byte to its answer, in milliseconds: the time that it waited for data or acks is in it.",
    ("request", "quantile"),
)  # fmt: skip
SECONDS: Final = Family(
    "ottla_request_seconds",
    Kind.HISTOGRAM,
    "The same in seconds, to be summed over nodes; of Produce, Fetch and Metadata one in eight is in it.",
    ("request", "le"),
)


class ApiStats:
    __slots__ = ("api", "errors", "failed", "mark", "mask", "times", "versions")

    def __init__(self, api: Api) -> None:
        self.api = api
        self.versions = [0] * (api.newest + 1)
        self.times = Times()
        # Looking at a clock twice and noting it is a thirtieth of a small produce: of those one in eight is measured.
        self.mask, self.mark = (7, 1) if api.handle_raw is not None else (0, 0)
        self.errors: dict[ErrorCode, int] = {}
        self.failed = 0  # requests with an error in their answer

    def fail(self, codes: Iterable[ErrorCode]) -> None:
        """The errors of one answer."""
        self.failed += 1
        for code in codes:
            self.errors[code] = self.errors.get(code, 0) + 1

    @property
    def count(self) -> int:
        return sum(self.versions)

    @property
    def labels(self) -> tuple[str, ...]:
        """Kafka has each fetch twice: by its API, and by who asks. Followers are still to come."""
        return ("Fetch", "FetchConsumer") if self.api.name == "Fetch" else (self.api.name,)


class RequestMetrics:
    def __init__(self, apis: Iterable[Api]) -> None:
        self.by_key: Mapping[int, ApiStats] = {api.key: ApiStats(api) for api in apis}

    def collect(self) -> Iterator[Gathered]:
        asked = [(label, stats) for stats in self.by_key.values() if any(stats.versions) for label in stats.labels]
        yield Gathered(
            REQUESTS,
            (
                (f'{{request="{label}",version="{version}"}}', count)
                for label, stats in asked
                for version, count in enumerate(stats.versions)
                if count
            ),
        )
        yield Gathered(ERRORS, (row for label, stats in asked for row in _errors(label, stats)))
        yield Gathered(TOTAL_TIME, (row for name, stats in asked for row in _times(name, stats)))
        yield Gathered(SECONDS, (row for name, stats in asked for row in stats.times.histogram(_request(name))))


def _request(label: str) -> str:
    return f'request="{label}"'


def _errors(label: str, stats: ApiStats) -> Iterator[Row]:
    yield f'{{request="{label}",error="NONE"}}', stats.count - stats.failed
    for code, count in stats.errors.items():
        yield f'{{request="{label}",error="{code.name.upper()}"}}', count


def _times(label: str, stats: ApiStats) -> Iterator[Row]:
    """Count and sum stand for all requests, though not all were measured: rates are made of them."""
    for suffix, value in stats.times.summary_ms(_request(label)):
        if suffix.startswith("_sum"):
            yield suffix, value * stats.count / stats.times.count if stats.times.count else 0.0
        else:
            yield suffix, stats.count if suffix.startswith("_count") else value
