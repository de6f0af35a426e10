"""Requests, errors and times by API; counted by the dispatchers, a few numbers for each request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from ottla.broker.context import Api
from ottla.env.metrics import Family, Gathered, Kind, Row, Times
from ottla.model.errors import ErrorCode

REQUESTS: Final = Family(
    "kafka_network_requestmetrics_requests_total",
    Kind.COUNTER,
    "Requests, by API and version.",
    ("request", "role", "version"),
)
ERRORS: Final = Family(
    "kafka_network_requestmetrics_errors_total", Kind.COUNTER,
    "Error codes in answers, by API; NONE counts the requests whose answers had none.", ("request", "role", "error"),
)  # fmt: skip
TOTAL_TIME: Final = Family(
    "kafka_network_requestmetrics_totaltimems", Kind.SUMMARY,
    "From a request's last byte to its answer, in milliseconds: the time that it waited for data or acks is in it.",
    ("request", "role", "quantile"),
)  # fmt: skip
SECONDS: Final = Family(
    "ottla_request_seconds",
    Kind.HISTOGRAM,
    "The same in seconds, to be summed over nodes; of Produce, Fetch and Metadata one in eight is in it.",
    ("request", "role", "le"),
)


class ApiStats:
    __slots__ = ("api", "errors", "failed", "mark", "mask", "times", "versions")

    def __init__(self, api: Api) -> None:
        self.api = api
        self.versions = [0] * (api.newest + 1)
        self.times = Times()
        # Looking at a clock twice and noting it is a thirtieth of a small produce: of those one in eight is measured.
        self.mask, self.mark = (7, 1) if api.is_raw or api.reads_itself else (0, 0)
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
    """Of one role's listeners; `role` is a label of its own, so that brokers have the labels that Kafka's have."""

    def __init__(self, apis: Iterable[Api]) -> None:
        self.by_key: Mapping[int, ApiStats] = {api.key: ApiStats(api) for api in apis}
        self.role = ""

    def asked(self) -> Iterator[tuple[str, ApiStats]]:
        role = f',role="{self.role}"' if self.role else ""
        for stats in self.by_key.values():
            if any(stats.versions):
                for name in stats.labels:
                    yield f'request="{name}"{role}', stats


class RequestsOfAll:
    """Of all roles: the rows of a family stand together."""

    def __init__(self, roles: Callable[[], Iterable[RequestMetrics]]) -> None:
        self._roles = roles

    def collect(self) -> Iterator[Gathered]:
        asked = [row for role in self._roles() for row in role.asked()]
        yield Gathered(
            REQUESTS,
            (
                (f'{{{given},version="{version}"}}', count)
                for given, stats in asked
                for version, count in enumerate(stats.versions)
                if count
            ),
        )
        yield Gathered(ERRORS, (row for given, stats in asked for row in _errors(given, stats)))
        yield Gathered(TOTAL_TIME, (row for given, stats in asked for row in _times(given, stats)))
        yield Gathered(SECONDS, (row for given, stats in asked for row in stats.times.histogram(given)))


def _errors(given: str, stats: ApiStats) -> Iterator[Row]:
    yield f'{{{given},error="NONE"}}', stats.count - stats.failed
    for code, count in stats.errors.items():
        yield f'{{{given},error="{code.name.upper()}"}}', count


def _times(given: str, stats: ApiStats) -> Iterator[Row]:
    """Count and sum stand for all requests, though not all were measured: rates are made of them."""
    for suffix, value in stats.times.summary_ms(given):
        if suffix.startswith("_sum"):
            yield suffix, value * stats.count / stats.times.count if stats.times.count else 0.0
        else:
            yield suffix, stats.count if suffix.startswith("_count") else value
