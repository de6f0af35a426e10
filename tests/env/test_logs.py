"""Log lines for people and for programs."""

from __future__ import annotations

import io
import json
import logging
import re
import time
from collections.abc import Iterator

import pytest

from ottla.env import logs

LOGGER = logging.getLogger("ottla.test")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(False)


def test_a_line_says_when_how_bad_who_and_what() -> None:
    out = io.StringIO()
    logs.set_up("human", out)
    LOGGER.warning("%s is %d bytes too long", "x-0", 7)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} WARNING ottla.test: x-0 is 7 bytes too long\n", out.getvalue()
    )


def test_colour_is_for_terminals_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for out, coloured in ((io.StringIO(), False), (Terminal(), True)):
        logs.set_up("human", out)
        LOGGER.error("oh")
        assert ("\x1b[31m" in out.getvalue()) is coloured
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    logs.set_up("human", plain)
    LOGGER.error("oh")
    assert "\x1b" not in plain.getvalue()


def test_of_several_nodes_that_write_to_one_place_each_line_names_its_own() -> None:
    out = io.StringIO()
    logs.set_up("human", out, node_id=3, among_others=True)
    LOGGER.info("oh")
    assert out.getvalue().endswith(" INFO    node 3 ottla.test: oh\n")


def test_json_has_an_object_a_line_with_fields_of_its_own() -> None:
    out = io.StringIO()
    logs.set_up("json", out, node_id=3)
    LOGGER.info("closing %s", "it", extra={"peer": "10.0.0.1:9", "bytes": 12})
    LOGGER.info("two\nlines")
    first, second = map(json.loads, out.getvalue().splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("time"))
    assert first == {
        "level": "INFO", "logger": "ottla.test", "message": "closing it", "node_id": 3, "peer": "10.0.0.1:9",
        "bytes": 12,
    }  # fmt: skip
    assert second["message"] == "two\nlines"


@pytest.mark.parametrize("form", logs.FORMATS)
def test_an_exception_brings_its_trace(form: str) -> None:
    out = io.StringIO()
    logs.set_up(form, out)
    try:
        raise ValueError("password=hunter2")
    except ValueError:
        LOGGER.exception("it failed")
    text = out.getvalue()
    assert "Traceback" in text and "ValueError" in text
    assert "hunter2" not in text
    if form == "json":
        assert json.loads(text)["trace"].endswith("password=***")


def test_strangers_cannot_write_lines_or_steer_a_terminal() -> None:
    out = io.StringIO()
    logs.set_up("human", out)
    LOGGER.info("topic %s", "a\n2026-01-01 00:00:00,000 ERROR   ottla: forged\x1b[2J\u2028\x9b")
    assert out.getvalue().count("\n") == 1
    assert "\x1b" not in out.getvalue() and "\\x1b[2J\\u2028\\x9b" in out.getvalue()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ssl.key.password=abc next", "ssl.key.password=*** next"),
        ("sasl.jaas.config: 'x y z'; more", "sasl.jaas.config: ***; more"),
        ('{"client.secret": "abc", "user": "me"}', '{"client.secret": ***, "user": "me"}'),
        ("listener.name.x.ssl.key.password = abc, other=1", "listener.name.x.ssl.key.password = ***, other=1"),
        ("the password is wrong", "the password is wrong"),
        ('sasl.jaas.config=a.b.Plain required username="me" password="abc"; next', "sasl.jaas.config=***; next"),
        ("http://me:abc@proxy:3128/x?y", "http://me:***@proxy:3128/x?y"),
        ("access_token=abc&x", "access_token=***"),
        ("x-api-key: abc", "x-api-key: ***"),
        ("Authorization: Basic YWJj, next", "Authorization: Basic ***, next"),
        ("sent Bearer abcdefgh.ijk", "sent Bearer ***"),
        ("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END", "-----BEGIN EC PRIVATE KEY-----***-----END"),
        ("got eyJhbGciOiJI.eyJzdWIiOiIx.c2ln here", "got *** here"),
        ("at http://host:9092/topics", "at http://host:9092/topics"),
    ],
)  # fmt: skip
def test_what_looks_like_a_secret_is_blotted_out(text: str, shown: str) -> None:
    assert logs.without_secrets(text) == shown


@pytest.mark.parametrize("form", logs.FORMATS)
def test_strangers_cannot_write_lines_by_an_exception_either(form: str) -> None:
    out = io.StringIO()
    logs.set_up(form, out)
    forged = "2026-01-01 00:00:00,000 ERROR   ottla: forged"
    try:
        raise ValueError(f"bad name\n{forged}\x1b[2J\rgone")
    except ValueError:
        LOGGER.exception("it failed", extra={"asked": {"name": "a\nb", "password": "password=hunter2"}})
    lines = out.getvalue().splitlines()
    assert not any(line.startswith(forged[:10]) for line in lines[1:]), lines
    assert "\x1b" not in out.getvalue() and "\r" not in out.getvalue()
    assert "hunter2" not in out.getvalue()


def test_setting_up_again_replaces_the_old_one() -> None:
    first, second = io.StringIO(), io.StringIO()
    logs.set_up("human", first)
    logs.set_up("json", second)
    LOGGER.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "password" * 50_000,
        "password=" * 50_000,
        "password" + " " * 500_000,
        "://a:" * 100_000,
        "eyJ" * 200_000,
        "authorization " * 50_000,
        "jaas.config=" * 50_000,
        "bearer " * 100_000,
    ],
)
def test_looking_for_secrets_takes_no_longer_for_being_fooled(text: str) -> None:
    began = time.process_time()
    logs.without_secrets(text)
    assert time.process_time() - began < 5
