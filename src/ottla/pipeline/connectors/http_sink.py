"""A request for each row, with a key by which the other side recognises what it has had already.

HTTP has no transactions: a batch that is repeated is sent again. So each request has a header Idempotency-Key that is
the same whenever that row is sent, and the other side must do things once for each key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from ottla.model.errors import OttlaError
from ottla.pipeline import cluster_questions
from ottla.pipeline.connectors.changes import check_columns, not_written
from ottla.pipeline.connectors.port import Batch, DataFrame, Sink, StructType
from ottla.pipeline.connectors.storage import first_line, missing
from ottla.pipeline.connectors.task_errors import from_tasks
from ottla.pipeline.dead_letters import PREFIX
from ottla.pipeline.options import Span, option
from ottla.pipeline.problems import Problem

if TYPE_CHECKING:
    import pyarrow as pa

_AGAIN: Final = (408, 425, 429, 500, 502, 503, 504)
_REFUSED: Final = "key STRING, status INT, answer STRING, body STRING"
_ANSWER: Final = 1000
_KEY, _BODY = "__ottla_key", "__ottla_body"


@dataclass(frozen=True, slots=True)
class HttpSinkOptions:
    http: str = option("Where requests are sent.", example="https://mail.example/send")
    key: tuple[str, ...] = option(
        "Columns that say which effect a row has: requests of rows with the same values carry the same Idempotency-Key."
    )
    method: str = option("Of the requests.", "POST", choices=("POST", "PUT", "PATCH", "DELETE"))
    headers: Mapping[str, str] | None = option("Headers that every request has besides.", None)
    leave_out: tuple[str, ...] = option("Columns that are not in the body, which is a JSON object of the others.", ())
    parallel: int = option("How many requests a task has under way at a time; their order is not kept.", 8)
    timeout: Span = option("How long an answer may take.", Span(30))
    retries: int = option(
        "How often a request is tried again, after longer and longer pauses, that got no answer, or one that says to "
        f"({', '.join(map(str, _AGAIN))}).",
        8,
    )
    refused: str = option(
        "What happens to rows that the other side refuses (other answers of 400 and more): the batch fails, or they go "
        "to the topic refused-to.",
        "fail",
        choices=("fail", "topic"),
    )
    refused_to: str | None = option(
        "The topic for rows that were refused: dead letters, with status and answer as the reason.", None
    )


class HttpSink(Sink):
    options: ClassVar[type] = HttpSinkOptions
    doc: ClassVar[str] = (
        "A request for each row, at least once, with an Idempotency-Key that is the same when a batch is repeated."
    )
    given: HttpSinkOptions

    def check(self) -> Iterable[Problem]:
        parts = urlsplit(self.given.http)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            yield Problem(("http",), f"{self.given.http} is no address: https://host/path")
        if not self.given.key:
            yield Problem(("key",), "key names no column")
        if self.given.parallel < 1:
            yield Problem(("parallel",), "parallel must be 1 or more")
        if self.given.refused == "topic" and self.given.refused_to is None:
            yield Problem(("refused",), "refused: topic needs refused-to: the topic's name")
        if self.given.refused_to is not None and self.given.refused != "topic":
            yield Problem(("refused-to",), "refused-to is for refused: topic", at_name=True)

    def check_there(self) -> Iterable[Problem]:
        if self.given.refused_to is not None:
            why = cluster_questions.missing_topic(self.place.bootstrap, self.given.refused_to)
            if why is not None:
                yield Problem(("refused-to",), why)

    def check_rows(self, schema: StructType) -> Iterable[Problem]:
        named = [("key", self.given.key), ("leave-out", self.given.leave_out)]
        yield from check_columns(named, schema.fieldNames())

    def write(self, rows: DataFrame, batch: Batch) -> None:
        from pyspark.sql import functions as f

        left_out = not_written(rows.columns, self.given.leave_out)
        inside = [f.col(f"`{name}`") for name in rows.columns if name not in left_out]
        keys = f.to_json(f.struct(*[f.col(f"`{name}`") for name in self.given.key]), {"ignoreNullFields": "false"})
        prepared = rows.select(keys.alias(_KEY), f.to_json(f.struct(*inside)).alias(_BODY))
        with from_tasks():
            refused = prepared.mapInArrow(_sending(self.given, batch.query), _REFUSED).collect()
        if refused:
            self._refused(rows.sparkSession, refused)

    def _refused(self, spark: Any, refused: list[Any]) -> None:
        if self.given.refused == "fail":
            first = refused[0]
            raise OttlaError(
                f"{self.given.http} refuses {len(refused)} rows, the first ({first.body}) with status {first.status}: "
                f"{first.answer.strip()}. refused: topic goes on without such rows"
            )
        records = [(row.key.encode(), row.body.encode(), self._headers(row)) for row in refused]
        kinds = "key BINARY, value BINARY, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"
        frame = spark.createDataFrame(records, kinds).coalesce(1)
        writer = frame.write.format("ottla").option("kafka.bootstrap.servers", self.place.bootstrap)
        writer.option("topic", self.given.refused_to).option("includeHeaders", "true").mode("append").save()

    def _headers(self, row: Any) -> list[tuple[str, bytes]]:
        """As dead letters have them, so that `ottla dlq` understands."""
        about = {
            "reason": f"{self.given.http} answers {row.status}: {row.answer.strip()}".rstrip(": "),
            "stage": f"sinks.{self.place.entry}",
            "pipeline": self.place.pipeline,
        }
        return [(PREFIX + name, text.encode()) for name, text in about.items()]


def idempotency_key(query: str, key: str) -> str:
    return hashlib.sha256(f"{query}\0{key}".encode()).hexdigest()[:40]


def _sending(given: HttpSinkOptions, query: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def send(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        sender = Sender(given)
        with ThreadPoolExecutor(given.parallel) as threads:
            for batch in batches:
                keys, bodies = batch.column(_KEY).to_pylist(), batch.column(_BODY).to_pylist()
                numbered = [idempotency_key(query, key) for key in keys]
                answers = list(threads.map(sender.send, numbered, bodies))
                rows = [
                    (key, answer[0], answer[1], body)
                    for key, answer, body in zip(numbered, answers, bodies, strict=True)
                    if answer is not None
                ]
                kinds = (pa.string(), pa.int32(), pa.string(), pa.string())
                columns = [pa.array([row[n] for row in rows], kind) for n, kind in enumerate(kinds)]
                yield pa.record_batch(columns, names=["key", "status", "answer", "body"])

    return send


class Sender:
    def __init__(self, given: HttpSinkOptions) -> None:
        try:
            import urllib3
        except ModuleNotFoundError as error:
            raise missing(error) from None
        self._given = given
        retry = urllib3.Retry(
            total=given.retries,
            status_forcelist=_AGAIN,
            allowed_methods=None,
            backoff_factor=0.1,
            backoff_max=20,
            backoff_jitter=0.1,
            raise_on_status=False,
            redirect=False,
        )
        timeout = urllib3.Timeout(given.timeout.seconds)
        self._pool = urllib3.PoolManager(maxsize=given.parallel, block=True, retries=retry, timeout=timeout)

    def send(self, key: str, body: str) -> tuple[int, str] | None:
        """Status and answer if it was refused. OttlaError if it could not be sent, also after a while."""
        import urllib3

        headers = {"Content-Type": "application/json", **(self._given.headers or {}), "Idempotency-Key": key}
        try:
            answer = self._pool.request(self._given.method, self._given.http, body=body.encode(), headers=headers)
        except urllib3.exceptions.HTTPError as error:
            raise OttlaError(f"{self._given.http} does not answer: {first_line(error)}") from error
        if answer.status in _AGAIN:
            raise OttlaError(f"{self._given.http} answers {answer.status}, {self._given.retries + 1} times")
        if answer.status >= 300:
            return answer.status, answer.data.decode(errors="replace")[:_ANSWER]
        return None
