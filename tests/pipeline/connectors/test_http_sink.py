from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.connectors.making import batch, problems_of, sink
from tests.pipeline.spark.pipelines import run_once, spec_of
from tests.spark.topics import messages, new_topic, write

from ottla.cli.dlq.letters import letter
from ottla.model.errors import OttlaError
from ottla.pipeline.connectors.http_sink import HttpSink
from ottla.pipeline.options import Span
from ottla.testing.node import RunningNode

SPEC = """
name: mails
sources:
  rows: {{topic: {source}, decode: json, schema: "id BIGINT, bad BOOLEAN"}}
sinks:
  out: {{http: "{url}", from: rows, key: id, refused: topic, refused-to: {letters}}}
"""


class Server(ThreadingHTTPServer):
    """Remembers what it got, and answers as it is told."""

    def __init__(self) -> None:
        self.got: list[tuple[str, Any]] = []
        self.answers: list[int] = []
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/effects"

    @property
    def effects(self) -> dict[str, Any]:
        return dict(self.got)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            status = server.answers.pop(0) if server.answers else 422 if body.get("bad") else 200
            if status == 200:
                server.got.append((self.headers["Idempotency-Key"], body))
        self.send_response(status)
        text = b"no such customer" if status == 422 else b""
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield running
        running.shutdown()
        thread.join()


def _sink(server: Server, **options: Any) -> Any:
    return sink(HttpSink, Path(), **{"http": server.url, "key": ("id",)} | options)


def test_each_row_is_a_request_and_a_repeated_batch_has_the_same_keys(spark: Any, server: Server) -> None:
    rows = spark.createDataFrame([(n, f"row {n}", "x") for n in range(50)], "id INT, text STRING, inner STRING")
    out = _sink(server, leave_out=("inner",))
    out.write(rows, batch(0))
    assert sorted(body["id"] for body in server.effects.values()) == list(range(50))
    assert all(body.keys() == {"id", "text"} for body in server.effects.values())
    out.write(rows.repartition(3), batch(0))
    assert len(server.got) == 100 and len(server.effects) == 50
    out.write(rows, batch(0, "replayed"))
    assert len(server.effects) == 100


def test_what_may_be_tried_again_is(spark: Any, server: Server) -> None:
    server.answers = [503, 429, 500]
    _sink(server).write(spark.createDataFrame([(1,), (2,)], "id INT"), batch(0))
    assert len(server.effects) == 2


def test_a_server_that_does_not_answer_ends_the_batch(spark: Any, server: Server) -> None:
    server.answers = [503] * 1000
    with pytest.raises(OttlaError, match=r"answers 503, 2 times"):
        _sink(server, retries=1).write(spark.createDataFrame([(1,)], "id INT"), batch(0))
    out = sink(HttpSink, Path(), http="http://127.0.0.1:9/x", key=("id",), retries=0, timeout=Span(1))
    with pytest.raises(OttlaError, match=r"http://127.0.0.1:9/x does not answer"):
        out.write(spark.createDataFrame([(1,)], "id INT"), batch(0))


def test_rows_that_are_refused_fail_or_are_told_apart(
    spark: Any, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = spark.createDataFrame([(1, False), (2, True)], "id INT, bad BOOLEAN")
    with pytest.raises(OttlaError, match=r"refuses 1 rows.*\"id\":2.*status 422: no such customer"):
        _sink(server).write(rows, batch(0))
    told: list[Any] = []
    monkeypatch.setattr(HttpSink, "_refused", lambda self, spark, refused: told.extend(refused))
    _sink(server, refused="topic", refused_to="letters").write(rows, batch(0))
    assert [(row.status, row.answer, json.loads(row.body)) for row in told] == [
        (422, "no such customer", {"id": 2, "bad": True})
    ]


def test_a_pipeline_goes_on_without_rows_that_are_refused_and_they_are_dead_letters(
    spark: Any, server: Server, node: RunningNode, tmp_path: Path
) -> None:
    source, letters = new_topic(node), new_topic(node)
    spec = spec_of(SPEC.format(source=source, letters=letters, url=server.url), node, tmp_path)
    (problem,) = (
        spec_of(SPEC.format(source=source, letters="nowhere", url=server.url), node, tmp_path)
        .sinks["out"]
        .sink.check_there()
    )
    assert "topic nowhere is not there" in problem.message
    write(node, source, [json.dumps({"id": n, "bad": n % 3 == 0}).encode() for n in range(1, 10)])
    run_once(spec, spark, tmp_path / "state")
    assert sorted(body["id"] for body in server.effects.values()) == [1, 2, 4, 5, 7, 8]
    dead = [letter(message) for message in messages(node, letters, "read_committed")]
    assert sorted(json.loads(one.value or b"")["id"] for one in dead) == [3, 6, 9]
    assert {json.dumps(one.about, sort_keys=True) for one in dead} == {
        json.dumps({"pipeline": "mails", "reason": f"{server.url} answers 422: no such customer", "stage": "sinks.out"})
    }


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("http: mail.example\nkey: id", "is no address"),
        ("http: http://x", "lacks `key`"),
        ("http: http://x\nkey: id\nrefused: topic", "needs refused-to"),
        ("http: http://x\nkey: id\nrefused-to: letters", "is for refused: topic"),
        ("http: http://x\nkey: id\nmethod: GET", "method is"),
        ("http: http://x\nkey: id\nretrys: 3", "did you mean retries?"),
    ],
)
def test_options_that_are_wrong(text: str, told: str) -> None:
    (problem,) = problems_of(HttpSink, text)
    assert told in problem.message
